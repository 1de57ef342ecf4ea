"""Groups, members, topics and offsets of a live cluster, independent of the version of any API.

Times are milliseconds since 1970, as in records. None stands for everything that the cluster did not report.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Position = tuple[TopicPartition, int]
"""An offset in a partition's log."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Groups partitions by topic, as Kafka's requests list them."""
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
    """The kind of a thing that the cluster could not report or change: see Refusal."""

    BROKER = "broker"
    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"
    MEMBER = "member"  # named by its member id
    INSTANCE = "instance"  # a static member, named by its instance id


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error of one resource: the cluster did not report it or did not change it, and `error` is Kafka's error code
    for that.

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
        """The group that the error is about, or whose partition or member it is about; empty for everything else."""
        return str(self.name) if self.kind is Resource.GROUP else self.group or ""


def refused_names(
    refusals: Iterable[Refusal], kind: Resource, *, errors: Container[ErrorCode] | None = None
) -> frozenset[str]:
    """Returns the names of the resources of this kind that have a refusal, or a refusal with one of these error
    codes."""
    return frozenset(
        str(each.name) for each in refusals if each.kind is kind and (errors is None or each.error in errors)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[Key, Value]):
    """The result of a request for many groups, partitions or topics: the values that were found, by key, and a refusal
    (an error) for each of the others."""

    found: Mapping[Key, Value]
    refused: tuple[Refusal, ...] = ()


class ListedGroup(NamedTuple):
    """A group as a broker's ListGroups response has it, without its members."""

    name: str
    protocol_type: str
    state: str  # empty from brokers before 2.6
    type: GroupType
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a described group (DescribeGroups, ConsumerGroupDescribe and so on).

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
    """A described group of any type: its state, members and coordinator. `protocol` is the assignor: the one that a
    classic group voted for, or the one that a KIP-848 group uses."""

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
        """The member that each partition is assigned to. A partition of a share group has many owners; this names one
        of them."""
        return {tp: member for member in self.members for tp in member.assignment or ()}


class Committed(NamedTuple):
    """An offset that a group committed for a partition: that of the next record to read. `reported_lag` is the lag that
    the broker reports, for share groups only."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    reported_lag: int | None = None


class Bounds(NamedTuple):
    """The log start offset and the log end offset of a partition. The end is the offset that the next record
    will get."""

    start: int
    end: int


def next_positions(positions: Iterable[Position], bounds: Mapping[TopicPartition, Bounds]) -> set[Position]:
    """Returns, for each of these positions that has a next record, the position to read it from. For an offset before
    the log start that is the log start."""
    return {(tp, max(offset, bounds[tp].start)) for tp, offset in positions if tp in bounds and offset < bounds[tp].end}


class FoundOffset(NamedTuple):
    """The result of a lookup by time (ListOffsets): the first offset whose record is at least as new as the requested
    time, and that record's time in ms since 1970; -1, -1 if there is none."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of the cluster: its id, and the brokers that lead its partitions and that have their replicas."""

    name: str
    id: str | None  # as Kafka's tools print it; None from brokers before 2.8
    is_internal: bool
    leaders: Mapping[int, int]  # by partition; -1 where there is none now
    replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # by partition

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions of the topic, sorted."""
        return tuple(TopicPartition(self.name, partition) for partition in sorted(self.leaders))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberToRemove:
    """The ids of a member that is to be removed from its group. A static member has an instance id; its member id may
    be left empty."""

    member_id: str = ""
    instance_id: str | None = None
