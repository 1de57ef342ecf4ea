"""Times as people write them: ISO 8601, or so long ago."""

from datetime import UTC, datetime, timedelta

from kcoord.admin.durations import parse_duration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadTime(ValueError):
    """A text that is no time."""


def parse_datetime(text: str) -> int:
    """ISO 8601 as ms since 1970. Without a zone it is UTC, as Kafka's tool reads it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(f"{text!r} is not a time: write 2026-11-16T10:00:00.000, with +01:00 or Z if you like") from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)


def parse_ago(text: str, *, now: datetime) -> int:
    """A duration, PT1H or 1h, before now, as ms since 1970."""
    try:
        return (now - parse_duration(text) - EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        raise BadTime(f"{text!r} ago is before all calendars") from None


def parse_moment(text: str, *, now: datetime) -> int:
    """What follows an @: -1h is an hour ago, 2026-11-16T10:00 is that time."""
    if text.startswith("-"):
        return parse_ago(text[1:], now=now)
    return parse_datetime(text)


def utc_text(timestamp: int) -> str:
    """ISO 8601 in UTC; what no calendar has stays a number."""
    try:
        at = EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
