"""Formatting of forecasts, lag in time, rates and changes for `kcoord groups watch`."""

from typing import Final

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import rate_text
from kcoord.admin.groups.forecast import MAX_FORECAST, Forecast, Outlook, TimeLag
from kcoord.admin.groups.snapshot_changes import GroupChange
from kcoord.admin.model import Member

from ...output.tables import Cell

_ID_TAIL: Final = 6  # trailing characters of a member id, by which members with one client id differ

COLUMN_MEANINGS: Final = (
    ("LAG", "records that are not consumed yet"),
    ("IN/S, OUT/S", "records written and committed each second, over the last half minute"),
    ("BEHIND", "the age of the oldest record that is not consumed; with >, at least so old"),
    (
        "CATCHES-UP-IN",
        "the time until nothing is left, if it goes on like this. caught up: it keeps up with what is written;"
        " steady: the lag stays about the same; never: it grows, or nobody consumes; beyond end: what is committed"
        " is not in the log, see kcoord groups doctor",
    ),
)


def forecast_cell(forecast: Forecast) -> Cell | None:
    """Formats the forecast of a lag for the screen: the time until the group has caught up, or a word such as steady;
    None if unknown."""
    match forecast.outlook:
        case Outlook.UNKNOWN:
            return None
        case Outlook.CAUGHT_UP:
            return Cell("caught up", "green")
        case Outlook.CATCHING_UP:
            return Cell(_time_left(forecast.seconds))
        case Outlook.STEADY:
            return Cell("steady")
        case Outlook.FALLING_BEHIND:
            return Cell("never", "yellow")
        case Outlook.BEYOND_END:
            return Cell("beyond end", "red")


def forecast_word(forecast: Forecast) -> str:
    """Formats the forecast of a lag as one word, for lines of key=value."""
    match forecast.outlook:
        case Outlook.UNKNOWN:
            return "?"
        case Outlook.CAUGHT_UP | Outlook.CATCHING_UP:
            return _time_left(forecast.seconds).replace(" ", "")
        case Outlook.FALLING_BEHIND:
            return "never"
        case Outlook.STEADY | Outlook.BEYOND_END:
            return forecast.outlook.value


def format_behind(behind: TimeLag | None) -> str | None:
    """Formats a lag in time, such as `>2m 5s` if only a lower bound is known; None if nothing is known."""
    if behind is None:
        return None
    return f"{'>' if behind.is_at_least else ''}{format_duration(behind.seconds)}"


def format_rate(per_second: float | None) -> str | None:
    """Formats a rate in records per second, without its unit; None if unknown."""
    return None if per_second is None else rate_text(per_second).removesuffix("/s")


def short_change(change: GroupChange) -> str:
    """Formats a change of a group with a short name of the member, for narrow screens."""
    return f"{_short_member(change.member)} {change.predicate}" if change.member else change.text


def _time_left(seconds: float | None) -> str:
    return f">{format_duration(MAX_FORECAST)}" if seconds is None else format_duration(seconds)


def _short_member(member: Member) -> str:
    known_as = member.instance_id if member.instance_id is not None else f"…{member.member_id[-_ID_TAIL:]}"
    return f"{member.client_id} ({known_as})".strip()
