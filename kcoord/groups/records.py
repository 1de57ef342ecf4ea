"""The durable facts: what a coordinator must find again after a crash. A journal keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
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
    since_ms: int | None  # when it came into its state
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    group_id: str


class Commitment(Protocol):
    """An offset that a member commits to a partition, under the names that it has on the wire.

    A protocol, so that what was read off the wire is kept as it is: of all that is asked of a coordinator commits are
    the most, a hundred offsets in one request are common, and making one more object of each took as long as all else.
    """

    @property
    def partition_index(self) -> int: ...

    @property
    def committed_offset(self) -> int: ...

    @property
    def committed_leader_epoch(self) -> int: ...

    @property
    def committed_metadata(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commitment that did not come off the wire as it is."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class Stamp(NamedTuple):
    """What all that was committed at once to a topic has in common."""

    committed_at_ms: int
    expires_at_ms: int | None  # only where a client of old said so
    topic_id: UUID | None


class OffsetsStored(NamedTuple):
    """What was committed at once to partitions of one topic. In Kafka's log each partition is a record of its own."""

    group_id: str
    topic: str
    lines: Sequence[Commitment]
    committed_at_ms: int
    expires_at_ms: int | None = None  # only where a client of old said so
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleted:
    group_id: str
    topic: str
    partition: int


Record = GroupStored | GroupDeleted | OffsetsStored | OffsetDeleted
