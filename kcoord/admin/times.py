"""Points in time as people write them: ISO 8601, or a duration before now."""

from datetime import UTC, datetime, timedelta

from kcoord.admin.durations import parse_duration
from kcoord.exceptions import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadTime(InvalidInput, ValueError):
    """An error: a text that is not a point in time."""


def parse_datetime(text: str) -> int:
    """Parses a time in ISO 8601, and returns it in ms since 1970. A time without a zone is UTC, as in Kafka's tool."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"{text!r} is not a time: write 2026-11-16T10:00:00.000, with +01:00 or Z if you like") from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)


def parse_ago(text: str, *, now: datetime) -> int:
    """Parses a duration before now, PT1H or 1h, and returns that time in ms since 1970."""
    try:
        return (now - parse_duration(text) - EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        raise BadTime(f"{text!r} ago is before all calendars") from None


def parse_moment(text: str, *, now: datetime) -> int:
    """Parses a time as an option has it after an @, and returns it in ms since 1970: -1h is an hour ago,
    2026-11-16T10:00 is that time."""
    if text.startswith("-"):
        return parse_ago(text[1:], now=now)
    return parse_datetime(text)


def utc_text(timestamp: int) -> str:
    """Formats a timestamp, in ms since 1970, as ISO 8601 in UTC; a timestamp beyond the calendar stays a number."""
    try:
        at = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
