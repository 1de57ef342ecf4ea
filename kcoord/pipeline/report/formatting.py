"""Formats numbers, times and names for the report. Times are UTC, and the page says so once."""

from datetime import datetime
from typing import Final

from kcoord.admin import durations
from kcoord.markup import Markup, el

UNKNOWN: Final = "–"
_LONGEST: Final = 300  # more than any topic's name; a client id may have 32,767 characters
_SHORT: Final = 60


def format_number(count: float | None) -> str:
    """Formats a count for the report, with thousands separators; "–" if it is unknown."""
    if count is None:
        return UNKNOWN
    return f"{count:,.0f}"


def format_rate(count: float | None) -> str:
    """Formats a rate for the report, with one decimal if it is small; "–" if it is unknown."""
    if count is None:
        return UNKNOWN
    return f"{count:,.1f}" if abs(count) < 10 else f"{count:,.0f}"


def format_short_number(count: float) -> str:
    """Formats a number for an axis of a chart: 1,500, then 1.5M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(count) >= size:
            return _rounded(count / size) + unit
    return _rounded(count)


def format_duration(milliseconds: float | None) -> str:
    """Formats a duration for the report; "–" if it is unknown."""
    return UNKNOWN if milliseconds is None else durations.format_duration(milliseconds / 1000)


def format_time(at: datetime | None) -> str:
    """Formats a time to the millisecond, as the log has it: 2026-11-16 10:05:30.250."""
    return UNKNOWN if at is None else at.isoformat(sep=" ", timespec="milliseconds")[:23]


def format_time_to_second(at: datetime) -> str:
    """Formats a time to the second, for one that is only known to be in some piece of a chart's time."""
    return format_time(at)[:19]


def format_name(name: str | None) -> Markup:
    """Renders a name inside a sentence as HTML: `bdi` isolates a name in another script, so that it does not reorder
    the words around it. A long one is shortened."""
    return el("bdi", UNKNOWN if name is None else shorten(name, _LONGEST))


def shorten_name(name: str) -> str:
    """Shortens a name to 60 characters, for where there is little room."""
    return shorten(name, _SHORT)


def shorten(name: str, most: int) -> str:
    """Shortens a name to `most` characters by cutting out the middle: member ids differ at their end."""
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 1]}…{name[-end:]}"


def _rounded(count: float) -> str:
    return f"{count:,.0f}" if count == int(count) or count >= 1000 else f"{count:.3g}"
