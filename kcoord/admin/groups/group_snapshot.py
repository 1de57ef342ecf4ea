"""A snapshot of groups: their committed offsets, the bounds of the logs, the owners; the lag in records and in time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

from kcoord.admin.groups.committed_offsets import Commits, TopicCommits
from kcoord.admin.model import Bounds, Committed, Group, Member, Refusal, TopicPartition, rows_of


class PartitionLag(NamedTuple):
    """The lag of a group in one partition for which it has committed or that a member owns, in records as by `lag_of`,
    with the offsets it follows from."""

    tp: TopicPartition
    committed: Committed | None
    bounds: Bounds | None
    owner: Member | None
    lag: int | None
    next_record_at: int | None = None  # the time of the first record that is not consumed yet, in ms since 1970

    def lag_seconds(self, at: float) -> float | None:
        """Returns the lag in seconds at the time `at`: the age of the first record that is not consumed yet; None if
        unknown."""
        return lag_seconds(self.lag, self.next_record_at, at)


def lag_seconds(lag: int | None, next_record_at: int | None, at: float) -> float | None:
    """Returns the lag in seconds at the time `at`: the age of the first record that is not consumed yet. It is 0 if
    there is none, and None if it is unknown or the offset is beyond the end."""
    if lag == 0:
        return 0.0
    if lag is None or lag < 0 or next_record_at is None:
        return None
    return max(0.0, at - next_record_at / 1000)


def lag_of(committed: Committed | None, bounds: Bounds | None) -> int | None:
    """Returns the lag in records from the committed offset to the log end offset, as Kafka's tool counts it; None if
    nothing is committed."""
    if committed is None:
        return None
    if committed.reported_lag is not None or bounds is None:
        return committed.reported_lag
    return bounds.end - committed.offset


class UnownedPartitions(Sequence[PartitionLag]):
    """The lags of the partitions that a group has committed for and no member owns, as columns without record times. A
    thousand groups have tens of thousands of them, and a table of groups reads no single one."""

    def __init__(self, commits: Commits, bounds: Mapping[str, Mapping[int, Bounds]]) -> None:
        """The commits are sorted; bounds are by topic and partition."""
        self._commits = commits
        self.topics: list[str] = []
        self.partitions: list[int] = []
        self.offsets: list[int] = []
        self.bounds: list[Bounds | None] = []
        self.lags: list[int | None] = []
        for each in commits.topics:
            topic_bounds = list(map(bounds.get(each.topic, {}).get, each.partitions))
            self.topics += [each.topic] * len(topic_bounds)
            self.partitions += each.partitions
            self.offsets += each.offsets
            self.bounds += topic_bounds
            self.lags += _lags(each, topic_bounds)

    @cached_property
    def _rows(self) -> tuple[PartitionLag, ...]:
        committed = self._commits.by_partition
        partitions = rows_of(TopicPartition, self.topics, self.partitions)
        return tuple(
            PartitionLag(tp, committed[tp], bounds, None, lag)
            for tp, bounds, lag in zip(partitions, self.bounds, self.lags, strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> PartitionLag: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PartitionLag]: ...
    def __getitem__(self, index: int | slice) -> PartitionLag | Sequence[PartitionLag]:
        return self._rows[index]

    def __iter__(self) -> Iterator[PartitionLag]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self.partitions)

    def __eq__(self, other: object) -> bool:
        return self._rows == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class GroupSnapshot:
    """A group at one moment, with its lag in each partition, sorted by topic and number."""

    group: Group
    partitions: Sequence[PartitionLag]

    @cached_property
    def total_lag(self) -> int | None:
        """The sum of the known lags of all partitions, in records; None if no partition's lag is known."""
        return sum_known(self.lags)

    @property
    def lags(self) -> Sequence[int | None]:
        """The lags of the partitions in records, in their order; None where a lag is unknown."""
        unowned = self.partitions
        return unowned.lags if isinstance(unowned, UnownedPartitions) else [seen.lag for seen in unowned]

    def worst_seconds(self, at: float) -> float | None:
        """Returns the largest lag in seconds at the time `at`, over all partitions: the age of the oldest record that
        is not consumed. None as in `max_known`."""
        if isinstance(self.partitions, UnownedPartitions):  # no record times are known
            return 0.0 if 0 in self.lags and not self.total_lag else None
        unread = [seen.next_record_at for seen in self.partitions if seen.lag is not None and seen.lag > 0]
        if not unread:
            return 0.0 if any(seen.lag == 0 for seen in self.partitions) else None
        known = [time for time in unread if time is not None]
        worst = max(0.0, at - min(known) / 1000) if known else 0.0
        return worst if worst or len(known) == len(unread) else None

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """The topics that the group has committed for or owns partitions of, sorted."""
        return tuple(sorted({seen.tp.topic for seen in self.partitions}))


def sum_known(lags: Iterable[int | None]) -> int | None:
    """Adds up the known lags of partitions, in records; None if none is known. An offset beyond the end of its log does
    not reduce the lag of other partitions."""
    known = [lag for lag in lags if lag is not None]
    return sum([lag for lag in known if lag > 0]) if known else None


def max_known(lags: Iterable[tuple[int | None, float | None]]) -> float | None:
    """Returns the longest known lag in seconds, from pairs of lags in records and in seconds. Partitions that are
    caught up prove nothing about others: the result is None if some partition has lag and its time is unknown."""
    pairs = list(lags)
    worst = max((seconds for _, seconds in pairs if seconds is not None), default=None)
    has_unknown = any(lag is not None and lag > 0 and seconds is None for lag, seconds in pairs)
    return None if has_unknown and not worst else worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of groups with members, committed offsets and lag, at one moment `at` in seconds since 1970, and an
    error for each that could not be read."""

    at: float
    groups: Mapping[str, GroupSnapshot]
    refused: tuple[Refusal, ...] = ()


# Summaries, for output that shows no partitions


class GroupSummary(NamedTuple):
    """A group with its topics and total lag, without the single partitions of a `GroupSnapshot`."""

    group: Group
    topics: tuple[str, ...]
    total_lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummaries:
    """Summaries of groups, by group, and an error for each that could not be read."""

    groups: Mapping[str, GroupSummary]
    refused: tuple[Refusal, ...] = ()


def summarize(group: Group, commits: Commits, bounds: Mapping[str, Mapping[int, Bounds]]) -> GroupSummary:
    """Returns the summary of a group. It works on whole columns, as there may be tens of thousands of partitions.
    Bounds of logs are by topic and partition."""
    lags: list[int | None] = []
    for each in commits.topics:
        lags += _lags(each, map(bounds.get(each.topic, {}).get, each.partitions))
    topics = {each.topic for each in commits.topics}
    if group.members:
        topics.update(tp.topic for tp in group.owners)
    return GroupSummary(group, tuple(sorted(topics)), sum_known(lags))


def _lags(commits: TopicCommits, bounds: Iterable[Bounds | None]) -> Iterable[int | None]:
    """Computes `lag_of` for each partition."""
    rows = zip(commits.offsets, bounds, strict=True)
    counted = [None if found is None else found.end - offset for offset, found in rows]
    return map(_reported_or, commits.reported_lags, counted) if commits.reported_lags else counted


def _reported_or(reported: int | None, counted: int | None) -> int | None:
    return counted if reported is None else reported
