"""Forecasts of groups: whether a group keeps up; if not, when it will have caught up; and its lag in time.

Between two commits the lag of every consumer grows, and most consumers commit every five seconds, some once in minutes.
A single snapshot of the lag therefore proves little. A partition is judged when its group commits: it keeps up if
everything that had been written some seconds before is committed then. Between commits that judgement remains valid for
half a minute, or for as long as the last commit took.

Figures taken over half a minute are off by up to one commit. A lag that shrinks or grows by less than a commit explains
is neither catching up nor falling behind but steady; otherwise rates of nearly zero would give forecasts of many years.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from kcoord.admin.groups.group_snapshot import PartitionLag, Snapshot
from kcoord.admin.groups.rates import COMMIT_INTERVAL, Rate
from kcoord.admin.model import TopicPartition

MAX_FORECAST: Final = 30 * 24 * 3600.0
"""Seconds. A measurement over half a minute allows no forecast beyond that."""

_GRACE: Final = 2 * COMMIT_INTERVAL  # from a record to its commit, for a consumer that keeps up
_MIN_JUDGEMENT_LIFETIME: Final = 30.0  # seconds without a commit after which a group that kept up is judged again
_MAX_JUDGEMENT_LIFETIME: Final = 15 * 60.0
_ENDS_PER_LOG: Final = 60  # of one log


class Outlook(StrEnum):
    """How the lag of a group or partition develops: it is gone, shrinks, stays or grows; or the committed offset is
    beyond the end of the log."""

    UNKNOWN = "unknown"
    CAUGHT_UP = "caught-up"
    CATCHING_UP = "catching-up"
    STEADY = "steady"
    FALLING_BEHIND = "falling-behind"
    BEYOND_END = "beyond-end"


class Forecast(NamedTuple):
    """A forecast of a group's lag: its outlook, and in how many `seconds` it will be gone at the current rates. That is
    None if the lag does not shrink, or beyond the longest forecast."""

    outlook: Outlook
    seconds: float | None = None


UNKNOWN: Final = Forecast(Outlook.UNKNOWN)
_CAUGHT_UP: Final = Forecast(Outlook.CAUGHT_UP, 0.0)


class TimeLag(NamedTuple):
    """The lag in seconds: the age of the first record that is not consumed. `is_at_least` is True if that record is
    older than the first snapshot, so that only a lower bound is known."""

    seconds: float
    is_at_least: bool = False


def forecast(lag: int | None, rate: Rate, *, keeps_up: bool | None, span: float) -> Forecast:
    """Forecasts how a lag (in records) develops, from rates that were measured over `span` seconds. `keeps_up` is None
    in the first seconds, when it is not known yet."""
    if lag is None:
        return UNKNOWN
    if lag < 0:
        return Forecast(Outlook.BEYOND_END)
    if lag == 0 or keeps_up:
        return _CAUGHT_UP
    if keeps_up is None:
        return _CAUGHT_UP if lag <= COMMIT_INTERVAL * (rate.produced or 0.0) else UNKNOWN
    if rate.net is None or rate.produced is None:
        return UNKNOWN
    explained = rate.produced * min(1.0, COMMIT_INTERVAL / span) if span > 0 else rate.produced
    if rate.net > explained:
        seconds = lag / rate.net
        return Forecast(Outlook.CATCHING_UP, seconds if seconds <= MAX_FORECAST else None)
    is_losing = not rate.consumed or rate.net < -explained
    return Forecast(Outlook.FALLING_BEHIND if is_losing else Outlook.STEADY)


class ProgressTracker:
    """Tracks how the committed offsets of groups move over successive snapshots, to answer whether a group keeps up
    with a partition, and how old its lag is."""

    def __init__(self) -> None:
        self._ends = _LogEnds()
        self._groups: dict[str, dict[TopicPartition, _PartitionProgress]] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Adds a snapshot of groups. Groups that are gone are forgotten, unless some could not be read: then they may
        still exist."""
        self._ends.observe(snapshot)
        seen = {name: self._observe_group(snapshot.at, name, each.partitions) for name, each in snapshot.groups.items()}
        self._groups = {**self._groups, **seen} if snapshot.refused else seen

    def keeps_up(self, group: str, tp: TopicPartition) -> bool | None:
        """Whether the group commits as fast as the partition is written; None if there are too few snapshots of it."""
        progress = self._groups.get(group, {}).get(tp)
        return progress.keeps_up if progress else None

    def time_lag(self, seen: PartitionLag, at: float) -> TimeLag | None:
        """Returns the lag of a partition in seconds at the time `at`: by the time of the next record if that is known,
        otherwise by when the log grew beyond it. None if it is unknown."""
        seconds = seen.lag_seconds(at)
        if seconds is not None:
            return TimeLag(seconds)
        if seen.committed is None or not seen.lag or seen.lag < 0:
            return None
        return self._ends.time_lag(seen.tp, seen.committed.offset, at)

    def _observe_group(
        self, at: float, group: str, partitions: Collection[PartitionLag]
    ) -> dict[TopicPartition, "_PartitionProgress"]:
        known = self._groups.get(group, {})
        observed = {}
        for seen in partitions:
            if seen.committed is not None and seen.lag is not None:
                progress = observed[seen.tp] = known.get(seen.tp) or _PartitionProgress()
                due = self._ends.end_at(seen.tp, at - _GRACE)
                progress.observe(at, seen.committed.offset, seen.lag, due, is_owned=seen.owner is not None)
            elif seen.tp in known:
                observed[seen.tp] = known[seen.tp]
        return observed


def max_time_lag(time_lags: Collection[TimeLag | None]) -> TimeLag | None:
    """Returns the largest of the known lags in time; None if none is known."""
    return max((each for each in time_lags if each is not None), default=None)


class _PastEnd(NamedTuple):
    """The end of a log some seconds ago; if no snapshot is that old, the first end that is known."""

    end: int
    is_long_ago: bool


@dataclass(slots=True)
class _PartitionProgress:
    """One partition of one group: whether it keeps up, and how long its records wait for a commit."""

    keeps_up: bool | None = None
    _committed: int | None = None
    _waiting_since: float | None = None
    _last_commit_wait: float = 0.0

    def observe(self, at: float, committed: int, lag: int, due: _PastEnd | None, *, is_owned: bool) -> None:
        before, self._committed = self._committed, committed
        has_committed = before is not None and committed > before
        if lag <= 0 or (has_committed and due is not None and committed >= due.end):
            self._mark_caught_up(at, lag)
        elif before is not None and committed < before:  # its offsets were reset
            self.keeps_up, self._waiting_since = None, at
        elif has_committed:
            self._waiting_since = at
            self.keeps_up = False if due is not None and due.is_long_ago else self.keeps_up
        elif self._waiting_since is None:
            self._waiting_since = at
        elif at - self._waiting_since > self._max_wait(is_owned):
            self.keeps_up = False

    def _mark_caught_up(self, at: float, lag: int) -> None:
        if self._waiting_since is not None:
            self._last_commit_wait = at - self._waiting_since
        self._waiting_since = at if lag > 0 else None
        self.keeps_up = True

    def _max_wait(self, is_owned: bool) -> float:
        """Returns how long a commit may take. A partition without an owner that was not seen to be consumed gets little
        time."""
        if not self.keeps_up and not is_owned:
            return _GRACE
        return max(_MIN_JUDGEMENT_LIFETIME, min(_MAX_JUDGEMENT_LIFETIME, 1.5 * self._last_commit_wait))


@dataclass(slots=True)
class _LogEnds:
    """A bounded history of log ends, one for each snapshot."""

    _seen: dict[TopicPartition, deque[tuple[float, int]]] = field(default_factory=dict)

    def observe(self, snapshot: Snapshot) -> None:
        ends = {
            each.tp: each.bounds.end for seen in snapshot.groups.values() for each in seen.partitions if each.bounds
        }
        for tp, end in ends.items():
            self._seen.setdefault(tp, deque(maxlen=_ENDS_PER_LOG)).append((snapshot.at, end))
        if not snapshot.refused:
            self._seen = {tp: self._seen[tp] for tp in ends}

    def end_at(self, tp: TopicPartition, at: float) -> _PastEnd | None:
        """Returns the end in the latest snapshot that is not newer than this time."""
        ends = self._seen.get(tp)
        if not ends:
            return None
        before = next((end for seen_at, end in reversed(ends) if seen_at <= at), None)
        return _PastEnd(ends[0][1], is_long_ago=False) if before is None else _PastEnd(before, is_long_ago=True)

    def time_lag(self, tp: TopicPartition, offset: int, now: float) -> TimeLag | None:
        """Estimates since when the log goes beyond an offset, as if it grew evenly between snapshots."""
        ends = self._seen.get(tp)
        if not ends or ends[0][0] >= now:
            return None
        if ends[0][1] > offset:
            return TimeLag(now - ends[0][0], is_at_least=True)
        later = (now, offset + 1)
        for earlier in reversed(ends):
            if earlier[1] <= offset:
                break
            later = earlier
        written = earlier[0] + (later[0] - earlier[0]) * (offset - earlier[1]) / (later[1] - earlier[1])
        return TimeLag(max(0.0, now - written))
