"""OffsetFetch and OffsetDelete: reading offsets, and deleting those of topics that nobody uses."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.protocols import CONSUMER
from kcoord.groups.classic.state import State
from kcoord.groups.offsets.committed_offsets import OffsetAndMetadata
from kcoord.groups.offsets.partition_results import PartitionResults, results_for, to_topics
from kcoord.groups.records import OffsetDeleted, OffsetsStored
from kcoord.groups.replies import OffsetGroup, OffsetLine, OffsetTopic, TopicErrors
from kcoord.groups.requests import RequestedGroup, TopicPartitions
from kcoord.groups.topics import RecreatedTopic, Topics

Offsets = Mapping[str, Mapping[int, OffsetAndMetadata]]


def fetch(group: Group | None, asked: RequestedGroup, topics: Topics, *, is_by_id: bool) -> OffsetGroup:
    """Returns the committed offsets that an OffsetFetch asks of one group. A group that does not exist has none, which
    is no error."""
    offsets: Offsets = {} if group is None or group.state is State.DEAD else group.offsets
    if asked.topics is None:
        results = _all_topics(offsets, topics, is_by_id)
    else:
        results = [_requested_topic(offsets, topic, topics) for topic in asked.topics]
        results.sort(key=lambda topic: topic.name is None)  # as in Kafka's answer, unknown topic ids come last
    return OffsetGroup(group_id=asked.group_id, topics=tuple(results))


def refuse(asked: RequestedGroup, error: ErrorCode) -> OffsetGroup:
    """Returns the part of the reply to OffsetFetch for a group whose offsets cannot be fetched, with this error."""
    topics = tuple(
        OffsetTopic(name=topic.name, topic_id=topic.topic_id, partitions=_failed_partitions(topic.partitions, error))
        for topic in asked.topics or ()
    )
    return OffsetGroup(group_id=asked.group_id, topics=topics, error_code=error)


def fence_delete(group: Group | None) -> ErrorCode | None:
    """Returns an error unless OffsetDelete may delete offsets of the group now, else None: while it has members its
    protocol type must be "consumer", since only of such groups it is known which topics they use."""
    if group is None or group.state is State.DEAD:
        return ErrorCode.group_id_not_found
    if not group.is_empty and group.protocol_type != CONSUMER:
        return ErrorCode.non_empty_group
    return None


def delete(
    group: Group, asked: tuple[TopicPartitions, ...], topics: Topics
) -> tuple[tuple[TopicErrors, ...], list[OffsetDeleted]]:
    """Decides an OffsetDelete: returns the results of all partitions by topic, and the tombstones of the offsets to
    delete."""
    results = [_validate_topic(group, topic, topics) for topic in asked]
    deleted = {
        (topic.name or "", result.partition_index)
        for topic in results
        for result in topic.results
        if result.error_code is ErrorCode.none
    }
    return to_topics(results), [
        OffsetDeleted(group_id=group.group_id, topic=name, partition=partition)
        for name, partition in sorted(deleted)
        if partition in group.offsets.get(name, {})
    ]


def tombstones_of(group: Group) -> list[OffsetDeleted]:
    """Returns the tombstones of all committed offsets of the group."""
    return [
        OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for topic, partitions in group.offsets.items()
        for partition in partitions
    ]


def records_of_deleted_topic(
    group: Group, topic: str, topic_id: UUID, recreated: RecreatedTopic | None = None
) -> list[OffsetDeleted | OffsetsStored]:
    """Returns the records that delete the group's offsets of a deleted topic; those of a topic with the same name and
    another id stay.

    Offsets that may have been meant for the recreated topic, though they were stored for the old id, are moved to it.
    """
    concerned = {
        partition: committed
        for partition, committed in group.offsets.get(topic, {}).items()
        if committed[-1].topic_id is None or committed[-1].topic_id == topic_id
    }
    return [
        _moved_to_recreated(group, topic, partition, newest, recreated)
        if recreated and newest[-1].committed_at_ms >= recreated.since_ms
        else OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for partition, newest in concerned.items()
    ]


def _moved_to_recreated(
    group: Group, topic: str, partition: int, committed: OffsetAndMetadata, recreated: RecreatedTopic
) -> OffsetsStored:
    offset, leader_epoch, metadata, info = committed
    return OffsetsStored(
        group.group_id,
        topic,
        (partition,),
        (offset,),
        (leader_epoch,),
        (metadata,),
        info.committed_at_ms,
        info.expires_at_ms,
        recreated.topic_id,
    )


def _validate_topic(group: Group, asked: TopicPartitions, topics: Topics) -> PartitionResults:
    name, unknown = asked.name, ErrorCode.unknown_topic_or_partition
    assert name is not None
    error = ErrorCode.group_subscribed_to_topic if group.subscribes_to(name) else ErrorCode.none
    existing = range(topics.partitions_of(name))
    absent = [partition for partition in asked.partitions if partition not in existing]
    present = [partition for partition in asked.partitions if partition in existing]
    is_whole = topics.topic_id(name) is not None and not absent
    return PartitionResults(
        name=name, missing=None if is_whole else results_for(absent, unknown), results=results_for(present, error)
    )


def _all_topics(offsets: Offsets, topics: Topics, is_by_id: bool) -> list[OffsetTopic]:
    results = []
    for name, partitions in offsets.items():
        topic_id = topics.topic_id(name)
        if is_by_id and topic_id is None:
            continue
        known = [_partition_result(partition, committed) for partition, committed in partitions.items()]
        results.append(OffsetTopic(name=name, topic_id=topic_id, partitions=tuple(known)))
    return results


def _requested_topic(offsets: Offsets, topic: TopicPartitions, topics: Topics) -> OffsetTopic:
    name = topic.name
    if name is None:
        name = topics.topic_name(topic.topic_id) if topic.topic_id else None
        if name is None:
            unknown = _failed_partitions(topic.partitions, ErrorCode.unknown_topic_id)
            return OffsetTopic(name=None, topic_id=topic.topic_id, partitions=unknown)
    known = offsets.get(name, {})
    results = []
    for partition in topic.partitions:
        committed = known.get(partition)
        is_meant = committed is not None and not _is_from_earlier_topic(committed[-1].topic_id, topic.topic_id)
        results.append(
            _partition_result(partition, committed)
            if committed is not None and is_meant
            else OffsetLine(partition_index=partition)
        )
    return OffsetTopic(name=name, topic_id=topic.topic_id, partitions=tuple(results))


def _is_from_earlier_topic(stored: UUID | None, asked: UUID | None) -> bool:
    """Whether the offset belongs to an earlier topic with the same name."""
    return stored is not None and asked is not None and stored != asked


def _partition_result(partition: int, committed: OffsetAndMetadata) -> OffsetLine:
    offset, leader_epoch, metadata, _ = committed
    return OffsetLine(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=metadata,
    )


def _failed_partitions(partitions: Iterable[int], error: ErrorCode) -> tuple[OffsetLine, ...]:
    return tuple(OffsetLine(partition_index=partition, error_code=error) for partition in partitions)
