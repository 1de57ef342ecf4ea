"""OffsetFetch and OffsetDelete: reading offsets, and deleting those of topics that nobody uses."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.protocols import CONSUMER
from kcoord.groups.classic.state import State
from kcoord.groups.offsets.committed_offsets import Kept
from kcoord.groups.offsets.partition_results import Verdicts, in_order, same_for
from kcoord.groups.records import OffsetDeleted, OffsetsStored
from kcoord.groups.replies import OffsetGroup, OffsetLine, OffsetTopic, TopicErrors
from kcoord.groups.requests import AskedGroup, AskedTopic
from kcoord.groups.topics import Heir, Topics

Offsets = Mapping[str, Mapping[int, Kept]]


def fetch(group: Group | None, asked: AskedGroup, topics: Topics, *, is_by_id: bool) -> OffsetGroup:
    """Returns the requested offsets. A group that does not exist has none, which is no error."""
    offsets: Offsets = {} if group is None or group.state is State.DEAD else group.offsets
    if asked.topics is None:
        lines = _all(offsets, topics, is_by_id)
    else:
        lines = [_some(offsets, topic, topics) for topic in asked.topics]
        lines.sort(key=lambda topic: topic.name is None)  # as in Kafka's answer, unknown topic ids come last
    return OffsetGroup(group_id=asked.group_id, topics=tuple(lines))


def refuse(asked: AskedGroup, error: ErrorCode) -> OffsetGroup:
    topics = tuple(
        OffsetTopic(name=topic.name, topic_id=topic.topic_id, partitions=_none(topic.partitions, error))
        for topic in asked.topics or ()
    )
    return OffsetGroup(group_id=asked.group_id, topics=topics, error_code=error)


def fence_delete(group: Group | None) -> ErrorCode | None:
    """Returns an error unless offsets can be deleted: only of consumer groups it is known which topics they use."""
    if group is None or group.state is State.DEAD:
        return ErrorCode.group_id_not_found
    if not group.is_empty and group.protocol_type != CONSUMER:
        return ErrorCode.non_empty_group
    return None


def delete(
    group: Group, asked: tuple[AskedTopic, ...], topics: Topics
) -> tuple[tuple[TopicErrors, ...], list[OffsetDeleted]]:
    """Returns one result per partition, and the tombstones of the deleted offsets."""
    verdicts = [_verdicts(group, topic, topics) for topic in asked]
    deleted = {
        (topic.name or "", line.partition_index)
        for topic in verdicts
        for line in topic.lines
        if line.error_code is ErrorCode.none
    }
    return in_order(verdicts), [
        OffsetDeleted(group_id=group.group_id, topic=name, partition=partition)
        for name, partition in sorted(deleted)
        if partition in group.offsets.get(name, {})
    ]


def all_of(group: Group) -> list[OffsetDeleted]:
    return [
        OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for topic, partitions in group.offsets.items()
        for partition in partitions
    ]


def of_deleted_topic(
    group: Group, topic: str, topic_id: UUID, heir: Heir | None = None
) -> list[OffsetDeleted | OffsetsStored]:
    """Returns the records that delete a deleted topic's offsets; those of a topic with the same name and another id
    stay.

    Offsets that may have been meant for the recreated topic, though they were stored for the old id, are moved to it.
    """
    concerned = {
        partition: kept
        for partition, kept in group.offsets.get(topic, {}).items()
        if kept[-1].topic_id is None or kept[-1].topic_id == topic_id
    }
    return [
        _inherited(group, topic, partition, kept, heir)
        if heir and kept[-1].committed_at_ms >= heir.since_ms
        else OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for partition, kept in concerned.items()
    ]


def _inherited(group: Group, topic: str, partition: int, kept: Kept, heir: Heir) -> OffsetsStored:
    offset, leader_epoch, metadata, stamp = kept
    return OffsetsStored(
        group.group_id,
        topic,
        (partition,),
        (offset,),
        (leader_epoch,),
        (metadata,),
        stamp.committed_at_ms,
        stamp.expires_at_ms,
        heir.topic_id,
    )


def _verdicts(group: Group, asked: AskedTopic, topics: Topics) -> Verdicts:
    name, unknown = asked.name, ErrorCode.unknown_topic_or_partition
    assert name is not None
    error = ErrorCode.group_subscribed_to_topic if group.subscribes_to(name) else ErrorCode.none
    existing = range(topics.partitions_of(name))
    absent = [partition for partition in asked.partitions if partition not in existing]
    present = [partition for partition in asked.partitions if partition in existing]
    is_whole = topics.topic_id(name) is not None and not absent
    return Verdicts(name=name, missing=None if is_whole else same_for(absent, unknown), lines=same_for(present, error))


def _all(offsets: Offsets, topics: Topics, is_by_id: bool) -> list[OffsetTopic]:
    lines = []
    for name, partitions in offsets.items():
        topic_id = topics.topic_id(name)
        if is_by_id and topic_id is None:
            continue
        known = [_line(partition, kept) for partition, kept in partitions.items()]
        lines.append(OffsetTopic(name=name, topic_id=topic_id, partitions=tuple(known)))
    return lines


def _some(offsets: Offsets, topic: AskedTopic, topics: Topics) -> OffsetTopic:
    name = topic.name
    if name is None:
        name = topics.topic_name(topic.topic_id) if topic.topic_id else None
        if name is None:
            unknown = _none(topic.partitions, ErrorCode.unknown_topic_id)
            return OffsetTopic(name=None, topic_id=topic.topic_id, partitions=unknown)
    known = offsets.get(name, {})
    lines = []
    for partition in topic.partitions:
        kept = known.get(partition)
        is_meant = kept is not None and not _is_other(kept[-1].topic_id, topic.topic_id)
        lines.append(_line(partition, kept) if kept is not None and is_meant else OffsetLine(partition_index=partition))
    return OffsetTopic(name=name, topic_id=topic.topic_id, partitions=tuple(lines))


def _is_other(stored: UUID | None, asked: UUID | None) -> bool:
    """Whether the offset belongs to an earlier topic with the same name."""
    return stored is not None and asked is not None and stored != asked


def _line(partition: int, kept: Kept) -> OffsetLine:
    offset, leader_epoch, metadata, _ = kept
    return OffsetLine(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        metadata=metadata,
    )


def _none(partitions: Iterable[int], error: ErrorCode) -> tuple[OffsetLine, ...]:
    return tuple(OffsetLine(partition_index=partition, error_code=error) for partition in partitions)
