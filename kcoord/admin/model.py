"""What a live cluster tells of its groups, in no version of any API.

Times are milliseconds since 1970, as records have them. What a cluster did not say is None.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

from kcoord.errors import ErrorCode

Key = TypeVar("Key")
Value = TypeVar("Value")
Row = TypeVar("Row", bound=tuple[Any, ...])


def rows_of(kind: type[Row], *columns: Iterable[Any]) -> Iterator[Row]:
    """Named tuples of this kind from all of its columns, as long as the shortest of them: `map(kind, *columns)` without
    a call of a Python function for each of what may be tens of thousands."""
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=False))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Position = tuple[TopicPartition, int]
"""An offset in a partition's log."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """As requests name them."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp)
    return topics


class GroupType(StrEnum):
    """The kinds of groups, as ListGroups names them. `UNKNOWN` is what an older broker leaves unsaid."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker, and where it is."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What the cluster did not tell or did not do. `what` names it: "group g1", "topic t", "broker 2"."""

    what: str
    error: ErrorCode
    message: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.error.name.upper()}" + (f" ({self.message})" if self.message else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[Key, Value]):
    """What was told, by what was asked for, and what was refused: a part of the cluster may be silent or forbidden."""

    found: Mapping[Key, Value]
    refused: tuple[Refusal, ...] = ()


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it."""

    name: str
    protocol_type: str
    state: str  # empty from brokers before 2.6
    type: GroupType
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a described group.

    `assignment` is what it has now, `target` what it shall have (KIP-848 groups only). Both are None if they are not
    a consumer's, or cannot be read. `subscription` names topics; `subscribed_regex` is a KIP-848 member's pattern.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None
    subscription: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    rack: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    is_classic: bool | None = None  # in a KIP-848 group: it still speaks the classic protocol
    tasks: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None  # streams: role -> subtopology -> partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A described group. `protocol` is the assignor that was voted for or, of KIP-848 groups, that the group uses."""

    name: str
    type: GroupType
    state: str
    protocol_type: str
    protocol: str
    coordinator: Node
    members: tuple[Member, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def owners(self) -> dict[TopicPartition, Member]:
        """Who has which partition. A share group's partition has many; one of them is named."""
        return {tp: member for member in self.members for tp in member.assignment or ()}


class Committed(NamedTuple):
    """An offset that a group committed: the next record to read. The lag is told of share groups only."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    told_lag: int | None = None


class Bounds(NamedTuple):
    """Where a partition's log starts and ends: the end is the offset that the next record will get."""

    start: int
    end: int


def read_on(positions: Iterable[Position], bounds: Mapping[TopicPartition, Bounds]) -> set[Position]:
    """Where each would read on, if there is something to read; the start of the log for one that fell behind."""
    return {(tp, max(offset, bounds[tp].start)) for tp, offset in positions if tp in bounds and offset < bounds[tp].end}


class FoundOffset(NamedTuple):
    """The first offset whose record is at least as new as was asked for; -1, -1 if there is none."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    name: str
    id: str | None  # as Kafka's tools print it; None from brokers before 2.8
    is_internal: bool
    leaders: Mapping[int, int]  # by partition; -1 where there is none now

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Who is to be removed: by instance id if it is static, else by member id."""

    member_id: str = ""
    instance_id: str | None = None
