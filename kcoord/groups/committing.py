"""OffsetCommit: who may commit, and what is kept of it.

What is wrong with a partition is said of that partition; what is wrong with the member is said of every partition that
is otherwise sound. A request without a sound partition asks nothing of the group and makes none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.fencing import fence
from kcoord.groups.group import Group
from kcoord.groups.instant import Instant
from kcoord.groups.member import Member
from kcoord.groups.records import Commitment, OffsetsStored
from kcoord.groups.replies import CommitReply, PartitionError
from kcoord.groups.requests import Commit, CommittedTopic
from kcoord.groups.state import State
from kcoord.groups.topics import Topics
from kcoord.groups.verdicts import Verdicts, in_order, same_for

_USUAL_PARTITIONS: Final = 1000
"""The most that a reply may have lines for to be kept: what is kept of a member is to be little, whatever it sends."""


@dataclass(slots=True, kw_only=True)
class CommitVerdicts(Verdicts):
    """A topic of a commit: what is to be said of it, and the partitions that there are."""

    sound: Sequence[Commitment]
    partitions: list[int]  # of those
    is_kept: bool = False  # every one of those


def sort_out(topics: tuple[CommittedTopic, ...], known: Topics) -> list[CommitVerdicts]:
    """Which partitions of a commit exist."""
    return [_sorted(topic, known) for topic in topics]


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


def records_of(request: Commit, topics: list[CommitVerdicts], max_metadata: int, at: Instant) -> list[OffsetsStored]:
    """The records of the commit; what is said of each topic is noted in it."""
    expires_at_ms = None if request.retention is None else at.wall_ms + round(request.retention * 1000)
    records = []
    for topic in topics:
        kept = _judge_metadata(topic, max_metadata)
        if not kept:
            continue
        assert topic.name is not None
        records.append(
            OffsetsStored(
                group_id=request.group_id,
                topic=topic.name,
                lines=kept,
                committed_at_ms=at.wall_ms,
                expires_at_ms=expires_at_ms,
                topic_id=topic.topic_id,
            )
        )
    return records


def refuse(topics: list[CommitVerdicts], error: ErrorCode) -> CommitReply:
    """The same verdict for every partition that is sound."""
    for topic in topics:
        topic.lines = same_for(topic.partitions, error)
    return reply(topics)


def usual_reply(member: Member, topics: list[CommitVerdicts]) -> CommitReply:
    """The reply; a member commits to the same partitions again and again, and is then given the very same one."""
    asked = [(topic.name, topic.topic_id, topic.partitions) for topic in topics if topic.is_kept]
    if len(asked) < len(topics) or [topic for topic in topics if topic.missing is not None]:
        return reply(topics)
    if member.usual_commit is None or member.usual_commit[0] != asked:
        if sum(len(topic.partitions) for topic in topics) > _USUAL_PARTITIONS:
            return reply(topics)
        member.usual_commit = (asked, reply(topics))
    return member.usual_commit[1]


def reply(topics: list[CommitVerdicts]) -> CommitReply:
    for topic in topics:
        if topic.is_kept:
            topic.lines = same_for(topic.partitions, ErrorCode.none)
    return CommitReply(topics=in_order(topics))


def _sorted(topic: CommittedTopic, known: Topics) -> CommitVerdicts:
    if topic.name is None:
        name = known.topic_name(topic.topic_id) if topic.topic_id else None
        topic_id, unknown = topic.topic_id, ErrorCode.unknown_topic_id
    else:
        name, topic_id = topic.name, known.topic_id(topic.name)
        unknown = ErrorCode.unknown_topic_or_partition
    partitions = [line.partition_index for line in topic.partitions]
    if name is None or topic_id is None:
        missing = same_for(partitions, unknown)
        return CommitVerdicts(name=topic.name, topic_id=topic.topic_id, sound=(), partitions=[], missing=missing)
    existing = range(known.partitions_of(name))
    if not partitions or (min(partitions) in existing and max(partitions) in existing):
        return CommitVerdicts(name=name, topic_id=topic_id, sound=topic.partitions, partitions=partitions, missing=None)
    sound = [line for line in topic.partitions if line.partition_index in existing]
    absent = [partition for partition in partitions if partition not in existing]
    present = [partition for partition in partitions if partition in existing]
    missing = same_for(absent, ErrorCode.unknown_topic_or_partition)
    return CommitVerdicts(name=name, topic_id=topic_id, sound=sound, partitions=present, missing=missing)


def _judge_metadata(topic: CommitVerdicts, limit: int) -> Sequence[Commitment]:
    """Those lines whose text is not too long; what is said of each is noted in their order. Most have none."""
    texts = [line.committed_metadata for line in topic.sound]
    if not any(texts):
        topic.is_kept = True
        return topic.sound
    are_too_long = [text is not None and _is_longer(text, limit) for text in texts]
    topic.lines = tuple(
        PartitionError(partition, ErrorCode.offset_metadata_too_large if is_too_long else ErrorCode.none)
        for partition, is_too_long in zip(topic.partitions, are_too_long, strict=True)
    )
    return [line for line, is_too_long in zip(topic.sound, are_too_long, strict=True) if not is_too_long]


def _is_longer(text: str, limit: int) -> bool:
    """As Java counts: a character beyond the first 65,536 of Unicode is two."""
    return len(text) > limit or (not text.isascii() and len(text.encode("utf-16-le")) > 2 * limit)
