"""Records: the durable facts that a journal stores and a coordinator replays after a crash."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID


class StoredMember(NamedTuple):
    """A member of a classic group within the group's record (GroupMetadataValue.MemberMetadata). Timeouts are seconds;
    the subscription is that for the group's protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    subscription: bytes  # for the selected protocol
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStored:
    """The record of a classic group's new state, which is GroupMetadata in `__consumer_offsets`: Stable if it has
    members, Empty if not. `since_ms` is when it became Empty, or when all members had joined."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader_id: str | None
    since_ms: int | None  # when it became Empty; with members, when all of them had joined
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """The tombstone of a classic group's record."""

    group_id: str


class CommitInfo(NamedTuple):
    """The fields that all offsets of one commit to a topic have in common: its time, its expiry if an old client set
    one (else None), and the topic id if it is known. Times are milliseconds since the Unix epoch."""

    committed_at_ms: int
    expires_at_ms: int | None  # set by old clients only
    topic_id: UUID | None


class OffsetsStored(NamedTuple):
    """The offsets of one OffsetCommit to the partitions of one topic, as parallel columns. In Kafka's log each
    partition is an OffsetCommit record of its own.

    Commits of a hundred offsets are common, and an object for each would take longer than all other steps.
    """

    group_id: str
    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str]
    committed_at_ms: int
    expires_at_ms: int | None = None  # set by old clients only
    topic_id: UUID | None = None


class CommitPartitions:
    """The partitions that a member commits to repeatedly, with the records of its first commit to them.

    Every repeated commit refers to this very object, so that only its offsets and its time need to be stored.
    """

    __slots__ = ("count", "first_records", "group_id", "has_metadata")

    def __init__(self, stored: Sequence[OffsetsStored]) -> None:
        self.first_records = tuple(stored)
        self.group_id = self.first_records[0].group_id
        self.count = sum(len(each.partitions) for each in stored)
        self.has_metadata = any(any(each.metadata) for each in stored)


class RepeatedCommit(NamedTuple):
    """The record of an OffsetCommit to the same partitions as an earlier one of the member. Only its offsets, one per
    partition, and its time are new."""

    group_id: str
    partitions: CommitPartitions
    offsets: tuple[int, ...]  # of all partitions, in their order
    committed_at_ms: int

    def expand(self) -> list[OffsetsStored]:
        """Returns the commit as ordinary records, one per topic."""
        records, start = [], 0
        for first in self.partitions.first_records:
            end = start + len(first.partitions)
            group_id, topic, partitions, _, epochs, metadata, _, expires_at_ms, topic_id = first
            offsets, at_ms = self.offsets[start:end], self.committed_at_ms
            stored = (group_id, topic, partitions, offsets, epochs, metadata, at_ms, expires_at_ms, topic_id)
            records.append(OffsetsStored(*stored))
            start = end
        return records


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleted:
    """The tombstone of one partition's committed offset."""

    group_id: str
    topic: str
    partition: int


class GroupKind(StrEnum):
    """The kinds of groups that are not coordinated here, as ListGroups names them."""

    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


class ForeignGroupPart(StrEnum):
    """What a record of a group that is not classic describes: the group, a member, the group's target assignment, or a
    member's current assignment."""

    GROUP = "group"
    MEMBER = "member"
    TARGET = "target"
    """The target assignment."""
    CURRENT = "current"
    """The current assignment of a member."""
    OTHER = "else"


class ForeignGroupRecord(NamedTuple):
    """A record of a consumer group (KIP-848), share group or streams group in `__consumer_offsets`, reduced to what its
    state depends on. `key` has the bytes of the record's key, which are not interpreted."""

    group_id: str
    kind: GroupKind
    key: bytes
    part: ForeignGroupPart
    member_id: str = ""
    epoch: int = 0  # of the group, of the target assignment, or of the member
    is_reconciled: bool = True  # of a member: it has revoked all partitions that it had to revoke


class ForeignGroupTombstone(NamedTuple):
    """The tombstone of a record of a consumer group (KIP-848), share group or streams group."""

    group_id: str
    kind: GroupKind
    key: bytes
    part: ForeignGroupPart = ForeignGroupPart.OTHER
    member_id: str = ""


Record = (
    GroupStored
    | GroupDeleted
    | OffsetsStored
    | RepeatedCommit
    | OffsetDeleted
    | ForeignGroupRecord
    | ForeignGroupTombstone
)
