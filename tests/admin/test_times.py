"""Points in time as people write them."""

from datetime import UTC, datetime

import pytest

from kcoord.admin.times import BadTime, parse_ago, parse_datetime, parse_moment, utc_text

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOW_MS = 1_794_830_400_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-16T12:00:00.000",
        "2026-11-16T12:00:00.000Z",
        "2026-11-16T13:00:00.000+01:00",
        "2026-11-16T13:00:00.000+01",
        "2026-11-16T12:00",
        "2026-11-16T12",
    ],
)
def test_a_time_without_a_zone_is_utc(text: str) -> None:
    assert parse_datetime(text) == NOW_MS


def test_milliseconds_are_kept() -> None:
    assert parse_datetime("2026-11-16T12:00:00.007") == NOW_MS + 7
    assert parse_datetime("1969-12-31T23:59:59.999") == -1


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2026-13-01T00:00", "2026-11-16T12:00:00.000Q"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadTime, match=r"is not a time: write 2026-11-16T10:00:00\.000"):
        parse_datetime(text)


def test_a_duration_is_so_long_ago() -> None:
    assert parse_ago("PT1H", now=NOW) == parse_ago("1h", now=NOW) == NOW_MS - HOUR_MS


def test_a_moment_is_relative_or_a_time() -> None:
    assert parse_moment("-1h", now=NOW) == NOW_MS - HOUR_MS
    assert parse_moment("2026-11-16T11:00", now=NOW) == NOW_MS - HOUR_MS


def test_a_duration_longer_than_the_calendar_is_refused() -> None:
    with pytest.raises(BadTime, match="before all calendars"):
        parse_ago("9999999d", now=NOW)


def test_times_are_written_in_utc_and_what_no_calendar_has_as_a_number() -> None:
    assert utc_text(NOW_MS + 7) == "2026-11-16T12:00:00.007Z"
    assert utc_text(2**62) == str(2**62)
