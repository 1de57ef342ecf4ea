"""What a report is made of: rows that are added up and bounded already, so that the page has a size however long the
history is. Nothing of Spark is in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of everything is in a report at most."""

    groups: int = 50
    findings: int = 20
    """Of each kind."""
    rebalances: int = 100
    """In the table of a group; in its picture are all of them."""
    members: int = 100
    partitions: int = 24
    """In the picture of who owned what."""
    names: int = 4
    """Of those who joined or left in one rebalance."""
    spans: int = 40
    """Of one partition there."""
    pieces: int = 240
    """That the time is cut into: no line has more points."""
    lines: int = 4
    """Of single partitions in the picture of lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Some(Generic[Row]):
    """The first rows, and how many there are in all."""

    rows: tuple[Row, ...] = ()
    total: int = 0

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What was read, in records: `records` is the sum of those behind it."""

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
class RestlessGroup:
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
    group: str
    member: str
    """What stays the same when it comes back: the instance id, or client id and host."""
    returned: int
    joined: int
    left: int
    stayed_ms: int | None
    """Half of the times that it was there were no longer than this."""
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverCaughtUp:
    group: str
    topic: str
    partition: int
    lowest_lag: int
    last_lag: int
    last_lag_ms: int | None
    per_hour: float | None
    """By how many records its lag grew."""
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPartition:
    group: str
    topic: str
    partition: int
    committed: int
    lag: int
    since: datetime
    until: datetime | None
    """None if it still stood at the end of what was read."""
    stood_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedReason:
    reason: str
    what: str
    rows: int
    records: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    generation: int | None
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    causes: tuple[str, ...]
    joined: Some[str]
    left: Some[str]
    members: int | None
    moved_partitions: int | None
    pause_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMark:
    """The rebalances of one cause that ended in one piece of the time. One with two causes is in two marks."""

    cause: str
    first: datetime
    last: datetime
    rebalances: int
    lost_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    first_at: datetime | None
    last_at: datetime | None
    """None if it still is a member at the end of what was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedSpan:
    member_id: str
    instance_id: str | None
    owned_from: datetime | None
    owned_until: datetime | None
    """None if it still owned it at the end of what was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartition:
    topic: str
    partition: int
    spans: Some[OwnedSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value in one piece of the time; None is a gap: it cannot be told."""

    at: datetime
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLine:
    topic: str
    partition: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One page. `lag` is of all partitions together, against their logs as these grew; `lag_seconds` of the one that
    is furthest behind; `partition_lag` of those whose lag was the largest."""

    group: str
    kind: str | None = None
    """`classic`, or as Kafka names the newer kinds; None if it only commits."""
    state: str | None = None
    """Of a classic group, at the end."""
    protocol_type: str | None = None
    protocol: str | None = None
    rebalance_count: int = 0
    """Without the returns of static members that were no rebalance; those are in `rebalances`, too."""
    lost_ms: int = 0
    pause_ms: int | None = None
    """How long nothing was committed around the rebalances, together; None if that is not known of any."""
    commit_count: int = 0
    marks: tuple[RebalanceMark, ...] = ()
    rebalances: Some[Rebalance] = field(default_factory=Some)
    members: Some[Member] = field(default_factory=Some)
    ownership: Some[OwnedPartition] = field(default_factory=Some)
    commits: tuple[Point, ...] = ()
    """Per second; a piece without commits has no point and is 0."""
    lag: tuple[Point, ...] = ()
    lag_seconds: tuple[Point, ...] = ()
    partition_lag: Some[PartitionLine] = field(default_factory=Some)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    place: str
    """What was read, as the user names it."""
    made_at: datetime
    since: datetime | None = None
    until: datetime | None = None
    """What was asked for; None is no bound."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    """The first and the last that there is."""
    hours: float | None = None
    """What rates per hour are reckoned with; 1.0 also stands for less than an hour, None is not known."""
    piece_seconds: float = 1.0
    """How long the pieces are that the time is cut into."""
    scanned: Scanned = field(default_factory=Scanned)
    commit_count: int = 0
    rebalance_count: int = 0
    """Of all groups, those that are left out too."""
    groups: Some[GroupFacts] = field(default_factory=Some)
    """The most restless first, then those with the largest lag."""
    restless: Some[RestlessGroup] = field(default_factory=Some)
    never_caught_up: Some[NeverCaughtUp] = field(default_factory=Some)
    standing: Some[StandingPartition] = field(default_factory=Some)
    flapping: Some[FlappingMember] = field(default_factory=Some)
    rejected: Some[RejectedReason] = field(default_factory=Some)
