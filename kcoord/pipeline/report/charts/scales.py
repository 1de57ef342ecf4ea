"""Axes: where a time or a number lies between the two ends, and where the ticks are."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from kcoord.admin.durations import format_duration
from kcoord.pipeline.report.formatting import format_short_number

_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)  # weeks are counted from here
_DAY: Final = 86400.0
SECONDS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY),
)
"""Steps that divide the next larger unit, so that ticks are where people expect them."""
MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000, 24000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A tick of a chart's axis: its position in percent, and its label."""

    percent: float
    label: str
    day: str = ""
    """The day, or the year; shown below the label where it changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """The time axis of a chart: it maps times to percent, from the left end (`first`) to the right one (`last`), which
    is later."""

    first: datetime
    last: datetime

    def percent(self, at: datetime) -> float:
        """Returns the position of a time on the axis, in percent. Times beyond the ends are at the ends."""
        return min(100.0, max(0.0, 100 * ((at - self.first) / (self.last - self.first))))

    def ticks(self, *, most: int = 6) -> list[Tick]:
        """Returns at most about `most` ticks at round times."""
        seconds = (self.last - self.first).total_seconds()
        step = next((step for step in SECONDS if seconds / step <= most), None)
        times = self._months(most) if step is None else self._steps(step)
        days = [None, *times]
        return [
            Tick(percent=self.percent(at), label=_label(at, step), day=_day(at, before, step))
            for before, at in zip(days, times, strict=False)
        ]

    def _steps(self, step: float) -> list[datetime]:
        start = math.ceil(round((self.first - _MONDAY).total_seconds() / step, 6))
        end = math.floor(round((self.last - _MONDAY).total_seconds() / step, 6))
        return [_MONDAY + timedelta(seconds=count * step) for count in range(start, end + 1)]

    def _months(self, most: int) -> list[datetime]:
        start = self.first.year * 12 + self.first.month - 1
        end = self.last.year * 12 + self.last.month - 1
        step = next((step for step in MONTHS if (end - start) / step <= most), MONTHS[-1])
        found = [divmod(month, 12) for month in range(-(-start // step) * step, end + 1, step)]
        times = [datetime(year, month + 1, 1, tzinfo=UTC) for year, month in found if year > 0]
        return [at for at in times if self.first <= at <= self.last]


def time_scale(first: datetime | None, last: datetime | None) -> TimeScale:
    """Returns the time axis from the first to the last time; if these are the same, or unknown, with a little room
    around."""
    start = first or last or _MONDAY
    end = max(last or start, start)
    if end - start >= timedelta(milliseconds=10):
        return TimeScale(first=start, last=end)
    return TimeScale(first=start - timedelta(seconds=1), last=end + timedelta(seconds=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberScale:
    """The axis of values of a chart: it maps numbers to percent, from 0 at the bottom to `top`, with a tick at every
    `step`."""

    top: float
    step: float
    is_seconds: bool = False

    def percent(self, value: float) -> float:
        """Returns the position of a value on the axis, in percent, counted from the top as SVG does."""
        return min(100.0, max(0.0, 100 - 100 * value / self.top))

    def ticks(self) -> list[Tick]:
        """Returns the ticks of the axis, from 0 to `top`."""
        values = [count * self.step for count in range(round(self.top / self.step) + 1)]
        format_value = format_duration if self.is_seconds else format_short_number
        return [Tick(percent=self.percent(value), label=format_value(value)) for value in values]


def number_scale(largest: float, *, most: int = 4, is_whole: bool = True) -> NumberScale:
    """Returns the axis for numbers up to the largest one, with steps of 1, 2 or 5 times a power of ten; none below 1 if
    the numbers are whole."""
    largest = max(largest, 1.0 if is_whole else 0.001)
    size = 10.0 ** math.floor(math.log10(largest / most))
    step = next(size * each for each in (1, 2, 5, 10) if largest / (size * each) <= most + 1e-9)
    step = max(step, 1.0) if is_whole else step
    return NumberScale(top=step * math.ceil(round(largest / step, 9)), step=step)


def seconds_scale(largest: float, *, most: int = 4) -> NumberScale:
    """Returns the axis for durations up to the largest one, in seconds, with steps of common durations, and beyond two
    weeks of 1, 2 or 5 days and so on."""
    step = next((step for step in SECONDS if step >= 0.1 and largest / step <= most), None)
    if step is None:
        step = number_scale(largest / _DAY, most=most).step * _DAY
    return NumberScale(top=step * max(1, math.ceil(round(largest / step, 9))), step=step, is_seconds=True)


def bucket_seconds(first: datetime, last: datetime, *, most: int) -> float:
    """Returns the length, in seconds, of the equal pieces that the time of a report is cut into for its charts, so that
    there are at most so many."""
    seconds = (last - first).total_seconds()
    # One more than the quotient: pieces begin at full steps, so both ends may be in pieces of their own.
    fitting = (step for step in SECONDS if step >= 1 and seconds / step + 1 <= most)
    return next(fitting, math.ceil(seconds / (most - 1) / _DAY) * _DAY)


def _label(at: datetime, step: float | None) -> str:
    if step is None:
        return f"{at:%b %Y}"
    if step >= _DAY:
        return f"{at.day} {at:%b}"
    if step >= 60:
        return f"{at:%H:%M}"
    return f"{at:%H:%M:%S}" if step >= 1 else f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def _day(at: datetime, before: datetime | None, step: float | None) -> str:
    """Returns what the label leaves out: the day of times, the year of days; only where it changes."""
    if step is None:
        return ""
    if step >= _DAY:
        return "" if before is not None and before.year == at.year else f"{at.year}"
    return "" if before is not None and before.date() == at.date() else f"{at.day} {at:%b}"
