"""Version-free requests to the coordinator. Durations are seconds.

Frequent requests are named tuples: a frozen dataclass takes three times as long to make.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kcoord.groups.classic.member import Holder, Protocols


class Join(NamedTuple):
    """A version-free JoinGroup request. Timeouts are seconds; `protocols` are names in order of preference, each with
    the bytes of a subscription."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Protocols
    reason: str | None = None
    needs_known_id: bool = True  # a new member gets an id first and must join again with it (KIP-394)
    can_skip_assignment: bool = True  # the client handles a leader that must not plan (KIP-814)
    principal: str = ""  # authenticated

    @property
    def holder(self) -> Holder:
        """The client that the group and the member are counted for, where usage is limited."""
        return Holder(self.principal, self.client_host, self.client_id)


class Sync(NamedTuple):
    """A version-free SyncGroup request. `plan` has the assignments by member id, which only the leader sends."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    plan: dict[str, bytes]  # assignments by member id; used from the leader only
    lacks_protocol: bool = False  # the version requires protocol type and name, and one is missing (KIP-559)


class Heartbeat(NamedTuple):
    """A version-free Heartbeat request."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """One member that a LeaveGroup request removes: by member id, or by instance id alone, whoever holds it."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """A version-free LeaveGroup request."""

    group_id: str
    members: tuple[LeavingMember, ...]


class CommittedTopic(NamedTuple):
    """A topic of an OffsetCommit, by name or by an id that is not resolved yet, with parallel columns: one leader epoch
    and metadata text per partition. Its offsets are in the Commit."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]
    leader_epochs: tuple[int, ...]  # one per partition
    metadata: tuple[str, ...]


class Commit(NamedTuple):
    """A version-free OffsetCommit request, of a member or of a client without a group membership (generation -1).
    `offsets` are those of all topics' partitions, in their order; `retention` is seconds, None where the server's
    setting applies."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    retention: float | None  # set by old clients only; None: the server's setting
    holder: Holder
    topics: tuple[CommittedTopic, ...]  # the identical object if the client repeats the request
    offsets: tuple[int, ...]  # of all partitions, in their order

    def by_topic(self) -> Iterator[tuple[CommittedTopic, tuple[int, ...]]]:
        """Yields each topic with the offsets of its partitions."""
        start = 0
        for topic in self.topics:
            end = start + len(topic.partitions)
            yield topic, self.offsets[start:end]
            start = end


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic of a request; the topic is given by name, or by an id that is not resolved yet."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedGroup:
    """One group of an OffsetFetch request. `topics` are the partitions whose offsets are asked for, None for all that
    have offsets."""

    group_id: str
    topics: tuple[TopicPartitions, ...] | None  # None: all topics that have offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """A version-free OffsetFetch request. `is_by_id` is true in versions that name topics by id."""

    groups: tuple[RequestedGroup, ...]
    is_by_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """A version-free OffsetDelete request."""

    group_id: str
    topics: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """A version-free ListGroups request. It lists groups in one of the states and of one of the types; an empty tuple
    does not filter."""

    states: tuple[str, ...] = ()  # none: all
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroups:
    """A version-free DescribeGroups request. `include_operations` asks for the ACL operations that the client may
    do."""

    group_ids: tuple[str, ...]
    include_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    """A version-free DeleteGroups request."""

    group_ids: tuple[str, ...]
