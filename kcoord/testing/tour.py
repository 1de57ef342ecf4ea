"""The tour: what works so far, step by step, on an embedded cluster and with a real client from another process."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.step import Step, TourFailed
from kcoord.testing.tour_groups import group_steps
from kcoord.wire.client import Client, Disconnected

_topic, _partitions, _count = "orders", 6, 10_000
_metadata, _create_topics, _fetch, _list_offsets = 3, 19, 1, 2


def tour() -> Iterator[Step]:
    """The steps, each done when it is asked for."""
    began = time.monotonic()
    with EmbeddedCluster(brokers=3, settings={"group.min.session.timeout.ms": "1000"}) as cluster:
        yield _started(cluster, time.monotonic() - began)
        with _client(cluster) as client:
            yield _topic_made(client)
            written, step = _written(cluster)
            yield step
            yield _read_back(cluster, written)
            yield _offsets(cluster)
        yield from group_steps(cluster, _topic, _partitions)
        yield _long_poll(cluster)
        yield _broken_client(cluster)


def _started(cluster: EmbeddedCluster, seconds: float) -> Step:
    with _client(cluster) as client:
        brokers = client.ask(_metadata, 12, topics=None).brokers
    rows = [(str(broker.node_id), f"{broker.host}:{broker.port}") for broker in brokers]
    return Step(
        title="A cluster of three brokers, in one process",
        said=(
            f"kcoord serve --brokers 3 was ready after {seconds * 1000:.0f} ms.",
            f"Cluster id {cluster.cluster_id}, process {cluster.pid}.",
        ),
        rows=(("broker", "address"), *rows),
    )


def _topic_made(client: Client) -> Step:
    new = {"name": _topic, "num_partitions": _partitions, "replication_factor": 3}
    made = client.ask(_create_topics, 7, topics=[new]).topics[0]
    if made.error_code:
        raise TourFailed(f"the topic was not made: {made.error_message}")
    lines = client.ask(_metadata, 12, topics=[{"name": _topic}]).topics[0].partitions
    rows = [(str(line.partition_index), str(line.leader_id), ", ".join(map(str, line.replica_nodes))) for line in lines]
    return Step(
        title=f"A topic, {_topic}",
        said=(f"CreateTopics over the wire: topic id {made.topic_id}.",),
        rows=(("partition", "leader", "replicas"), *rows),
    )


def _written(cluster: EmbeddedCluster) -> tuple[dict[str, Any], Step]:
    told = _in_another_process("produce", cluster, _count)
    rows = [(partition, str(records)) for partition, records in told["records"].items()]
    step = Step(
        title="A real producer, in another process",
        said=(
            f"{told['client']} wrote {_count:,} records in {told['seconds']:.2f} s: idempotent, acks=all, lz4.",
            f"Digest of what was acknowledged: {told['digest']}.",
        ),
        rows=(("partition", "records"), *rows),
    )
    return told, step


def _read_back(cluster: EmbeddedCluster, written: dict[str, Any]) -> Step:
    told = _in_another_process("consume", cluster, _count)
    if told["digest"] != written["digest"]:
        raise TourFailed(f"what was read ({told['digest']}) is not what was written ({written['digest']})")
    return Step(
        title="A real consumer, in another process",
        said=(
            f"{told['client']} read them back in {told['seconds']:.2f} s.",
            f"Digest of what was read: {told['digest']}. The same.",
        ),
    )


def _offsets(cluster: EmbeddedCluster) -> Step:
    rows: list[tuple[str, ...]] = []
    for index, address in enumerate(cluster.bootstrap.split(",")):
        with _connect(address) as client:
            led = range(index, _partitions, 3)
            rows += [(str(p), str(_offset(client, p, -2)), str(_offset(client, p, -1))) for p in led]
    return Step(
        title="Its offsets",
        said=("ListOffsets, asked of each partition's leader.",),
        rows=(("partition", "earliest", "latest"), *sorted(rows)),
    )


def _offset(client: Client, partition: int, timestamp: int) -> int:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
    answer = client.ask(_list_offsets, 7, replica_id=-1, topics=[{"name": _topic, "partitions": [asked]}])
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def _long_poll(cluster: EmbeddedCluster) -> Step:
    """Wait at the end of a partition while another process writes to it."""
    with _client(cluster) as client:
        end = _offset(client, 0, -1)
        partition = {"partition": 0, "fetch_offset": end, "partition_max_bytes": 1 << 20}
        began = time.monotonic()
        client.send(
            _fetch,
            12,
            max_wait=timedelta(seconds=20),
            min_bytes=1,
            session_epoch=-1,
            topics=[{"topic": _topic, "partitions": [partition]}],
        )
        _in_another_process("produce", cluster, 97)
        fetched = client.receive(_fetch, 12).responses[0].partitions[0]
    if not fetched.records:
        raise TourFailed("the waiting Fetch came back with nothing")
    return Step(
        title="A Fetch that waits",
        said=(
            f"A Fetch at offset {end}, the end of partition 0, allowed to wait for 20 s, was parked.",
            f"Another process wrote to the partition; the Fetch came back after {time.monotonic() - began:.2f} s "
            f"with {len(fetched.records)} bytes.",
        ),
    )


def _broken_client(cluster: EmbeddedCluster) -> Step:
    lying = b"\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff" + b"\x7f\xff\xff\xff"
    with _client(cluster) as broken, _client(cluster) as other:
        broken.send_bytes(len(lying).to_bytes(4) + lying)
        try:
            broken.receive_frame()
        except Disconnected:
            pass
        else:
            raise TourFailed("the broken request was answered")
        brokers = len(other.ask(_metadata, 12, topics=None).brokers)
    logged = [line for line in cluster.log().splitlines() if "closed peer=" in line]
    return Step(
        title="A broken client harms nobody",
        said=(
            "A Metadata request that claims 2,147,483,647 topics and brings none was hung up on, with one line:",
            f"  {logged[-1] if logged else ''}",
            f"Another client, meanwhile: {brokers} brokers, all is well.",
        ),
    )


def _client(cluster: EmbeddedCluster) -> Client:
    return _connect(cluster.bootstrap.split(",")[0])


def _connect(address: str) -> Client:
    host, _, port = address.rpartition(":")
    return Client(host, int(port), client_id="tour")


def _in_another_process(verb: str, cluster: EmbeddedCluster, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "kcoord.testing.tour_client", verb, cluster.bootstrap, _topic, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - our own
    except subprocess.TimeoutExpired:
        raise TourFailed("the client did not come to an end") from None
    if done.returncode:
        raise TourFailed(f"the client failed: {''.join(done.stderr.strip().splitlines()[-1:])}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
