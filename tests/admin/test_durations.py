"""Durations: what an operator may write, and how they are formatted."""

from datetime import timedelta

import pytest

from kcoord.admin.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("5m", 300),
        ("1h", 3600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("7d", 604800),
        ("2w", 1209600),
        (" 10s ", 10),
        ("0s", 0),
        ("PT1H", 3600),
        ("PT1H30M", 5400),
        ("PT0.5S", 0.5),
        ("P1D", 86400),
        ("P1DT2H3M4.5S", 93784.5),
        ("P1W", 604800),
        ("pt10s", 10),
    ],
)
def test_a_span_of_time_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "60", "h", "1x", "-5m", "5m-", "1h 30m", "P", "PT", "P1DT", "P1Y", "P1M", "PT-1H", "1e3s", "٣s"]
)
def test_what_is_none_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="30s, 5m, 1h30m, 7d or PT1H30M"):
        parse_duration(text)


def test_a_span_beyond_all_calendars_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("99999999999d")
    with pytest.raises(ValueError, match="too long"):
        parse_duration("9" * 400 + "s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0001, "1ms"),
        (0.01, "10ms"),
        (0.0994, "99ms"),
        (0.0996, "0.1s"),
        (0.44, "0.4s"),
        (2.0, "2s"),
        (9.97, "10s"),
        (45, "45s"),
        (59.6, "1m"),
        (125, "2m 5s"),
        (12000, "3h 20m"),
        (7200, "2h"),
        (90061, "1d 1h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
