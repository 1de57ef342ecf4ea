"""The requests of the proxy's benchmark, in versions that a Java client of Kafka 4.3 uses, and their topics."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record, write_batch
from tests.bench.support import client
from tests.bench.support.trips import frame

PRODUCE, FETCH, LIST_OFFSETS, METADATA = (
    (ApiKey.PRODUCE, 13),
    (ApiKey.FETCH, 18),
    (ApiKey.LIST_OFFSETS, 10),
    (ApiKey.METADATA, 13),
)
JOIN_GROUP, HEARTBEAT, SYNC_GROUP = (ApiKey.JOIN_GROUP, 9), (ApiKey.HEARTBEAT, 4), (ApiKey.SYNC_GROUP, 5)
SMALL, WRITTEN, LARGE = "bench-small", "bench-written", "bench-large"
SMALL_VALUE = 100  # bytes
LARGE_VALUE, LARGE_BATCHES = 1_000_000, 20  # each of one record; more than the largest answer
# Longer than the benchmark, and as long as a broker allows: a member sends heartbeats only while it is measured.
SESSION = timedelta(minutes=30)
TOPICS_WAIT = COORDINATOR_WAIT = 60.0
_LATEST = -1
_NOT_YET = {ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}


class Requests:
    """`Requests(bootstrap)` makes the topics and fills them; frames are then the same for every way to the broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        for topic in (SMALL, WRITTEN, LARGE):
            client.create_topic(bootstrap, topic)
        self._ids = _topic_ids(bootstrap, (SMALL, WRITTEN, LARGE))
        with connect(bootstrap) as asking:
            for topic, size, count in ((SMALL, SMALL_VALUE, 1), (LARGE, LARGE_VALUE, LARGE_BATCHES)):
                for _ in range(count):
                    _produced(asking, self._produce(topic, size))

    def small_fetch(self) -> bytes:
        """Returns a Fetch of one small batch; it never waits."""
        return self._fetch(SMALL, 1 << 20)

    def large_fetch(self, size: int) -> bytes:
        return self._fetch(LARGE, size)

    def small_produce(self) -> bytes:
        return self._produce(WRITTEN, SMALL_VALUE)

    def written(self) -> int:
        """Returns how many records small_produce has written."""
        partition = {"partition_index": 0, "timestamp": _LATEST}
        with connect(self._bootstrap) as asking:
            answer = asking.ask(*LIST_OFFSETS, replica_id=-1, topics=[{"name": WRITTEN, "partitions": [partition]}])
        (topic,) = answer.topics
        (found,) = topic.partitions
        assert found.error_code is ErrorCode.none, found
        return int(found.offset)

    def heartbeat(self, address: str) -> bytes:
        """Returns a Heartbeat of the only member of a group, which has joined at that address."""
        group = f"bench-{uuid4()}"
        with connect(address) as asking:
            member, generation = _joined(asking, group)
        return frame(*HEARTBEAT, group_id=group, generation_id=generation, member_id=member)

    def _fetch(self, topic: str, size: int) -> bytes:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": size}
        topics = [{"topic_id": self._ids[topic], "partitions": [partition]}]
        return frame(*FETCH, min_bytes=1, max_bytes=size, topics=topics)

    def _produce(self, topic: str, size: int) -> bytes:
        record = Record(timestamp=time.time_ns() // 1_000_000, value=b"k" * size)
        partition = {"index": 0, "records": write_batch([record])}
        topics = [{"topic_id": self._ids[topic], "partition_data": [partition]}]
        return frame(*PRODUCE, acks=1, timeout=timedelta(seconds=30), topic_data=topics)


def connect(address: str) -> Client:
    host, _, port = address.rpartition(":")
    return Client(host, int(port))


def broker_address(bootstrap: str) -> str:
    """Returns the address of the only broker, as it is advertised there."""
    with connect(bootstrap) as asking:
        (broker,) = asking.ask(*METADATA, topics=()).brokers
    return f"{broker.host}:{broker.port}"


def _topic_ids(bootstrap: str, topics: Sequence[str]) -> dict[str, UUID]:
    """Returns the ids once the broker leads all topics, which it learns some time after they were made."""
    deadline = time.monotonic() + TOPICS_WAIT
    asked = [{"name": topic, "topic_id": None} for topic in topics]
    with connect(bootstrap) as asking:
        while True:
            found = asking.ask(*METADATA, topics=asked).topics
            partitions = [partition for topic in found for partition in topic.partitions]
            if len(partitions) == len(topics) and all(each.error_code is ErrorCode.none for each in partitions):
                return {topic.name: topic.topic_id for topic in found}
            assert time.monotonic() < deadline, found
            time.sleep(0.1)


def _produced(asking: Client, request: bytes) -> None:
    asking.send_bytes(request)
    (topic,) = asking.receive(*PRODUCE).responses
    (partition,) = topic.partition_responses
    assert partition.error_code is ErrorCode.none, partition


def _joined(asking: Client, group: str) -> tuple[str, int]:
    """Joins a group, and returns the member's id and generation once the group is Stable."""
    values: dict[str, Any] = {
        "group_id": group,
        "session_timeout": SESSION,
        "rebalance_timeout": timedelta(minutes=5),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
    }
    named = _ask_coordinator(asking, JOIN_GROUP, values)
    assert named.error_code is ErrorCode.member_id_required, named
    joined = asking.ask(*JOIN_GROUP, **values, member_id=named.member_id)
    assert joined.error_code is ErrorCode.none, joined
    synced = asking.ask(
        *SYNC_GROUP,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
    )
    assert synced.error_code is ErrorCode.none, synced
    return str(joined.member_id), int(joined.generation_id)


def _ask_coordinator(asking: Client, api: tuple[int, int], values: Mapping[str, Any]) -> Any:
    """Sends a request, and retries while the first group request creates the offsets topic."""
    deadline = time.monotonic() + COORDINATOR_WAIT
    while True:
        asking.ask(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=(values["group_id"],))
        answer = asking.ask(*api, **values)
        if answer.error_code not in _NOT_YET or time.monotonic() > deadline:
            return answer
        time.sleep(0.1)
