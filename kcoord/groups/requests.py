"""What the coordinator is asked, free of versions. Durations are seconds.

What is asked often is a named tuple: a frozen dataclass takes three times as long to make.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kcoord.groups.classic.member import Holder, Protocols


class Join(NamedTuple):
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
    needs_known_id: bool = True  # a new id is to be used before it counts (KIP-394)
    can_skip_assignment: bool = True  # knows what to do as a leader that need not plan (KIP-814)
    principal: str = ""  # that has logged in

    @property
    def holder(self) -> Holder:
        return Holder(self.principal, self.client_host, self.client_id)


class Sync(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    plan: dict[str, bytes]  # assignments by member id; only the leader's counts
    lacks_protocol: bool = False  # a client that must say both, and does not (KIP-559)


class Heartbeat(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One member that is to go. With an instance id and no member id whoever has that instance id goes."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    group_id: str
    members: tuple[Leaving, ...]


class CommittedTopic(NamedTuple):
    """By name, or by id with the name still to be found. All but the offsets, which are new with each commit."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]
    leader_epochs: tuple[int, ...]  # of each of these
    metadata: tuple[str, ...]


class Commit(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    retention: float | None  # of the offsets, by clients of old; None: as set
    holder: Holder
    topics: tuple[CommittedTopic, ...]  # the very same where the client asks the same again
    offsets: tuple[int, ...]  # of all their partitions, in their order

    def by_topic(self) -> Iterator[tuple[CommittedTopic, tuple[int, ...]]]:
        """Each topic with the offsets of its partitions."""
        start = 0
        for topic in self.topics:
            end = start + len(topic.partitions)
            yield topic, self.offsets[start:end]
            start = end


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTopic:
    """Partitions of a topic, which is given by name, or by id with the name still to be found."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedGroup:
    group_id: str
    topics: tuple[AskedTopic, ...] | None  # None: all that have offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    groups: tuple[AskedGroup, ...]
    is_by_id: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    group_id: str
    topics: tuple[AskedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    states: tuple[str, ...] = ()  # none: all
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroups:
    group_ids: tuple[str, ...]
    include_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    group_ids: tuple[str, ...]
