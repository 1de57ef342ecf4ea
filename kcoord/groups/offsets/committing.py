"""OffsetCommit: who may commit, and which partitions are accepted.

An error of a partition is returned for that partition; an error of the member is returned for every partition that is
valid otherwise. A request without a valid partition does not reach the group and creates none.
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

_new = tuple.__new__  # bypasses the constructor of a NamedTuple, which costs a call
_USUAL_PARTITIONS: Final = 1000
"""Partitions that a remembered commit may have at most, so that a member takes little memory whatever it sends."""


@dataclass(slots=True, kw_only=True)
class CommitVerdicts(Verdicts):
    """The results of one topic of a commit, and the fields of its existing partitions as columns."""

    partitions: Sequence[int] = ()
    offsets: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    metadata: Sequence[str] = ()
    is_kept: bool = False  # no partition was refused for its metadata

    def keep_only(self, wanted: Sequence[bool]) -> None:
        self.partitions = tuple(compress(self.partitions, wanted))
        self.offsets = tuple(compress(self.offsets, wanted))
        self.leader_epochs = tuple(compress(self.leader_epochs, wanted))
        self.metadata = tuple(compress(self.metadata, wanted))


class UsualCommit(NamedTuple):
    """A commit that a member repeats: its partitions, all of which were accepted the last time, and its reply."""

    topics: tuple[CommittedTopic, ...]
    bounds: tuple[tuple[str, UUID, int], ...]  # name, id and highest partition of each
    places: UsualPlaces
    reply: CommitReply
    losses: int  # when the topics were last seen to exist


def sort_out(request: Commit, known: Topics) -> list[CommitVerdicts]:
    """Separates the partitions of a commit that exist from those that do not."""
    return [_sorted(topic, offsets, known) for topic, offsets in request.by_topic()]


def fence_commit(group: Group, request: Commit) -> ErrorCode | None:
    """Returns an error unless the member may commit now (ClassicGroup.validateOffsetCommit)."""
    if group.state is State.DEAD:
        return ErrorCode.coordinator_not_available
    is_alone = request.generation < 0  # a simple consumer, or an admin client
    if is_alone and group.is_empty:
        return None
    if is_alone and not request.member_id and request.instance_id is None:
        return ErrorCode.unknown_member_id
    if error := fence(group, request.member_id, request.instance_id, request.generation):
        return error
    # The member has joined this generation, but does not know its assignment yet.
    return ErrorCode.rebalance_in_progress if group.state is State.COMPLETING_REBALANCE else None


def records_of(request: Commit, topics: list[CommitVerdicts], max_metadata: int, at: Instant) -> list[OffsetsStored]:
    """Returns the records of the commit, and sets the results of each topic."""
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
    """Returns the member's commit template if the request matches it and its topics still exist."""
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
    """Applies a repeated commit to the group and returns its record."""
    again = _new(StoredAgain, (group.group_id, places, offsets, at.wall_ms))
    group.kept.keep_again(again)
    return again


def refuse(topics: list[CommitVerdicts], error: ErrorCode) -> CommitReply:
    """Returns the reply with one error for every valid partition."""
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
    """Makes the commit the member's template if all of it was accepted and it is not too large."""
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
    """Drops the partitions whose metadata is too long, and sets the result of each. Most commits have no metadata."""
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
    """Whether the text is longer than the limit in Java's count: UTF-16 code units."""
    return len(text) > limit or (not text.isascii() and len(text.encode("utf-16-le")) > 2 * limit)
