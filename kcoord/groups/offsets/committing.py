"""OffsetCommit: who may commit, and what is kept of it.

What is wrong with a partition is said of that partition; what is wrong with the member is said of every partition that
is otherwise sound. A request without a sound partition asks nothing of the group and makes none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, NamedTuple
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.state import State
from kcoord.groups.instant import Instant
from kcoord.groups.offsets.partition_results import Verdicts, in_order, same_for
from kcoord.groups.records import OffsetsStored, StoredAgain, UsualPlaces
from kcoord.groups.replies import CommitReply, PartitionError
from kcoord.groups.requests import Commit, CommittedTopic
from kcoord.groups.topics import Topics

_new = tuple.__new__  # without the call that a NamedTuple makes of it
_USUAL_PARTITIONS: Final = 1000
"""The most that a commit may have to be remembered: what is kept of a member is to be little, whatever it sends."""


@dataclass(slots=True, kw_only=True)
class CommitVerdicts(Verdicts):
    """A topic of a commit: what is to be said of it, and what is asked of the partitions that it has, in columns."""

    partitions: Sequence[int] = ()
    offsets: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    metadata: Sequence[str] = ()
    is_kept: bool = False  # all that was asked of them

    def keep_only(self, wanted: Sequence[bool]) -> None:
        self.partitions = tuple(compress(self.partitions, wanted))
        self.offsets = tuple(compress(self.offsets, wanted))
        self.leader_epochs = tuple(compress(self.leader_epochs, wanted))
        self.metadata = tuple(compress(self.metadata, wanted))


class UsualCommit(NamedTuple):
    """What a member commits to again and again, of which all was kept the last time, and the reply that it got."""

    topics: tuple[CommittedTopic, ...]
    bounds: tuple[tuple[str, UUID, int], ...]  # name, id and highest partition of each
    places: UsualPlaces
    reply: CommitReply
    losses: int  # of topics, when they were last seen to be there


def sort_out(request: Commit, known: Topics) -> list[CommitVerdicts]:
    """Which partitions of a commit exist."""
    return [_sorted(topic, offsets, known) for topic, offsets in request.by_topic()]


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
    expires_at_ms = _expires_at_ms(request, at)
    records = []
    for topic in topics:
        _judge_metadata(topic, max_metadata)
        if not topic.partitions:
            continue
        assert topic.name is not None
        records.append(
            OffsetsStored(
                request.group_id,
                topic.name,
                topic.partitions,
                topic.offsets,
                topic.leader_epochs,
                topic.metadata,
                at.wall_ms,
                expires_at_ms,
                topic.topic_id,
            )
        )
    return records


def usual(member: Member, request: Commit, known: Topics) -> UsualCommit | None:
    """What the member commits to as always, if it asks what it asked before and the answer is still true."""
    usual = member.usual_commit
    if usual is None or request.retention is not None:
        return None
    if usual.topics is not request.topics and usual.topics != request.topics:
        return None
    if usual.losses != known.losses:
        if not all(known.has(*bounds) for bounds in usual.bounds):
            return None
        usual = member.usual_commit = usual._replace(losses=known.losses)
    return usual


def keep_again(group: Group, places: UsualPlaces, offsets: tuple[int, ...], at: Instant) -> StoredAgain:
    """The record of a commit to usual places; the group has the offsets from now on."""
    again = _new(StoredAgain, (group.group_id, places, offsets, at.wall_ms))
    group.kept.keep_again(again)
    return again


def refuse(topics: list[CommitVerdicts], error: ErrorCode) -> CommitReply:
    """The same verdict for every partition that is sound."""
    for topic in topics:
        topic.lines = same_for(topic.partitions, error)
    return reply(topics)


def note_usual(
    member: Member,
    request: Commit,
    topics: list[CommitVerdicts],
    records: Sequence[OffsetsStored],
    reply: CommitReply,
    known: Topics,
) -> None:
    """Remember the commit if all of it was kept, and it is no more than may be remembered of a member."""
    is_whole = all(topic.is_kept and topic.missing is None and topic.partitions for topic in topics)
    if is_whole and request.retention is None and len(request.offsets) <= _USUAL_PARTITIONS:
        bounds = tuple(_bounds(topic) for topic in topics)
        member.usual_commit = UsualCommit(request.topics, bounds, UsualPlaces(records), reply, known.losses)


def reply(topics: list[CommitVerdicts]) -> CommitReply:
    for topic in topics:
        if topic.is_kept:
            topic.lines = same_for(topic.partitions, ErrorCode.none)
    return CommitReply(topics=in_order(topics))


def _sorted(topic: CommittedTopic, offsets: tuple[int, ...], known: Topics) -> CommitVerdicts:
    if topic.name is None:
        name = known.topic_name(topic.topic_id) if topic.topic_id else None
        topic_id, unknown = topic.topic_id, ErrorCode.unknown_topic_id
    else:
        name, topic_id = topic.name, known.topic_id(topic.name)
        unknown = ErrorCode.unknown_topic_or_partition
    if name is None or topic_id is None:
        missing = same_for(topic.partitions, unknown)
        return CommitVerdicts(name=topic.name, topic_id=topic.topic_id, missing=missing)
    verdicts = CommitVerdicts(
        name=name,
        topic_id=topic_id,
        missing=None,
        partitions=topic.partitions,
        offsets=offsets,
        leader_epochs=topic.leader_epochs,
        metadata=topic.metadata,
    )
    existing = range(known.partitions_of(name))
    absent = [partition for partition in topic.partitions if partition not in existing]
    if absent:
        verdicts.missing = same_for(absent, ErrorCode.unknown_topic_or_partition)
        verdicts.keep_only([partition in existing for partition in topic.partitions])
    return verdicts


def _judge_metadata(topic: CommitVerdicts, limit: int) -> None:
    """Keep only those whose text is not too long; what is said of each is noted in their order. Most have none."""
    if not any(topic.metadata):
        topic.is_kept = True
        return
    are_fine = [not _is_longer(text, limit) for text in topic.metadata]
    topic.lines = tuple(
        PartitionError(partition, ErrorCode.none if is_fine else ErrorCode.offset_metadata_too_large)
        for partition, is_fine in zip(topic.partitions, are_fine, strict=True)
    )
    topic.keep_only(are_fine)


def _bounds(topic: CommitVerdicts) -> tuple[str, UUID, int]:
    assert topic.name is not None
    assert topic.topic_id is not None
    return topic.name, topic.topic_id, max(topic.partitions)


def _expires_at_ms(request: Commit, at: Instant) -> int | None:
    return None if request.retention is None else at.wall_ms + round(request.retention * 1000)


def _is_longer(text: str, limit: int) -> bool:
    """As Java counts: a character beyond the first 65,536 of Unicode is two."""
    return len(text) > limit or (not text.isascii() and len(text.encode("utf-16-le")) > 2 * limit)
