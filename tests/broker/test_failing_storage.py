"""A disk that is full or cannot be read: the client gets an error, and nothing is lost or half written."""

import errno
from uuid import UUID

import pytest

from kcoord.broker.cluster import Cluster, Node, NodeId, RequestContext
from kcoord.broker.fetch_sessions import FetchSessions, RequestedPartition
from kcoord.broker.fetching import Fetch, FetchReply, fetch
from kcoord.broker.fetching import PartitionResult as FetchedLine
from kcoord.broker.log.storage import EphemeralStorage, MemoryStore
from kcoord.broker.offsets import (
    ListOffsets,
    PartitionOffset,
    RequestedOffset,
    RequestedTopicOffsets,
    Special,
    list_offsets,
)
from kcoord.broker.producing import PartitionResult as ProducedLine
from kcoord.broker.producing import Produce, ProducedPartition, ProducedTopic, produce
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import produced_batch
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch
from kcoord.settings import Settings
from tests.support.logs.appending import at_once

now_ms = 1_800_000_000_000
node = Node(node_id=NodeId(1), host="127.0.0.1", port=9092)
asked = RequestContext(node=node, now_ms=now_ms)


class Disk:
    """Makes stores that fail when the disk does."""

    def __init__(self) -> None:
        self.is_full = self.is_unreadable = False
        self.open_stores = 0

    def make_store(self) -> "StoreOnDisk":
        self.open_stores += 1
        return StoreOnDisk(self)


class StoreOnDisk(MemoryStore):
    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk

    def append(self, content: bytearray) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(content)

    def read(self, position: int, size: int) -> bytes:
        if self._disk.is_unreadable:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(position, size)

    def close(self) -> None:
        super().close()
        self._disk.open_stores -= 1


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def cluster(disk: Disk) -> Cluster:
    made = Cluster(
        cluster_id="c",
        nodes=[node],
        settings=Settings(log_segment_bytes=300),
        fresh_id=lambda: UUID(int=7),
        storage=EphemeralStorage(disk.make_store),
    )
    made.create_topic("t", [[node.node_id]], {}, now_ms)
    return made


def batch(sequence: int, *, timestamp: int = now_ms) -> bytes:
    stamp = ProducerStamp(id=4, epoch=0, base_sequence=sequence)
    return write_batch([Record(timestamp=timestamp, value=b"v" * 30)], producer=stamp)


def append(cluster: Cluster, records: bytes) -> ProducedLine:
    topic = ProducedTopic(name="t", topic_id=None, partitions=(ProducedPartition(index=0, records=records),))
    request = Produce(acks=-1, has_transactional_id=False, allows_zstd=True, topics=(topic,))
    return at_once(produce(cluster, request, asked)).responses[0].partition_responses[0]


def read(cluster: Cluster) -> FetchedLine:
    request = Fetch(
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        is_by_id=False,
        session_id=0,
        session_epoch=-1,
        partitions={("t", 0): RequestedPartition(fetch_offset=0, current_leader_epoch=-1, max_bytes=1 << 20)},
        forgotten=(),
    )
    reply = fetch(cluster, FetchSessions(slots=0, fresh_id=lambda: 1), request, asked)
    assert isinstance(reply, FetchReply)
    return reply.responses[0].partitions[0]


def offset_at(cluster: Cluster, timestamp: int) -> PartitionOffset:
    lines = (RequestedOffset(partition_index=0, current_leader_epoch=-1, timestamp=timestamp),)
    request = ListOffsets(topics=(RequestedTopicOffsets(name="t", partitions=lines),), oldest_special=-6)
    return at_once(list_offsets(cluster, request, asked)).topics[0].partitions[0]


def test_a_batch_that_cannot_be_written_is_refused_and_says_why(cluster: Cluster, disk: Disk) -> None:
    disk.is_full = True
    line = append(cluster, batch(0))
    assert (line.error_code, line.base_offset) == (ErrorCode.kafka_storage_error, -1)
    assert line.error_message == "The records cannot be written: No space left on device"


@pytest.mark.parametrize("there", [0, 2, 3])  # Three batches fill a segment: the next would begin another.
def test_a_batch_that_cannot_be_written_leaves_the_log_as_it_was(cluster: Cluster, disk: Disk, there: int) -> None:
    for sequence in range(there):
        append(cluster, batch(sequence))
    before = read(cluster)
    disk.is_full = True
    for _ in range(3):
        assert append(cluster, batch(there)).error_code is ErrorCode.kafka_storage_error
    log = cluster.topics["t"].partitions[0].log
    assert (log.end_offset, log.size, cluster.held_bytes) == (there, len(before.records), len(before.records))
    assert read(cluster) == before


def test_a_producer_that_tries_again_once_there_is_room_gets_its_batch_in_once(cluster: Cluster, disk: Disk) -> None:
    append(cluster, batch(0))
    disk.is_full = True
    assert append(cluster, batch(1)).error_code is ErrorCode.kafka_storage_error
    disk.is_full = False
    assert [append(cluster, batch(1)).base_offset for _ in range(2)] == [1, 1]
    assert cluster.topics["t"].partitions[0].log.end_offset == 2


def test_those_who_wait_hear_nothing_of_a_batch_that_was_not_written(cluster: Cluster, disk: Disk) -> None:
    sizes: list[int] = []
    cluster.on_append = lambda partition, size: sizes.append(size)
    disk.is_full = True
    append(cluster, batch(0))
    assert sizes == []
    disk.is_full = False
    append(cluster, batch(0))
    assert sizes == [produced_batch(batch(0)).header.size]


def test_records_that_cannot_be_read_are_a_storage_error(cluster: Cluster, disk: Disk) -> None:
    append(cluster, batch(0))
    disk.is_unreadable = True
    assert read(cluster).error_code is ErrorCode.kafka_storage_error
    assert offset_at(cluster, now_ms).error_code is ErrorCode.kafka_storage_error
    assert offset_at(cluster, Special.MAX_TIMESTAMP).error_code is ErrorCode.kafka_storage_error
    assert offset_at(cluster, Special.LATEST).offset == 1
    disk.is_unreadable = False
    assert (read(cluster).error_code, offset_at(cluster, now_ms).offset) == (ErrorCode.none, 0)


def test_deleted_segments_and_topics_give_their_stores_back(cluster: Cluster, disk: Disk) -> None:
    for sequence in range(9):
        append(cluster, batch(sequence))
    log = cluster.topics["t"].partitions[0].log
    assert disk.open_stores == 3
    log.delete_records(4, now_ms)
    assert disk.open_stores == 2
    log.enforce_retention(now_ms + log.settings.retention_ms + 1)
    assert disk.open_stores == 1
    append(cluster, batch(9))
    cluster.delete_topic(cluster.topics["t"])
    assert disk.open_stores == 0


def test_a_cluster_that_is_closed_gives_all_stores_back(cluster: Cluster, disk: Disk) -> None:
    for sequence in range(9):
        append(cluster, batch(sequence))
    cluster.close()
    assert disk.open_stores == 0
