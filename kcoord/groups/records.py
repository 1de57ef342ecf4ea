"""The durable facts: what a coordinator must find again after a crash. A journal keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    subscription: bytes  # of the protocol that was chosen
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStored:
    """The group as it is from now on: Stable if it has members, Empty if not."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader_id: str | None
    since_ms: int | None  # when it became Empty; with members, when all of them had joined
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    group_id: str


class Stamp(NamedTuple):
    """What all that was committed at once to a topic has in common."""

    committed_at_ms: int
    expires_at_ms: int | None  # only where a client of old said so
    topic_id: UUID | None


class OffsetsStored(NamedTuple):
    """What was committed at once to partitions of one topic, in columns. In Kafka's log each partition is a record.

    Columns, as a hundred offsets in one commit are common, and an object for each took longer than all else.
    """

    group_id: str
    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str]
    committed_at_ms: int
    expires_at_ms: int | None = None  # only where a client of old said so
    topic_id: UUID | None = None


class UsualPlaces:
    """Where a member commits to again and again: what was stored the first time. The very same object each time."""

    __slots__ = ("count", "group_id", "has_texts", "stored")

    def __init__(self, stored: Sequence[OffsetsStored]) -> None:
        self.stored = tuple(stored)
        self.group_id = self.stored[0].group_id
        self.count = sum(len(each.partitions) for each in stored)
        self.has_texts = any(any(each.metadata) for each in stored)


class StoredAgain(NamedTuple):
    """A commit to usual places. Nothing but its offsets is new, so that they are all there is to write or to keep."""

    group_id: str
    places: UsualPlaces
    offsets: tuple[int, ...]  # of all the partitions, in their order
    committed_at_ms: int

    def spread(self) -> list[OffsetsStored]:
        """The same, topic by topic."""
        spread, start = [], 0
        for first in self.places.stored:
            end = start + len(first.partitions)
            group_id, topic, partitions, _, epochs, metadata, _, expires_at_ms, topic_id = first
            offsets, at_ms = self.offsets[start:end], self.committed_at_ms
            stored = (group_id, topic, partitions, offsets, epochs, metadata, at_ms, expires_at_ms, topic_id)
            spread.append(OffsetsStored(*stored))
            start = end
        return spread


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleted:
    group_id: str
    topic: str
    partition: int


class Kind(StrEnum):
    """Kinds of groups that are not coordinated here."""

    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


class Part(StrEnum):
    """What of such a group a record is about."""

    GROUP = "group"
    MEMBER = "member"
    TARGET = "target"
    """The assignment that members are to come to."""
    CURRENT = "current"
    """The assignment that a member has."""
    ELSE = "else"


class OtherStored(NamedTuple):
    """A record of a group of another kind, as its coordinator wrote it. The key names it; it is not looked into."""

    group_id: str
    kind: Kind
    key: bytes
    part: Part
    member_id: str = ""
    epoch: int = 0  # of the group, of the target, or that the member has come to
    is_settled: bool = True  # of a member: it has let go of all that it was to let go of


class OtherDeleted(NamedTuple):
    group_id: str
    kind: Kind
    key: bytes
    part: Part = Part.ELSE
    member_id: str = ""


Record = GroupStored | GroupDeleted | OffsetsStored | StoredAgain | OffsetDeleted | OtherStored | OtherDeleted
