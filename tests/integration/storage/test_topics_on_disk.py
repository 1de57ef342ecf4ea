"""`kcoord serve --data-dir`: topics survive the process, a broker's folder is served, Kafka's tools read ours."""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, read_records, write_batch
from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster, serve_command
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools

now_ms = time.time_ns() // 1_000_000


def client_of(cluster: EmbeddedCluster | Cluster) -> Client:
    host, _, port = cluster.bootstrap.rpartition(":")
    return Client(host, int(port))


def produce(client: Client, topic: str, partition: int, records: bytes) -> Any:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    response = client.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=30_000, topic_data=data)
    return response.responses[0].partition_responses[0]


def produce_surely(client: Client, topic: str, partition: int, records: bytes) -> None:
    """Retries a produce: a broker that has just started may not lead its partitions yet."""
    deadline = time.monotonic() + 60
    while (line := produce(client, topic, partition, records)).error_code is not ErrorCode.none:
        assert time.monotonic() < deadline, line
        time.sleep(0.1)


def fetch(client: Client, topic: str, partition: int, offset: int) -> Any:
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 24, "current_leader_epoch": -1}
    topics = [{"topic": topic, "partitions": [asked]}]
    response = client.ask(
        ApiKey.FETCH, 12, max_wait_ms=0, min_bytes=0, max_bytes=1 << 26, session_epoch=-1, topics=topics
    )
    return response.responses[0].partitions[0]


def values_of(client: Client, topic: str, partition: int = 0) -> list[bytes | None]:
    records = fetch(client, topic, partition, 0).records or b""
    return [record.value for batch in split_batches(records) for record in read_records(batch)]


def topics_of(client: Client) -> list[dict[str, Any]]:
    """Returns all topics of clients, by name."""
    topics = client.ask(ApiKey.METADATA, 12, topics=None).topics
    return sorted((asdict(topic) for topic in topics if not topic.is_internal), key=lambda topic: str(topic["name"]))


def create(client: Client, name: str, partitions: int, configs: dict[str, str] | None = None) -> None:
    settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": settings}
    (line,) = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=30_000).topics
    assert line.error_code is ErrorCode.none


# Our own folder


@pytest.mark.parametrize("fsync", [False, True])
def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path, fsync: bool) -> None:
    settings = {"log.segment.bytes": "40000"}
    delivered: list[tuple[int, int, bytes]] = []

    def note(error: object, message: Any) -> None:
        if error is None:
            delivered.append((message.partition(), message.offset(), message.value()))

    for life in range(3):
        with EmbeddedCluster(
            topics={"orders": 3}, settings=settings, data_dir=tmp_path / "data", fsync=fsync
        ) as cluster:
            producer = Producer(
                {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 20, "message.timeout.ms": 2000}
            )
            enough, deadline = len(delivered) + 3000, time.monotonic() + 60
            while len(delivered) < enough:
                assert time.monotonic() < deadline
                producer.produce("orders", f"{life} {len(delivered)} " + "x" * 60, on_delivery=note)
                producer.poll(0.01 if len(producer) > 2000 else 0)
            cluster.kill()
            producer.purge()
            producer.flush(10)
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, client_of(cluster) as client:
        found = {
            (partition, record.offset): record.value
            for partition in range(3)
            for record in all_records(client, "orders", partition)
        }
    assert [each for each in delivered if found.get(each[:2]) != each[2]] == []
    segments = sorted((tmp_path / "data" / "orders-0").glob("*.log"))
    assert len(segments) > 1


def all_records(client: Client, topic: str, partition: int) -> list[Record]:
    found: list[Record] = []
    while records := fetch(client, topic, partition, found[-1].offset + 1 if found else 0).records:
        found += [record for batch in split_batches(records) for record in read_records(batch)]
    return found


def test_topics_ids_deletions_and_start_offsets_outlive_the_process(tmp_path: Path) -> None:
    with EmbeddedCluster(data_dir=tmp_path) as cluster, client_of(cluster) as client:
        cluster_id = cluster.cluster_id
        create(client, "kept", 2, {"retention.ms": "123456789"})
        create(client, "gone", 1)
        produce(client, "kept", 1, write_batch([Record(timestamp=now_ms, value=b"%d" % i) for i in range(5)]))
        deleted = [{"name": "kept", "partitions": [{"partition_index": 1, "offset": 3}]}]
        client.ask(ApiKey.DELETE_RECORDS, 2, topics=deleted, timeout_ms=1000)
        client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "gone", "topic_id": None}], timeout_ms=1000)
        before = topics_of(client)
        cluster.kill()
    with EmbeddedCluster(topics={"kept": 2}, data_dir=tmp_path) as cluster, client_of(cluster) as client:
        assert cluster.cluster_id == cluster_id
        assert topics_of(client) == before
        line = fetch(client, "kept", 1, 3)
        assert (line.log_start_offset, line.high_watermark) == (3, 5)
        assert fetch(client, "kept", 1, 2).error_code is ErrorCode.offset_out_of_range


def test_a_duplicate_is_known_and_no_producer_id_given_again_after_kill_9(tmp_path: Path) -> None:
    def batch(producer_id: int, sequence: int) -> bytes:
        stamp = ProducerStamp(id=producer_id, epoch=0, base_sequence=sequence)
        return write_batch([Record(timestamp=now_ms, value=b"%d" % sequence)], producer=stamp)

    ids: list[int] = []
    for life in range(3):
        with EmbeddedCluster(topics={"t": 1}, data_dir=tmp_path) as cluster, client_of(cluster) as client:
            if ids:
                assert produce(client, "t", 0, batch(ids[-1], 1)).base_offset == 2 * life - 1
            ids.append(
                client.ask(
                    ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=timedelta(0)
                ).producer_id
            )
            assert [produce(client, "t", 0, batch(ids[-1], n)).base_offset for n in (0, 1)] == [2 * life, 2 * life + 1]
            assert values_of(client, "t") == [b"0", b"1"] * (life + 1)
            cluster.kill()
    assert len(set(ids)) == 3


def test_a_torn_tail_is_cut_off_and_a_damaged_log_fails_alone(tmp_path: Path) -> None:
    with EmbeddedCluster(topics={"t": 3}, data_dir=tmp_path) as cluster, client_of(cluster) as client:
        for partition in range(3):
            for number in range(3):
                produce(client, "t", partition, write_batch([Record(timestamp=now_ms, value=b"%d" % number)]))
        cluster.kill()
    torn, damaged = (tmp_path / f"t-{partition}" / "00000000000000000000.log" for partition in (0, 1))
    torn.write_bytes(torn.read_bytes()[:-5])
    content = bytearray(damaged.read_bytes())
    content[40] ^= 1
    damaged.write_bytes(content)
    with EmbeddedCluster(data_dir=tmp_path) as cluster, client_of(cluster) as client:
        assert values_of(client, "t", 0) == [b"0", b"1"]
        assert values_of(client, "t", 2) == [b"0", b"1", b"2"]
        batch = write_batch([Record(timestamp=now_ms, value=b"new")])
        assert [produce(client, "t", partition, batch).error_code for partition in range(3)] == [
            ErrorCode.none,
            ErrorCode.kafka_storage_error,
            ErrorCode.none,
        ]
        assert fetch(client, "t", 1, 0).error_code is ErrorCode.kafka_storage_error
        for timestamp in (-1, -2, -3, now_ms):
            asked = [{"name": "t", "partitions": [{"partition_index": 1, "timestamp": timestamp}]}]
            (line,) = (
                client.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=asked).topics[0].partitions
            )
            assert line.error_code is ErrorCode.kafka_storage_error
        cluster.stop()
        assert len(re.findall(r"WARNING torn tail log=t-0 segment=0 bytes=\d+", cluster.log())) == 1
        assert len(re.findall(r"ERROR log failed log=t-1", cluster.log())) == 1
        assert "Traceback" not in cluster.log()
    assert damaged.read_bytes() == bytes(content)


@pytest.mark.parametrize("case", ["taken", "file", "partitions"])
def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path, case: str) -> None:
    with EmbeddedCluster(topics={"t": 2}, data_dir=tmp_path / "data") as running:
        if case != "taken":
            running.stop()
        (tmp_path / "file").write_text("x")
        folder = tmp_path / ("file" if case == "file" else "data")
        command = serve_command(1, {"t": 3} if case == "partitions" else {}, {}, folder)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    messages = {
        "taken": f"kcoord: {folder} is in use by another process\n",
        "file": f"kcoord: {folder} is not a folder\n",
        "partitions": "kcoord: the topic 't' is there with 2 partitions, not 3\n",
    }
    assert (done.returncode, done.stdout, done.stderr) == (1, "", messages[case])


def test_a_stopped_server_leaves_nothing_open_and_a_folder_that_starts_again(tmp_path: Path) -> None:
    for how in (signal.SIGTERM, signal.SIGINT):
        with EmbeddedCluster(topics={"t": 2}, data_dir=tmp_path, fsync=True) as cluster, client_of(cluster) as client:
            produce(client, "t", 0, write_batch([Record(timestamp=now_ms, value=how.name.encode())]))
            cluster.stop()
            assert "Traceback" not in cluster.log()
    with EmbeddedCluster(data_dir=tmp_path) as cluster, client_of(cluster) as client:
        assert values_of(client, "t") == [b"SIGTERM", b"SIGINT"]


# Kafka's tools


def test_kafka_reads_our_segments(tmp_path: Path, java_tools: JavaTools) -> None:
    settings = {"log.segment.bytes": "600"}
    with (
        EmbeddedCluster(topics={"t": 1}, settings=settings, data_dir=tmp_path) as cluster,
        client_of(cluster) as client,
    ):
        for number, codec in enumerate([*Codec] * 2):
            stamp = ProducerStamp(id=7, epoch=0, base_sequence=2 * number)
            records = [Record(timestamp=now_ms + number, key=b"k", value=b"%d %d" % (number, i)) for i in range(2)]
            assert produce(client, "t", 0, write_batch(records, codec=codec, producer=stamp)).error_code == 0
    segments = sorted((tmp_path / "t-0").glob("*.log"))
    snapshots = sorted((tmp_path / "t-0").glob("*.snapshot"))
    assert len(segments) > 1
    assert len(snapshots) == len(segments) - 1
    files = ",".join(map(str, [*segments, *snapshots]))
    output = java_tools.run("dump-log", "--files", files, "--deep-iteration", "--print-data-log").stdout
    assert re.findall(r"payload: (\d+ \d)$", output, re.MULTILINE) == [f"{n} {i}" for n in range(10) for i in range(2)]
    assert output.count("isvalid: true") == 10
    assert re.findall(r"producerId: 7 producerEpoch: 0", output)
    assert not re.search(r"(?i)error|mismatch|invalid|corrupt", output)


# A broker's folder


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(properties={"offsets.topic.num.partitions": "3", "log.segment.bytes": "1048576"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def of_broker(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A copy of a killed broker's folder, and the broker's answers before."""
    with client_of(kafka) as client:
        create(client, "codecs", 1)
        create(client, "large", 2, {"segment.bytes": "1048576", "cleanup.policy": "compact"})
        create(client, "cut", 1)
        create(client, "gone", 1)
        create(client, "empty", 3, {"retention.ms": "7654321"})
        for codec in Codec:
            records = [Record(timestamp=now_ms + i, key=b"k%d" % i, value=b"v" * 20) for i in range(7)]
            produce_surely(client, "codecs", 0, write_batch(records, codec=codec))
        for number in range(40):
            records = [Record(timestamp=now_ms + number, key=b"%d" % i, value=b"v" * 1000) for i in range(50)]
            produce_surely(client, "large", number % 2, write_batch(records))
            produce_surely(client, "cut", 0, write_batch(records[:2]))
        deleted = [{"name": "cut", "partitions": [{"partition_index": 0, "offset": 33}]}]
        client.ask(ApiKey.DELETE_RECORDS, 2, topics=deleted, timeout_ms=10_000)
    kafka.restart(1)  # this gives the leaders another epoch, and writes start offsets
    with client_of(kafka) as client:
        for topic in ("codecs", "cut", "large"):
            produce_surely(client, topic, 0, write_batch([Record(timestamp=now_ms + 99, key=b"later", value=b"v")]))
        client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "gone", "topic_id": None}], timeout_ms=10_000)
        answers, deadline = answers_of(client), time.monotonic() + 60
        while set(re.findall(r"ErrorCode\.(\w+)", repr(answers))) != {"none"}:
            assert time.monotonic() < deadline, "the broker does not lead all of its partitions"
            answers = answers_of(client)
    kafka.kill(1)
    copy = tmp_path_factory.mktemp("broker") / "data"
    shutil.copytree(kafka.brokers[0].data_dir, copy)
    return copy, answers


def answers_of(client: Client) -> dict[str, Any]:
    topics = topics_of(client)
    answers: dict[str, Any] = {"metadata": topics}
    for topic, partition in [(each["name"], index) for each in topics for index in range(len(each["partitions"]))]:
        for timestamp in (-1, -2, -3, now_ms, now_ms + 20, now_ms + 99, now_ms + 10**6):
            asked = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}]
            response = client.ask(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=asked)
            answers[f"{topic}-{partition} at {timestamp}"] = [asdict(line) for line in response.topics]
        for epoch in range(4):
            asked = [{"topic": topic, "partitions": [{"partition": partition, "leader_epoch": epoch}]}]
            response = client.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=asked)
            answers[f"{topic}-{partition} epoch {epoch}"] = [asdict(line) for line in response.topics]
        (start,) = answers[f"{topic}-{partition} at -2"][0]["partitions"]
        answers[f"{topic}-{partition} records"] = asdict(fetch(client, topic, partition, start["offset"]))
    return answers


def test_a_folder_of_a_broker_is_served_as_the_broker_did(
    of_broker: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy, expected = of_broker
    shutil.copytree(copy, tmp_path / "data")
    for life in range(2):  # before and after kcoord served it
        with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, client_of(cluster) as client:
            log_line = "taken over topic=empty partitions=3 settings={'retention.ms': '7654321'}"
            assert cluster.log().count(log_line) == 1 - life
            answers = answers_of(client)
            differences = {
                key: (answers.get(key), expected[key]) for key in expected if answers.get(key) != expected[key]
            }
            assert differences == {}
            assert answers.keys() == expected.keys()
            assert "WARNING" not in cluster.log()
            assert "ERROR" not in cluster.log()


def test_what_we_append_to_a_folder_of_a_broker_is_read_by_kafka(
    of_broker: tuple[Path, dict[str, Any]], tmp_path: Path, java_tools: JavaTools
) -> None:
    shutil.copytree(of_broker[0], tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, client_of(cluster) as client:
        batch = write_batch([Record(timestamp=now_ms + 200, key=b"k", value=b"of kcoord")])
        assert produce(client, "codecs", 0, batch).base_offset == 36
    folder = tmp_path / "data" / "codecs-0"
    output = java_tools.run("dump-log", "--files", str(folder / "00000000000000000000.log"), "--print-data-log").stdout
    last = output.splitlines()[-2:]
    assert "baseOffset: 36 " in last[0]
    assert "payload: of kcoord" in last[1]
    epochs = re.findall(r"partitionLeaderEpoch: (\d+)", output)
    assert epochs == sorted(epochs)
    assert epochs[-1] == epochs[-2] != "0"
    assert not list(folder.glob("*.index"))


def test_partitions_that_another_broker_had_are_made_empty(
    of_broker: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    shutil.copytree(of_broker[0], tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "empty-1")
    shutil.rmtree(tmp_path / "data" / "large-1")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, client_of(cluster) as client:
        sizes = {topic.name: len(topic.partitions) for topic in client.ask(ApiKey.METADATA, 12, topics=None).topics}
        assert (sizes["empty"], sizes["large"]) == (3, 2)
        assert fetch(client, "large", 1, 0).high_watermark == 0
        assert cluster.log().count("missing logs=empty-1,large-1: made empty") == 1
