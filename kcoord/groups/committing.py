"""OffsetCommit: who may commit, and what is kept of it.

What is wrong with a partition is said of that partition; what is wrong with the member is said of every partition that
is otherwise sound. A request without a sound partition asks nothing of the group and makes none.
"""

from dataclasses import dataclass
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.fencing import fence
from kcoord.groups.group import Group
from kcoord.groups.instant import Instant
from kcoord.groups.records import OffsetStored
from kcoord.groups.replies import CommitReply, PartitionError, TopicErrors
from kcoord.groups.requests import Commit, CommittedPartition, CommittedTopic
from kcoord.groups.state import State
from kcoord.groups.topics import Topics


@dataclass(slots=True, kw_only=True)
class Sorted:
    """A topic of a commit: the partitions that there are, and lines on those that there are not."""

    name: str | None
    topic_id: UUID | None
    sound: list[CommittedPartition]
    lines: list[PartitionError]


def sort_out(topics: tuple[CommittedTopic, ...], known: Topics) -> list[Sorted]:
    """Which partitions of a commit exist. As Kafka's answer does, topics with bad ones come first."""
    sorted_topics = [_sorted(topic, known) for topic in topics]
    return sorted(sorted_topics, key=lambda topic: not topic.lines)


def fence_commit(group: Group, request: Commit) -> ErrorCode | None:
    """Whether the member may commit now (ClassicGroup.validateOffsetCommit)."""
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    is_alone = request.generation < 0  # a consumer without group, or an admin client
    if is_alone and group.is_empty:
        return None
    if is_alone and not request.member_id and request.instance_id is None:
        return ErrorCode.unknown_member_id
    if error := fence(group, request.member_id, request.instance_id, request.generation):
        return error
    # It has joined this generation, but does not know yet which partitions are its own.
    return ErrorCode.rebalance_in_progress if group.state is State.COMPLETING_REBALANCE else None


def keep(group_id: str, request: Commit, topics: list[Sorted], max_metadata: int, at: Instant) -> list[OffsetStored]:
    """The records of the commit; a line is added to each topic for each partition."""
    expires_at_ms = None if request.retention is None else at.wall_ms + round(request.retention * 1000)
    records = []
    for topic in topics:
        assert topic.name is not None or not topic.sound
        for line in topic.sound:
            if line.metadata is not None and len(line.metadata) > max_metadata:
                topic.lines.append(_refused(line.partition, ErrorCode.offset_metadata_too_large))
                continue
            topic.lines.append(PartitionError(partition_index=line.partition))
            records.append(
                OffsetStored(
                    group_id=group_id,
                    topic=topic.name or "",
                    partition=line.partition,
                    offset=line.offset,
                    leader_epoch=line.leader_epoch,
                    metadata=line.metadata or "",
                    committed_at_ms=at.wall_ms,
                    expires_at_ms=expires_at_ms,
                    topic_id=topic.topic_id,
                )
            )
    return records


def refuse(topics: list[Sorted], error: ErrorCode) -> CommitReply:
    """The same verdict for every partition that is sound."""
    for topic in topics:
        topic.lines += [_refused(line.partition, error) for line in topic.sound]
    return reply(topics)


def reply(topics: list[Sorted]) -> CommitReply:
    return CommitReply(
        topics=tuple(
            TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=tuple(topic.lines))
            for topic in topics
            if topic.lines
        )
    )


def _sorted(topic: CommittedTopic, known: Topics) -> Sorted:
    if topic.name is None:
        name = known.topic_name(topic.topic_id) if topic.topic_id else None
        topic_id, missing = topic.topic_id, ErrorCode.unknown_topic_id
    else:
        name, topic_id = topic.name, known.topic_id(topic.name)
        missing = ErrorCode.unknown_topic_or_partition
    if name is None or topic_id is None:
        lines = [_refused(line.partition, missing) for line in topic.partitions]
        return Sorted(name=topic.name, topic_id=topic.topic_id, sound=[], lines=lines)
    sound = [line for line in topic.partitions if known.has_partition(name, line.partition)]
    bad = (
        [line for line in topic.partitions if not known.has_partition(name, line.partition)]
        if len(sound) < len(topic.partitions)
        else []
    )
    lines = [_refused(line.partition, ErrorCode.unknown_topic_or_partition) for line in bad]
    return Sorted(name=name, topic_id=topic_id, sound=sound, lines=lines)


def _refused(partition: int, error: ErrorCode) -> PartitionError:
    return PartitionError(partition_index=partition, error_code=error)
