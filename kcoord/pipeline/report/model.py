"""The facts that a report is rendered from: rows that are aggregated and bounded, so that the page has a bounded size
however long the history is. Nothing of Spark is in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The maximum number of rows of each kind in a report, so that the page has a bounded size."""

    groups: int = 50
    findings: int = 20
    """The limit for each kind of finding."""
    rebalances: int = 100
    """The limit for the table of a group; its chart has all rebalances."""
    members: int = 100
    partitions: int = 24
    """The limit for the chart of ownership."""
    names: int = 4
    """The limit for the members that joined or left in one rebalance."""
    spans: int = 40
    """The limit for each partition in the chart of ownership."""
    pieces: int = 240
    """The number of pieces that the time is cut into: no line has more points."""
    lines: int = 4
    """The limit for single partitions in the chart of lag."""
    planned: int = 20_000
    """The limit for the partitions of a group for which strategies are compared, since that takes time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Generic[Row]):
    """The first rows of a list that may be long, and how many rows there are in all."""

    rows: tuple[Row, ...] = ()
    total: int = 0

    @property
    def omitted(self) -> int:
        """How many rows are left out."""
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What was read of the log, in records: `records` is the sum of the fields after it, which say what became of
    them."""

    batches: int = 0
    records: int = 0
    commits: int = 0
    generations: int = 0
    group_events: int = 0
    rejected: int = 0
    control: int = 0
    aborted: int = 0
    open: int = 0
    plain: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstableGroup:
    """A finding of the report: a group that rebalanced, how often, and what that cost."""

    group: str
    rebalances: int
    per_hour: float
    lost_ms: int | None
    """How long all of them took together, at least."""
    longest_ms: int | None
    pause_ms: int | None
    moved_partitions: int | None
    causes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlappingMember:
    """A finding of the report: a member that left its group and came back several times."""

    group: str
    member: str
    """What stays the same when it comes back: the instance id, or client id and host."""
    returned: int
    joined: int
    left: int
    stayed_ms: int | None
    """The median of how long it stayed."""
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverCaughtUp:
    """A finding of the report: a partition whose lag was never zero."""

    group: str
    topic: str
    partition: int
    lowest_lag: int
    last_lag: int
    last_lag_ms: int | None
    per_hour: float | None
    """By how many records its lag grew per hour."""
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckPartition:
    """A finding of the report: a partition whose committed offset did not move while records were waiting."""

    group: str
    topic: str
    partition: int
    committed: int
    lag: int
    since: datetime
    until: datetime | None
    """None if it had not moved by the end of what was read."""
    stood_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedReason:
    """A reason why records could not be decoded, and how often it occurred."""

    reason: str
    what: str
    rows: int
    records: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance of a group, as a row in the table of its page."""

    generation: int | None
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    causes: tuple[str, ...]
    joined: Bounded[str]
    left: Bounded[str]
    members: int | None
    moved_partitions: int | None
    pause_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMark:
    """A mark in the chart of rebalances: the rebalances of one cause that ended in one piece of the time. One with two
    causes is in two marks."""

    cause: str
    first: datetime
    last: datetime
    rebalances: int
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group, and from when to when it was there, as a row in the table of the group's page."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    first_at: datetime | None
    last_at: datetime | None
    """None if it still is a member at the end of what was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedSpan:
    """A time in which one member owned a partition, for the chart of ownership."""

    member_id: str
    instance_id: str | None
    owned_from: datetime | None
    owned_until: datetime | None
    """None if it still owned the partition at the end of what was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartition:
    """The owners of one partition over time, for the chart of ownership."""

    topic: str
    partition: int
    spans: Bounded[OwnedSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a line or column in a chart: a value in the piece of the time that begins at `at`. None is a gap: the
    value is unknown."""

    at: datetime
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    """The lag of one partition over time, for the chart of lag."""

    topic: str
    partition: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyOutcome:
    """What a strategy would make of the latest assignment of a group: how many partitions each member would have, how
    many would move and pause, and after how many rebalances. `failure` is the exception of Kafka's assignor, and then
    there is nothing else."""

    strategy: str
    shares: tuple[int, ...]
    moved: int
    paused: int
    rebalances: int
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestAssignment:
    """The latest assignment of a group, and what each strategy would make of it. `shares` are how many partitions each
    member has."""

    generation: int | None
    at: datetime | None
    protocol: str | None
    shares: tuple[int, ...]
    outcomes: tuple[StrategyOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """Everything that the page of one group shows. `lag` is of all partitions together, against their logs as these
    grew; `lag_seconds` that of the partition that is furthest behind; `partition_lag` that of the partitions whose lag
    was the largest."""

    group: str
    kind: str | None = None
    """`classic`, or Kafka's name of a newer kind; None if the group only commits."""
    state: str | None = None
    """The group's last state, as far as the log shows it."""
    protocol_type: str | None = None
    protocol: str | None = None
    rebalance_count: int = 0
    """Returns of static members that were no rebalance are not counted, although they are in `rebalances`."""
    lost_ms: int = 0
    pause_ms: int | None = None
    """How long nothing was committed around the rebalances, together; None if no pause is known."""
    commit_count: int = 0
    assignment: LatestAssignment | None = None
    """None if no assignment is known, or too large a one, or not of consumers."""
    marks: tuple[RebalanceMark, ...] = ()
    rebalances: Bounded[Rebalance] = field(default_factory=Bounded)
    members: Bounded[Member] = field(default_factory=Bounded)
    ownership: Bounded[OwnedPartition] = field(default_factory=Bounded)
    commits: tuple[Point, ...] = ()
    """Commits per second; a piece without commits has no point and counts as 0."""
    lag: tuple[Point, ...] = ()
    lag_seconds: tuple[Point, ...] = ()
    partition_lag: Bounded[PartitionLine] = field(default_factory=Bounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """Everything that a report shows: the findings of the overview, and the facts of each group's page."""

    source_name: str
    """The name that the user gave for what was read."""
    made_at: datetime
    since: datetime | None = None
    until: datetime | None = None
    """The requested end, as `since` is the requested start; None is no bound."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """The last time that there is a record of, as `first_at` is the first."""
    hours: float | None = None
    """The hours that rates are divided by; 1.0 also stands for less than an hour, None is unknown."""
    piece_seconds: float = 1.0
    """The length of the pieces that the time is cut into."""
    scanned: Scanned = field(default_factory=Scanned)
    commit_count: int = 0
    rebalance_count: int = 0
    """The sum over all groups, including those without a page."""
    groups: Bounded[GroupFacts] = field(default_factory=Bounded)
    """The groups with the most rebalances first, then those with the largest lag."""
    unstable: Bounded[UnstableGroup] = field(default_factory=Bounded)
    never_caught_up: Bounded[NeverCaughtUp] = field(default_factory=Bounded)
    stuck: Bounded[StuckPartition] = field(default_factory=Bounded)
    flapping: Bounded[FlappingMember] = field(default_factory=Bounded)
    rejected: Bounded[RejectedReason] = field(default_factory=Bounded)
