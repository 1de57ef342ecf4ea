"""Offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcoord.broker.cluster import INTERNAL_TOPICS, Asked, Cluster, Partition
from kcoord.broker.leader_info import fence_epoch
from kcoord.broker.log.partition_log import Refused
from kcoord.broker.log.slices import Effort, Slices
from kcoord.errors import ErrorCode

_ISOLATION_LEVELS: Final = (0, 1)
_NO_EPOCH: Final = -1
_LOOK_UP: Final = 20  # Units of work of a search by time, in addition to those of the records it reads.


class Special(IntEnum):
    """Timestamps with a special meaning."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAsked:
    partition_index: int
    current_leader_epoch: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsetsAsked:
    name: str
    partitions: tuple[OffsetAsked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsets:
    """A ListOffsets request. `oldest_special` is the lowest special timestamp that its version knows."""

    topics: tuple[TopicOffsetsAsked, ...]
    oldest_special: int
    isolation_level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLine:
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    name: str
    partitions: tuple[OffsetLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsReply:
    topics: tuple[TopicOffsets, ...]
    throttle_time: float = 0.0


def list_offsets(cluster: Cluster, request: ListOffsets, asked: Asked) -> Slices[ListOffsetsReply]:
    by_topic: dict[str, list[OffsetAsked]] = {}
    for topic in request.topics:
        if topic.partitions:
            by_topic.setdefault(topic.name, []).extend(topic.partitions)
    topics, effort = [], Effort()
    for name, lines in by_topic.items():
        topics.append((yield from _topic_offsets(cluster, name, lines, request, asked, effort)))
    return ListOffsetsReply(topics=tuple(topics))


def _topic_offsets(
    cluster: Cluster, topic: str, lines: Sequence[OffsetAsked], request: ListOffsets, asked: Asked, effort: Effort
) -> Slices[TopicOffsets]:
    times = Counter(line.partition_index for line in lines)
    answers = []
    for line in {line.partition_index: line for line in lines}.values():
        index = line.partition_index
        if request.isolation_level not in _ISOLATION_LEVELS:
            answers.append(OffsetLine(partition_index=index, error_code=ErrorCode.unknown_server_error))
        elif times[index] > 1:
            answers.append(OffsetLine(partition_index=index, error_code=ErrorCode.invalid_request))
        else:
            offset = yield from _offset(cluster.partition(topic, index), line, request.oldest_special, asked, effort)
            answers.append(offset)
            is_search = line.timestamp >= 0 or line.timestamp == Special.MAX_TIMESTAMP
            yield from effort.spend(_LOOK_UP if is_search else 1)
    return TopicOffsets(name=topic, partitions=tuple(answers))


def _offset(
    partition: Partition | None, line: OffsetAsked, oldest_special: int, asked: Asked, effort: Effort
) -> Slices[OffsetLine]:
    index = line.partition_index
    if line.timestamp < oldest_special:
        return OffsetLine(partition_index=index, error_code=ErrorCode.unsupported_version)
    if partition is None:
        return OffsetLine(partition_index=index, error_code=ErrorCode.unknown_topic_or_partition)
    if error := _fence(partition, line.current_leader_epoch, asked):
        return OffsetLine(partition_index=index, error_code=error)
    log = partition.log
    match line.timestamp:
        case Special.LATEST:
            return OffsetLine(partition_index=index, offset=log.end_offset, leader_epoch=log.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return OffsetLine(partition_index=index, offset=log.start_offset, leader_epoch=log.start_epoch)
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return OffsetLine(partition_index=index)
    try:
        if line.timestamp == Special.MAX_TIMESTAMP:
            found = yield from log.offset_of_max_timestamp(effort)
        else:
            found = yield from log.offset_for_timestamp(line.timestamp, effort)
    except OSError:
        return OffsetLine(partition_index=index, error_code=ErrorCode.kafka_storage_error)
    if found is None:
        return OffsetLine(partition_index=index)
    return OffsetLine(
        partition_index=index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


def _fence(partition: Partition, claimed_epoch: int, asked: Asked) -> ErrorCode | None:
    if partition.leader != asked.node.node_id:
        return ErrorCode.not_leader_or_follower
    if partition.log.is_failed:
        return ErrorCode.kafka_storage_error
    if claimed_epoch < _NO_EPOCH:  # Fetch treats it as no epoch.
        return ErrorCode.fenced_leader_epoch
    return fence_epoch(partition, claimed_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAsked:
    partition: int
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEpochsAsked:
    topic: str
    partitions: tuple[EpochAsked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpoch:
    topics: tuple[TopicEpochsAsked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    partition: int
    error_code: ErrorCode = ErrorCode.none
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEpochs:
    topic: str
    partitions: tuple[EpochLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochReply:
    topics: tuple[TopicEpochs, ...]
    throttle_time: float = 0.0


def offset_for_leader_epoch(cluster: Cluster, request: OffsetForLeaderEpoch, asked: Asked) -> OffsetForLeaderEpochReply:
    topics = tuple(
        TopicEpochs(
            topic=topic.topic,
            partitions=tuple(
                _epoch_end(cluster.partition(topic.topic, line.partition), line, asked) for line in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetForLeaderEpochReply(topics=topics)


def _epoch_end(partition: Partition | None, line: EpochAsked, asked: Asked) -> EpochLine:
    if partition is None:
        return EpochLine(partition=line.partition, error_code=ErrorCode.unknown_topic_or_partition)
    if error := _fence(partition, line.current_leader_epoch, asked):
        return EpochLine(partition=line.partition, error_code=error)
    end = partition.log.end_offset_for_epoch(line.leader_epoch)
    return EpochLine(partition=line.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletions:
    """For each partition, the offset before which records are deleted; -1 for all records."""

    name: str
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    topics: tuple[TopicDeletions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionLine:
    partition_index: int
    low_watermark: int = -1
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    name: str
    partitions: tuple[DeletionLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsReply:
    topics: tuple[DeletedRecords, ...]
    throttle_time: float = 0.0


def delete_records(cluster: Cluster, request: DeleteRecords, asked: Asked) -> DeleteRecordsReply:
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        if topic.offsets:
            # If a partition is listed twice, the last offset counts.
            wanted.setdefault(topic.name, {}).update(topic.offsets)
    topics = tuple(
        DeletedRecords(
            name=name,
            partitions=tuple(
                _delete_before(cluster, cluster.partition(name, index), index, offset, asked)
                for index, offset in offsets.items()
            ),
        )
        for name, offsets in wanted.items()
    )
    return DeleteRecordsReply(topics=topics)


def _delete_before(
    cluster: Cluster, partition: Partition | None, index: int, offset: int, asked: Asked
) -> DeletionLine:
    if partition is None:
        return DeletionLine(partition_index=index, error_code=ErrorCode.unknown_topic_or_partition)
    if partition.topic in INTERNAL_TOPICS:
        return DeletionLine(partition_index=index, error_code=ErrorCode.invalid_topic_exception)
    if partition.leader != asked.node.node_id:
        return DeletionLine(partition_index=index, error_code=ErrorCode.not_leader_or_follower)
    before = partition.log.size
    outcome = partition.log.delete_records(offset, asked.now_ms)
    if isinstance(outcome, Refused):
        return DeletionLine(partition_index=index, error_code=outcome.error)
    cluster.freed(before - partition.log.size)
    return DeletionLine(partition_index=index, low_watermark=outcome)
