"""OffsetFetch and OffsetDelete: reading offsets, and taking them away from topics that nobody uses."""

from collections.abc import Iterable
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.group import Group
from kcoord.groups.protocols import CONSUMER
from kcoord.groups.records import OffsetDeleted, OffsetStored
from kcoord.groups.replies import OffsetGroup, OffsetLine, OffsetTopic, PartitionError, TopicErrors
from kcoord.groups.requests import AskedGroup, AskedTopic
from kcoord.groups.state import State
from kcoord.groups.topics import Topics

Offsets = dict[str, dict[int, OffsetStored]]


def fetch(group: Group | None, asked: AskedGroup, topics: Topics, *, is_by_id: bool) -> OffsetGroup:
    """The offsets that were asked for. A group that is not there has none, and that is no error."""
    offsets: Offsets = {} if group is None or group.state is State.DEAD else group.offsets
    if asked.topics is None:
        lines = _all(offsets, topics, is_by_id)
    else:
        lines = [_some(offsets, topic, topics) for topic in asked.topics]
    return OffsetGroup(group_id=asked.group_id, topics=tuple(lines))


def refuse(asked: AskedGroup, error: ErrorCode) -> OffsetGroup:
    topics = tuple(
        OffsetTopic(name=topic.name, topic_id=topic.topic_id, partitions=_none(topic.partitions, error))
        for topic in asked.topics or ()
    )
    return OffsetGroup(group_id=asked.group_id, topics=topics, error_code=error)


def fence_delete(group: Group | None) -> ErrorCode | None:
    """Whether offsets can be deleted at all: only of consumers is it known which topics they use."""
    if group is None or group.state is State.DEAD:
        return ErrorCode.group_id_not_found
    if not group.is_empty and group.protocol_type != CONSUMER:
        return ErrorCode.non_empty_group
    return None


def delete(
    group: Group, asked: tuple[AskedTopic, ...], topics: Topics
) -> tuple[list[TopicErrors], list[OffsetDeleted]]:
    """A line per partition, and the records of what is deleted."""
    lines, records = [], []
    for topic in asked:
        assert topic.name is not None
        verdicts = {partition: _verdict(group, topic.name, partition, topics) for partition in topic.partitions}
        kept = group.offsets.get(topic.name, {})
        records += [
            OffsetDeleted(group_id=group.group_id, topic=topic.name, partition=partition)
            for partition, error in verdicts.items()
            if error is ErrorCode.none and partition in kept
        ]
        errors = tuple(PartitionError(partition_index=index, error_code=error) for index, error in verdicts.items())
        lines.append(TopicErrors(name=topic.name, partitions=errors))
    return lines, records


def all_of(group: Group) -> list[OffsetDeleted]:
    return [
        OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for topic, partitions in group.offsets.items()
        for partition in partitions
    ]


def of_deleted_topic(group: Group, topic: str, topic_id: UUID) -> list[OffsetDeleted]:
    """Offsets mean nothing once their topic is gone; those of a namesake with another id stay."""
    return [
        OffsetDeleted(group_id=group.group_id, topic=topic, partition=partition)
        for partition, stored in group.offsets.get(topic, {}).items()
        if stored.topic_id is None or stored.topic_id == topic_id
    ]


def _verdict(group: Group, topic: str, partition: int, topics: Topics) -> ErrorCode:
    if not topics.has_partition(topic, partition):
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.group_subscribed_to_topic if group.subscribes_to(topic) else ErrorCode.none


def _all(offsets: Offsets, topics: Topics, is_by_id: bool) -> list[OffsetTopic]:
    lines = []
    for name, partitions in offsets.items():
        topic_id = topics.topic_id(name)
        if is_by_id and topic_id is None:
            continue
        known = [_line(stored) for stored in partitions.values()]
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
        stored = known.get(partition)
        is_meant = stored is not None and not _is_other(stored.topic_id, topic.topic_id)
        lines.append(_line(stored) if stored is not None and is_meant else OffsetLine(partition_index=partition))
    return OffsetTopic(name=name, topic_id=topic.topic_id, partitions=tuple(lines))


def _is_other(stored: UUID | None, asked: UUID | None) -> bool:
    """Whether the offset belongs to an earlier topic of the same name."""
    return stored is not None and asked is not None and stored != asked


def _line(stored: OffsetStored) -> OffsetLine:
    return OffsetLine(
        partition_index=stored.partition,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _none(partitions: Iterable[int], error: ErrorCode) -> tuple[OffsetLine, ...]:
    return tuple(OffsetLine(partition_index=partition, error_code=error) for partition in partitions)
