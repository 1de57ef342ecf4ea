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
from kcoord.groups.offsets.partition_results import PartitionResults, results_for, to_topics
from kcoord.groups.records import CommitPartitions, OffsetsStored, RepeatedCommit
from kcoord.groups.replies import CommitReply, PartitionError
from kcoord.groups.requests import Commit, CommittedTopic
from kcoord.groups.topics import Topics

_new = tuple.__new__  # bypasses the constructor of a NamedTuple, which costs a call
_MAX_TEMPLATE_PARTITIONS: Final = 1000
"""Partitions that a remembered commit may have at most, so that a member takes little memory whatever it sends."""


@dataclass(slots=True, kw_only=True)
class CommitResults(PartitionResults):
    """The results of one topic of an OffsetCommit by partition, while it is decided; and the partitions that are still
    to be stored, as parallel columns with their offsets, leader epochs and metadata."""

    partitions: Sequence[int] = ()
    offsets: Sequence[int] = ()
    leader_epochs: Sequence[int] = ()
    metadata: Sequence[str] = ()
    all_accepted: bool = False  # no partition was refused for its metadata

    def retain(self, wanted: Sequence[bool]) -> None:
        """Removes the partitions for which `wanted`, which has one flag per partition, is false."""
        self.partitions = tuple(compress(self.partitions, wanted))
        self.offsets = tuple(compress(self.offsets, wanted))
        self.leader_epochs = tuple(compress(self.leader_epochs, wanted))
        self.metadata = tuple(compress(self.metadata, wanted))


class CommitTemplate(NamedTuple):
    """A member's last OffsetCommit, if all its partitions were accepted: a commit to the same partitions need not be
    checked again, and gets the same reply. `bounds` has the name, id and highest partition of each topic."""

    topics: tuple[CommittedTopic, ...]
    bounds: tuple[tuple[str, UUID, int], ...]  # name, id and highest partition of each
    partitions: CommitPartitions
    reply: CommitReply
    deletion_epoch: int  # when the topics were last seen to exist


def validate_partitions(request: Commit, known: Topics) -> list[CommitResults]:
    """Returns the results of each topic of a commit, in which partitions that do not exist are refused already."""
    return [_validate_topic(topic, offsets, known) for topic, offsets in request.by_topic()]


def fence_commit(group: Group, request: Commit) -> ErrorCode | None:
    """Returns an error unless the client may commit to the group now, else None (ClassicGroup.validateOffsetCommit)."""
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


def records_of(request: Commit, topics: list[CommitResults], max_metadata: int, at: Instant) -> list[OffsetsStored]:
    """Returns the records of a commit, one per topic, and refuses partitions whose metadata has more than
    `max_metadata` characters in `topics`."""
    expires_at_ms = _expires_at_ms(request, at)
    records = []
    for topic in topics:
        _check_metadata(topic, max_metadata)
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


def matching_template(member: Member, request: Commit, known: Topics) -> CommitTemplate | None:
    """Returns the template of the member's last commit if the request commits to the same partitions and these still
    exist, else None."""
    template = member.commit_template
    if template is None or request.retention is not None:
        return None
    if template.topics is not request.topics and template.topics != request.topics:
        return None
    if template.deletion_epoch != known.deletion_epoch:
        if not all(known.has(*bounds) for bounds in template.bounds):
            return None
        template = member.commit_template = template._replace(deletion_epoch=known.deletion_epoch)
    return template


def apply_repeated(group: Group, partitions: CommitPartitions, offsets: tuple[int, ...], at: Instant) -> RepeatedCommit:
    """Stores the offsets of a commit to the same partitions as before, and returns its record."""
    record = _new(RepeatedCommit, (group.group_id, partitions, offsets, at.wall_ms))
    group.committed_offsets.apply_repeated(record)
    return record


def refuse(topics: list[CommitResults], error: ErrorCode) -> CommitReply:
    """Returns the reply to an OffsetCommit that has this error for every partition that exists."""
    for topic in topics:
        topic.results = results_for(topic.partitions, error)
    return reply(topics)


def remember_template(
    member: Member,
    request: Commit,
    topics: list[CommitResults],
    records: Sequence[OffsetsStored],
    reply: CommitReply,
    known: Topics,
) -> None:
    """Remembers the commit as the member's template, which repeated commits are compared with, if all of it was
    accepted and it is not too large."""
    is_whole = all(topic.all_accepted and topic.missing is None and topic.partitions for topic in topics)
    if is_whole and request.retention is None and len(request.offsets) <= _MAX_TEMPLATE_PARTITIONS:
        bounds = tuple(_bounds(topic) for topic in topics)
        member.commit_template = CommitTemplate(
            request.topics, bounds, CommitPartitions(records), reply, known.deletion_epoch
        )


def reply(topics: list[CommitResults]) -> CommitReply:
    """Returns the reply to an OffsetCommit, with the result of each partition."""
    for topic in topics:
        if topic.all_accepted:
            topic.results = results_for(topic.partitions, ErrorCode.none)
    return CommitReply(topics=to_topics(topics))


def _validate_topic(topic: CommittedTopic, offsets: tuple[int, ...], known: Topics) -> CommitResults:
    if topic.name is None:
        name = known.topic_name(topic.topic_id) if topic.topic_id else None
        topic_id, unknown = topic.topic_id, ErrorCode.unknown_topic_id
    else:
        name, topic_id = topic.name, known.topic_id(topic.name)
        unknown = ErrorCode.unknown_topic_or_partition
    if name is None or topic_id is None:
        missing = results_for(topic.partitions, unknown)
        return CommitResults(name=topic.name, topic_id=topic.topic_id, missing=missing)
    results = CommitResults(
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
        results.missing = results_for(absent, ErrorCode.unknown_topic_or_partition)
        results.retain([partition in existing for partition in topic.partitions])
    return results


def _check_metadata(topic: CommitResults, limit: int) -> None:
    """Drops the partitions whose metadata is too long, and sets the result of each. Most commits have no metadata."""
    if not any(topic.metadata):
        topic.all_accepted = True
        return
    are_fine = [not _exceeds(text, limit) for text in topic.metadata]
    topic.results = tuple(
        PartitionError(partition, ErrorCode.none if is_fine else ErrorCode.offset_metadata_too_large)
        for partition, is_fine in zip(topic.partitions, are_fine, strict=True)
    )
    topic.retain(are_fine)


def _bounds(topic: CommitResults) -> tuple[str, UUID, int]:
    assert topic.name is not None
    assert topic.topic_id is not None
    return topic.name, topic.topic_id, max(topic.partitions)


def _expires_at_ms(request: Commit, at: Instant) -> int | None:
    return None if request.retention is None else at.wall_ms + round(request.retention * 1000)


def _exceeds(text: str, limit: int) -> bool:
    """Whether the text is longer than the limit in Java's count: UTF-16 code units."""
    return len(text) > limit or (not text.isascii() and len(text.encode("utf-16-le")) > 2 * limit)
