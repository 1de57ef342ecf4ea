"""The durable facts: what a coordinator must find again after a crash. The journal writes them as Kafka does."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetStored:
    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int | None = None  # only where a client of old said so
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleted:
    group_id: str
    topic: str
    partition: int


Record = GroupStored | GroupDeleted | OffsetStored | OffsetDeleted
