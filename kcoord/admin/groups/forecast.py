"""Whether a group keeps up; if not, when it will have caught up; and how long it is behind.

Between two commits the lag of every consumer grows, and most commit every five seconds, some once in minutes. One look
at the lag therefore says little. A partition is judged when its group commits: it keeps up if everything that had been
written some seconds before is committed then. Between commits that judgement holds for half a minute, or for as long as
the group usually takes from commit to commit.

Figures taken over half a minute are off by up to one commit. A lag that shrinks or grows by less than a commit explains
is neither catching up nor falling behind but steady; otherwise rates of nearly zero would be forecasts of many years.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from kcoord.admin.groups.group_snapshot import Look, SeenPartition
from kcoord.admin.groups.rates import COMMIT_INTERVAL, Pace
from kcoord.admin.model import TopicPartition

LONGEST_FORECAST: Final = 30 * 24 * 3600.0
"""Seconds. What was measured over half a minute says nothing of the time after that."""

_GRACE: Final = 2 * COMMIT_INTERVAL  # from a record to its commit, of a consumer that keeps up
_HOLDS: Final = 30.0  # seconds without a commit after which a group that kept up is judged anew
_HOLDS_AT_MOST: Final = 15 * 60.0
_REMEMBERED_ENDS: Final = 60  # of each log


class Outlook(StrEnum):
    UNKNOWN = "unknown"
    CAUGHT_UP = "caught-up"
    CATCHING_UP = "catching-up"
    STEADY = "steady"
    FALLING_BEHIND = "falling-behind"
    BEYOND_END = "beyond-end"


class Forecast(NamedTuple):
    """`seconds` until nothing is left, if it goes on like this: None if that is not so, or longer than a forecast."""

    outlook: Outlook
    seconds: float | None = None


UNKNOWN: Final = Forecast(Outlook.UNKNOWN)
_CAUGHT_UP: Final = Forecast(Outlook.CAUGHT_UP, 0.0)


class Behind(NamedTuple):
    """The age of the first record that is not consumed; `is_at_least` if that record is older than what was seen."""

    seconds: float
    is_at_least: bool = False


def forecast(lag: int | None, pace: Pace, *, keeps_up: bool | None, span: float) -> Forecast:
    """Foretell by paces over `span` seconds. In the first seconds it is not known whether a group keeps up: None."""
    if lag is None:
        return UNKNOWN
    if lag < 0:
        return Forecast(Outlook.BEYOND_END)
    if lag == 0 or keeps_up:
        return _CAUGHT_UP
    if keeps_up is None:
        return _CAUGHT_UP if lag <= COMMIT_INTERVAL * (pace.produced or 0.0) else UNKNOWN
    if pace.closing is None or pace.produced is None:
        return UNKNOWN
    explained = pace.produced * min(1.0, COMMIT_INTERVAL / span) if span > 0 else pace.produced
    if pace.closing > explained:
        seconds = lag / pace.closing
        return Forecast(Outlook.CATCHING_UP, seconds if seconds <= LONGEST_FORECAST else None)
    is_losing = not pace.consumed or pace.closing < -explained
    return Forecast(Outlook.FALLING_BEHIND if is_losing else Outlook.STEADY)


class Progress:
    """How the partitions of groups came on, look after look: what `keeps_up` and `behind` are told from."""

    def __init__(self) -> None:
        self._ends = _LogEnds()
        self._groups: dict[str, dict[TopicPartition, _Judgement]] = {}

    def see(self, look: Look) -> None:
        """Groups that are gone are forgotten, unless something was not told: then they may be there still."""
        self._ends.see(look)
        seen = {name: self._judge(look.at, name, each.partitions) for name, each in look.groups.items()}
        self._groups = {**self._groups, **seen} if look.refused else seen

    def keeps_up(self, group: str, tp: TopicPartition) -> bool | None:
        """None if too little was seen of it."""
        judgement = self._groups.get(group, {}).get(tp)
        return judgement.keeps_up if judgement else None

    def behind(self, seen: SeenPartition, at: float) -> Behind | None:
        """By the time of the next record, if that was read; otherwise by when the log was seen to grow beyond it."""
        seconds = seen.lag_seconds(at)
        if seconds is not None:
            return Behind(seconds)
        if seen.committed is None or not seen.lag or seen.lag < 0:
            return None
        return self._ends.behind(seen.tp, seen.committed.offset, at)

    def _judge(
        self, at: float, group: str, partitions: Collection[SeenPartition]
    ) -> dict[TopicPartition, "_Judgement"]:
        known = self._groups.get(group, {})
        judged = {}
        for seen in partitions:
            if seen.committed is not None and seen.lag is not None:
                judgement = judged[seen.tp] = known.get(seen.tp) or _Judgement()
                due = self._ends.due(seen.tp, at - _GRACE)
                judgement.see(at, seen.committed.offset, seen.lag, due, is_owned=seen.owner is not None)
            elif seen.tp in known:
                judged[seen.tp] = known[seen.tp]
        return judged


def furthest(behinds: Collection[Behind | None]) -> Behind | None:
    """The one that is furthest behind, of those that are known."""
    return max((each for each in behinds if each is not None), default=None)


class _Due(NamedTuple):
    """Where a log ended some seconds ago; where it was not seen so long ago, its first end that was seen."""

    end: int
    is_long_ago: bool


@dataclass(slots=True)
class _Judgement:
    """One partition of one group: whether it keeps up, and how long its records wait for a commit."""

    keeps_up: bool | None = None
    _committed: int | None = None
    _waiting_since: float | None = None
    _usual_wait: float = 0.0

    def see(self, at: float, committed: int, lag: int, due: _Due | None, *, is_owned: bool) -> None:
        before, self._committed = self._committed, committed
        has_committed = before is not None and committed > before
        if lag <= 0 or (has_committed and due is not None and committed >= due.end):
            self._have_done(at, lag)
        elif before is not None and committed < before:  # somebody has reset it
            self.keeps_up, self._waiting_since = None, at
        elif has_committed:
            self._waiting_since = at
            self.keeps_up = False if due is not None and due.is_long_ago else self.keeps_up
        elif self._waiting_since is None:
            self._waiting_since = at
        elif at - self._waiting_since > self._longest_wait(is_owned):
            self.keeps_up = False

    def _have_done(self, at: float, lag: int) -> None:
        if self._waiting_since is not None:
            self._usual_wait = at - self._waiting_since
        self._waiting_since = at if lag > 0 else None
        self.keeps_up = True

    def _longest_wait(self, is_owned: bool) -> float:
        """What nobody owns, and was not seen to be consumed, has little time to show that it is."""
        if not self.keeps_up and not is_owned:
            return _GRACE
        return max(_HOLDS, min(_HOLDS_AT_MOST, 1.5 * self._usual_wait))


@dataclass(slots=True)
class _LogEnds:
    """Where logs ended, look by look, for as long as it is remembered."""

    _seen: dict[TopicPartition, deque[tuple[float, int]]] = field(default_factory=dict)

    def see(self, look: Look) -> None:
        ends = {each.tp: each.bounds.end for seen in look.groups.values() for each in seen.partitions if each.bounds}
        for tp, end in ends.items():
            self._seen.setdefault(tp, deque(maxlen=_REMEMBERED_ENDS)).append((look.at, end))
        if not look.refused:
            self._seen = {tp: self._seen[tp] for tp in ends}

    def due(self, tp: TopicPartition, at: float) -> _Due | None:
        """The end at the last look until then."""
        ends = self._seen.get(tp)
        if not ends:
            return None
        before = next((end for seen_at, end in reversed(ends) if seen_at <= at), None)
        return _Due(ends[0][1], is_long_ago=False) if before is None else _Due(before, is_long_ago=True)

    def behind(self, tp: TopicPartition, offset: int, now: float) -> Behind | None:
        """Since when the log goes beyond an offset, as if it grew evenly from look to look."""
        ends = self._seen.get(tp)
        if not ends or ends[0][0] >= now:
            return None
        if ends[0][1] > offset:
            return Behind(now - ends[0][0], is_at_least=True)
        later = (now, offset + 1)
        for earlier in reversed(ends):
            if earlier[1] <= offset:
                break
            later = earlier
        written = earlier[0] + (later[0] - earlier[0]) * (offset - earlier[1]) / (later[1] - earlier[1])
        return Behind(max(0.0, now - written))
