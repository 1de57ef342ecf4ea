"""Offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcoord.broker.cluster import INTERNAL_TOPICS, Cluster, Partition, RequestContext
from kcoord.broker.leader_info import fence_epoch
from kcoord.broker.log.partition_log import Refused
from kcoord.broker.log.slices import Effort, Slices
from kcoord.errors import ErrorCode

_ISOLATION_LEVELS: Final = (0, 1)
_NO_EPOCH: Final = -1
_LOOKUP_COST: Final = 20  # Units of work of a search by time, in addition to those of the records it reads.


class Special(IntEnum):
    """The special timestamps of ListOffsets, such as -1 for the latest offset."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOffset:
    """A partition in a ListOffsets request. `timestamp` is in milliseconds, or one of Special."""

    partition_index: int
    current_leader_epoch: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopicOffsets:
    """A topic in a ListOffsets request, with its partitions."""

    name: str
    partitions: tuple[RequestedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsets:
    """A ListOffsets request without a version. `oldest_special` is the lowest special timestamp that its version knows;
    `isolation_level` 1 is read_committed.
    """

    topics: tuple[RequestedTopicOffsets, ...]
    oldest_special: int
    isolation_level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffset:
    """The result of one partition in the reply to ListOffsets: -1 where nothing was found."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """The results of one topic's partitions in the reply to ListOffsets."""

    name: str
    partitions: tuple[PartitionOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsReply:
    """The version-free reply to ListOffsets."""

    topics: tuple[TopicOffsets, ...]
    throttle_time: float = 0.0


def list_offsets(cluster: Cluster, request: ListOffsets, context: RequestContext) -> Slices[ListOffsetsReply]:
    """Decides a ListOffsets request: earliest, latest or by timestamp. A generator that yields between slices of work,
    and returns the reply.
    """
    by_topic: dict[str, list[RequestedOffset]] = {}
    for topic in request.topics:
        if topic.partitions:
            by_topic.setdefault(topic.name, []).extend(topic.partitions)
    topics, effort = [], Effort()
    for name, items in by_topic.items():
        topics.append((yield from _topic_offsets(cluster, name, items, request, context, effort)))
    return ListOffsetsReply(topics=tuple(topics))


def _topic_offsets(
    cluster: Cluster,
    topic: str,
    items: Sequence[RequestedOffset],
    request: ListOffsets,
    context: RequestContext,
    effort: Effort,
) -> Slices[TopicOffsets]:
    times = Counter(item.partition_index for item in items)
    answers = []
    for item in {item.partition_index: item for item in items}.values():
        index = item.partition_index
        if request.isolation_level not in _ISOLATION_LEVELS:
            answers.append(PartitionOffset(partition_index=index, error_code=ErrorCode.unknown_server_error))
        elif times[index] > 1:
            answers.append(PartitionOffset(partition_index=index, error_code=ErrorCode.invalid_request))
        else:
            offset = yield from _offset(cluster.partition(topic, index), item, request.oldest_special, context, effort)
            answers.append(offset)
            is_search = item.timestamp >= 0 or item.timestamp == Special.MAX_TIMESTAMP
            yield from effort.spend(_LOOKUP_COST if is_search else 1)
    return TopicOffsets(name=topic, partitions=tuple(answers))


def _offset(
    partition: Partition | None, item: RequestedOffset, oldest_special: int, context: RequestContext, effort: Effort
) -> Slices[PartitionOffset]:
    index = item.partition_index
    if item.timestamp < oldest_special:
        return PartitionOffset(partition_index=index, error_code=ErrorCode.unsupported_version)
    if partition is None:
        return PartitionOffset(partition_index=index, error_code=ErrorCode.unknown_topic_or_partition)
    if error := _fence(partition, item.current_leader_epoch, context):
        return PartitionOffset(partition_index=index, error_code=error)
    log = partition.log
    match item.timestamp:
        case Special.LATEST:
            return PartitionOffset(partition_index=index, offset=log.end_offset, leader_epoch=log.leader_epoch)
        case Special.EARLIEST | Special.EARLIEST_LOCAL:
            return PartitionOffset(partition_index=index, offset=log.start_offset, leader_epoch=log.start_epoch)
        case Special.LATEST_TIERED | Special.EARLIEST_PENDING_UPLOAD:
            return PartitionOffset(partition_index=index)
    try:
        if item.timestamp == Special.MAX_TIMESTAMP:
            found = yield from log.offset_of_max_timestamp(effort)
        else:
            found = yield from log.offset_for_timestamp(item.timestamp, effort)
    except OSError:
        return PartitionOffset(partition_index=index, error_code=ErrorCode.kafka_storage_error)
    if found is None:
        return PartitionOffset(partition_index=index)
    return PartitionOffset(
        partition_index=index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )


def _fence(partition: Partition, claimed_epoch: int, context: RequestContext) -> ErrorCode | None:
    if partition.leader != context.node.node_id:
        return ErrorCode.not_leader_or_follower
    if partition.log.is_failed:
        return ErrorCode.kafka_storage_error
    if claimed_epoch < _NO_EPOCH:  # Fetch treats it as no epoch.
        return ErrorCode.fenced_leader_epoch
    return fence_epoch(partition, claimed_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedEpoch:
    """A partition in an OffsetForLeaderEpoch request: the end of `leader_epoch` is asked for, `current_leader_epoch`
    fences.
    """

    partition: int
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTopicEpochs:
    """A topic in an OffsetForLeaderEpoch request, with its partitions."""

    topic: str
    partitions: tuple[RequestedEpoch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpoch:
    """An OffsetForLeaderEpoch request without a version."""

    topics: tuple[RequestedTopicEpochs, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEpochEnd:
    """The result of one partition in the reply to OffsetForLeaderEpoch: the end offset of a leader epoch; -1 if
    unknown.
    """

    partition: int
    error_code: ErrorCode = ErrorCode.none
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEpochs:
    """The results of one topic's partitions in the reply to OffsetForLeaderEpoch."""

    topic: str
    partitions: tuple[PartitionEpochEnd, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochReply:
    """The version-free reply to OffsetForLeaderEpoch."""

    topics: tuple[TopicEpochs, ...]
    throttle_time: float = 0.0


def offset_for_leader_epoch(
    cluster: Cluster, request: OffsetForLeaderEpoch, context: RequestContext
) -> OffsetForLeaderEpochReply:
    """Decides an OffsetForLeaderEpoch request: the end offset of a leader epoch for each partition."""
    topics = tuple(
        TopicEpochs(
            topic=topic.topic,
            partitions=tuple(
                _epoch_end(cluster.partition(topic.topic, item.partition), item, context) for item in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return OffsetForLeaderEpochReply(topics=topics)


def _epoch_end(partition: Partition | None, item: RequestedEpoch, context: RequestContext) -> PartitionEpochEnd:
    if partition is None:
        return PartitionEpochEnd(partition=item.partition, error_code=ErrorCode.unknown_topic_or_partition)
    if error := _fence(partition, item.current_leader_epoch, context):
        return PartitionEpochEnd(partition=item.partition, error_code=error)
    end = partition.log.end_offset_for_epoch(item.leader_epoch)
    return PartitionEpochEnd(partition=item.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeletions:
    """A topic in a DeleteRecords request. `offsets` are pairs of a partition and the offset before which its records
    are deleted; -1 deletes up to the high watermark.
    """

    name: str
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """A DeleteRecords request without a version."""

    topics: tuple[TopicDeletions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedPartition:
    """The result of one partition in the reply to DeleteRecords. `low_watermark` is the new log start offset."""

    partition_index: int
    low_watermark: int = -1
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """The results of one topic's partitions in the reply to DeleteRecords."""

    name: str
    partitions: tuple[DeletedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsReply:
    """The version-free reply to DeleteRecords."""

    topics: tuple[DeletedRecords, ...]
    throttle_time: float = 0.0


def delete_records(cluster: Cluster, request: DeleteRecords, context: RequestContext) -> DeleteRecordsReply:
    """Decides a DeleteRecords request: moves the log start offsets of the partitions."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        if topic.offsets:
            # If a partition is listed twice, the last offset counts.
            wanted.setdefault(topic.name, {}).update(topic.offsets)
    topics = tuple(
        DeletedRecords(
            name=name,
            partitions=tuple(
                _delete_before(cluster, cluster.partition(name, index), index, offset, context)
                for index, offset in offsets.items()
            ),
        )
        for name, offsets in wanted.items()
    )
    return DeleteRecordsReply(topics=topics)


def _delete_before(
    cluster: Cluster, partition: Partition | None, index: int, offset: int, context: RequestContext
) -> DeletedPartition:
    if partition is None:
        return DeletedPartition(partition_index=index, error_code=ErrorCode.unknown_topic_or_partition)
    if partition.topic in INTERNAL_TOPICS:
        return DeletedPartition(partition_index=index, error_code=ErrorCode.invalid_topic_exception)
    if partition.leader != context.node.node_id:
        return DeletedPartition(partition_index=index, error_code=ErrorCode.not_leader_or_follower)
    before = partition.log.size
    outcome = partition.log.delete_records(offset, context.now_ms)
    if isinstance(outcome, Refused):
        return DeletedPartition(partition_index=index, error_code=outcome.error)
    cluster.freed(before - partition.log.size)
    return DeletedPartition(partition_index=index, low_watermark=outcome)
