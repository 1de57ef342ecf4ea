"""One look at groups: what they have committed, where the logs end, who owns what; lag in records and in time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

from kcoord.admin.groups.committed_offsets import Commits, TopicCommits
from kcoord.admin.model import Bounds, Committed, Group, Member, Refusal, TopicPartition, rows_of


class SeenPartition(NamedTuple):
    """A partition that a group committed or that a member owns. The lag is that of `lag_of`."""

    tp: TopicPartition
    committed: Committed | None
    bounds: Bounds | None
    owner: Member | None
    lag: int | None
    next_record_at: int | None = None  # the time of the first record that is not consumed yet, in ms since 1970

    def lag_seconds(self, at: float) -> float | None:
        return lag_seconds(self.lag, self.next_record_at, at)


def lag_seconds(lag: int | None, next_record_at: int | None, at: float) -> float | None:
    """The age of the first record that is not consumed yet; 0 if there is none, None if that is not known: also of an
    offset beyond the end."""
    if lag == 0:
        return 0.0
    if lag is None or lag < 0 or next_record_at is None:
        return None
    return max(0.0, at - next_record_at / 1000)


def lag_of(committed: Committed | None, bounds: Bounds | None) -> int | None:
    """Records from the committed offset to the end, as Kafka's tool counts them; None if nothing is committed."""
    if committed is None:
        return None
    if committed.told_lag is not None or bounds is None:
        return committed.told_lag
    return bounds.end - committed.offset


class Unowned(Sequence[SeenPartition]):
    """The partitions that a group has committed and nobody owns, as columns, where no times were read: a thousand
    groups have tens of thousands of them, and who shows them as a table looks at no single one."""

    def __init__(self, commits: Commits, bounds: Mapping[str, Mapping[int, Bounds]]) -> None:
        """The commits are in order; bounds are by topic and partition."""
        self._commits = commits
        self.topics: list[str] = []
        self.partitions: list[int] = []
        self.offsets: list[int] = []
        self.bounds: list[Bounds | None] = []
        self.lags: list[int | None] = []
        for each in commits.topics:
            own = list(map(bounds.get(each.topic, {}).get, each.partitions))
            self.topics += [each.topic] * len(own)
            self.partitions += each.partitions
            self.offsets += each.offsets
            self.bounds += own
            self.lags += _lags(each, own)

    @cached_property
    def _rows(self) -> tuple[SeenPartition, ...]:
        committed = self._commits.by_partition
        partitions = rows_of(TopicPartition, self.topics, self.partitions)
        return tuple(
            SeenPartition(tp, committed[tp], bounds, None, lag)
            for tp, bounds, lag in zip(partitions, self.bounds, self.lags, strict=True)
        )

    @overload
    def __getitem__(self, place: int) -> SeenPartition: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[SeenPartition]: ...
    def __getitem__(self, place: int | slice) -> SeenPartition | Sequence[SeenPartition]:
        return self._rows[place]

    def __iter__(self) -> Iterator[SeenPartition]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self.partitions)

    def __eq__(self, other: object) -> bool:
        return self._rows == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class SeenGroup:
    """A group at one moment; partitions are in order of topic and number."""

    group: Group
    partitions: Sequence[SeenPartition]

    @cached_property
    def total_lag(self) -> int | None:
        """None if no partition's lag is known."""
        return added(self.lags)

    @property
    def lags(self) -> Sequence[int | None]:
        """Of its partitions, in their order."""
        unowned = self.partitions
        return unowned.lags if isinstance(unowned, Unowned) else [seen.lag for seen in unowned]

    def worst_seconds(self, at: float) -> float | None:
        """The longest of its partitions, as `longest` has it: the age of the oldest record that is not consumed."""
        if isinstance(self.partitions, Unowned):  # of which no times are known
            return 0.0 if 0 in self.lags and not self.total_lag else None
        unread = [seen.next_record_at for seen in self.partitions if seen.lag is not None and seen.lag > 0]
        if not unread:
            return 0.0 if any(seen.lag == 0 for seen in self.partitions) else None
        known = [time for time in unread if time is not None]
        worst = max(0.0, at - min(known) / 1000) if known else 0.0
        return worst if worst or len(known) == len(unread) else None

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({seen.tp.topic for seen in self.partitions}))


def added(lags: Iterable[int | None]) -> int | None:
    """What is known of them, added up. An offset beyond the end of its log makes no other partition's lag smaller."""
    known = [lag for lag in lags if lag is not None]
    return sum([lag for lag in known if lag > 0]) if known else None


def longest(lags: Iterable[tuple[int | None, float | None]]) -> float | None:
    """The longest that is known of lags in records and in seconds. That some are caught up says nothing of others, so
    that it is None where there is lag and no time is known of it."""
    told = list(lags)
    worst = max((seconds for _, seconds in told if seconds is not None), default=None)
    has_unknown = any(lag is not None and lag > 0 and seconds is None for lag, seconds in told)
    return None if has_unknown and not worst else worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Groups as they were at one moment, in seconds since 1970, and what was not told."""

    at: float
    groups: Mapping[str, SeenGroup]
    refused: tuple[Refusal, ...] = ()


# What a look comes to, for who shows no partitions


class GroupSum(NamedTuple):
    """A group as `SeenGroup` has it, without its partitions."""

    group: Group
    topics: tuple[str, ...]
    total_lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Groups, and what was not told."""

    groups: Mapping[str, GroupSum]
    refused: tuple[Refusal, ...] = ()


def sum_up(group: Group, commits: Commits, bounds: Mapping[str, Mapping[int, Bounds]]) -> GroupSum:
    """From whole columns: there may be tens of thousands of partitions. Bounds of logs are by topic and partition."""
    lags: list[int | None] = []
    for each in commits.topics:
        lags += _lags(each, map(bounds.get(each.topic, {}).get, each.partitions))
    topics = {each.topic for each in commits.topics}
    if group.members:
        topics.update(tp.topic for tp in group.owners)
    return GroupSum(group, tuple(sorted(topics)), added(lags))


def _lags(commits: TopicCommits, bounds: Iterable[Bounds | None]) -> Iterable[int | None]:
    """What `lag_of` says of each."""
    rows = zip(commits.offsets, bounds, strict=True)
    counted = [None if found is None else found.end - offset for offset, found in rows]
    return map(_told_or, commits.told_lags, counted) if commits.told_lags else counted


def _told_or(told: int | None, counted: int | None) -> int | None:
    return counted if told is None else told
