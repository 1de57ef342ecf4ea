"""Groups, members, topics and offsets of a live cluster, independent of the version of any API.

Times are milliseconds since 1970, as in records. None stands for everything that the cluster did not report.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeVar

from kcoord.errors import ErrorCode

Key = TypeVar("Key")
Value = TypeVar("Value")
Row = TypeVar("Row", bound=tuple[Any, ...])


def rows_of(kind: type[Row], *columns: Iterable[Any]) -> Iterator[Row]:
    """Builds named tuples of this kind from its columns, as many as the shortest column has. It is `map(kind,
    *columns)` without a call of a Python function for each of what may be tens of thousands of rows."""
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=False))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Position = tuple[TopicPartition, int]
"""An offset in a partition's log."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Groups partitions by topic, as requests name them."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp)
    return topics


class GroupType(StrEnum):
    """The kinds of groups, as ListGroups names them. `UNKNOWN` is the type of a group that an older broker lists
    without one."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker and its endpoint."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Resource(StrEnum):
    """The kinds of things that a cluster can refuse to report or to change."""

    BROKER = "broker"
    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"
    MEMBER = "member"  # named by its member id
    INSTANCE = "instance"  # a static member, named by its instance id


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that the cluster did not report or did not do, and the error that says why.

    `group` is the group to which a partition's offset or a member belongs, if the refusal is about these. The name is
    empty for a broker that librdkafka does not name. Code compares `kind` and `name`; `what` and `str` are the texts
    that commands print.
    """

    kind: Resource
    name: str | TopicPartition
    error: ErrorCode
    message: str = ""
    group: str | None = None

    def __str__(self) -> str:
        return f"{self.what}: {self.error.name.upper()}" + (f" ({self.message})" if self.message else "")

    @property
    def what(self) -> str:
        """The refused resource in words, such as "group g1", "topic t", "broker 2" or "group g1, partition t-0"."""
        if self.kind is Resource.BROKER and not self.name:
            return "a broker"
        resource = f"{self.kind} {self.name}"
        return resource if self.group is None else f"group {self.group}, {resource}"

    @property
    def group_name(self) -> str:
        """The group that this is about, or whose partition or member it is about; empty for everything else."""
        return str(self.name) if self.kind is Resource.GROUP else self.group or ""


def refused_names(
    refusals: Iterable[Refusal], kind: Resource, *, errors: Container[ErrorCode] | None = None
) -> frozenset[str]:
    """Returns the names of all refused resources of this kind, or of those that were refused with these errors."""
    return frozenset(
        str(each.name) for each in refusals if each.kind is kind and (errors is None or each.error in errors)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[Key, Value]):
    """The values that were found, by the keys that were asked for, and the refusals: a part of the cluster may be
    unreachable or forbidden."""

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

    `assignment` is its current assignment, `target` its target assignment (KIP-848 groups only). Both are None if the
    member is not a consumer, or if the bytes cannot be parsed. `subscription` names topics; `subscribed_regex` is the
    pattern of a KIP-848 member.
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
    is_classic: bool | None = None  # whether a member of a KIP-848 group still uses the classic protocol
    tasks: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None  # streams: role -> subtopology -> partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A described group. `protocol` is the assignor: the one that a classic group voted for, or the one that a KIP-848
    group uses."""

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
        """The owner of each partition. A partition of a share group has many owners; this names one of them."""
        return {tp: member for member in self.members for tp in member.assignment or ()}


class Committed(NamedTuple):
    """An offset that a group committed: the next record to read. Brokers report the lag for share groups only."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    reported_lag: int | None = None


class Bounds(NamedTuple):
    """The start and the end of a partition's log. The end is the offset that the next record will get."""

    start: int
    end: int


def next_positions(positions: Iterable[Position], bounds: Mapping[TopicPartition, Bounds]) -> set[Position]:
    """Returns the position of the next record for each of these positions that has one. For an offset before the start
    of the log that is the start."""
    return {(tp, max(offset, bounds[tp].start)) for tp, offset in positions if tp in bounds and offset < bounds[tp].end}


class FoundOffset(NamedTuple):
    """The first offset whose record is at least as new as the requested time; -1, -1 if there is none."""

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
class MemberToRemove:
    """A member to remove: by instance id if it is static, otherwise by member id."""

    member_id: str = ""
    instance_id: str | None = None
