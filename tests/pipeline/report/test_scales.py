"""The ticks of axes, and where values are on them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.pipeline.report.charts.scales import TimeScale, bucket_seconds, number_scale, seconds_scale, time_scale

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
times = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001
    max_value=datetime(9000, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


def scale(**span: float) -> TimeScale:
    return time_scale(NOON, NOON + timedelta(**span))


@pytest.mark.parametrize(
    ("span", "labels", "days"),
    [
        ({"milliseconds": 500}, ["12:00:00.000", "12:00:00.100", "12:00:00.200"], ["16 Nov", "", ""]),
        ({"seconds": 60}, ["12:00:00", "12:00:10", "12:00:20"], ["16 Nov", "", ""]),
        ({"minutes": 50}, ["12:00", "12:10", "12:20"], ["16 Nov", "", ""]),
        ({"hours": 36}, ["12:00", "18:00", "00:00"], ["16 Nov", "", "17 Nov"]),
        ({"days": 6}, ["17 Nov", "18 Nov", "19 Nov"], ["2026", "", ""]),
        ({"days": 60}, ["23 Nov", "7 Dec", "21 Dec"], ["2026", "", ""]),
        ({"days": 150}, ["Dec 2026", "Jan 2027", "Feb 2027"], ["", "", ""]),
        ({"days": 3000}, ["Jan 2028", "Jan 2030", "Jan 2032"], ["", "", ""]),
    ],
)
def test_times_are_where_people_expect_them(span: dict[str, float], labels: list[str], days: list[str]) -> None:
    ticks = scale(**span).ticks()[:3]
    assert [tick.label for tick in ticks] == labels
    assert [tick.day for tick in ticks] == days


@given(first=times, last=times)
def test_the_times_of_an_axis_are_few_and_in_their_order(first: datetime, last: datetime) -> None:
    ticks = time_scale(min(first, last), max(first, last)).ticks(most=6)
    assert len(ticks) <= 7
    percents = [tick.percent for tick in ticks]
    assert percents == sorted(set(percents))
    assert all(0 <= percent <= 100 for percent in percents)


def test_what_happened_at_one_moment_is_in_the_middle() -> None:
    assert time_scale(NOON, NOON).percent(NOON) == 50


def test_an_axis_of_nothing_has_ends() -> None:
    nothing = time_scale(None, None)
    assert nothing.first < nothing.last


def test_times_beyond_the_ends_are_at_the_ends() -> None:
    hour = scale(hours=1)
    assert hour.percent(NOON - timedelta(days=1)) == 0
    assert hour.percent(NOON + timedelta(minutes=15)) == 25
    assert hour.percent(NOON + timedelta(days=1)) == 100


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (0, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (1234, ["0", "500", "1,000", "1,500"]),
        (4_000_000, ["0", "1M", "2M", "3M", "4M"]),
        (2**63, ["0", "5,000,000T", "10,000,000T"]),
    ],
)
def test_numbers_of_an_axis_are_round(largest: float, labels: list[str]) -> None:
    assert [tick.label for tick in number_scale(largest).ticks()] == labels


def test_rates_below_one_have_an_axis_too() -> None:
    assert [tick.label for tick in number_scale(0.07, is_whole=False).ticks()] == ["0", "0.02", "0.04", "0.06", "0.08"]


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (0, ["0s", "0.1s"]),
        (100, ["0s", "30s", "1m", "1m 30s", "2m"]),
        (7000, ["0s", "30m", "1h", "1h 30m", "2h"]),
        (86400 * 100, ["0s", "50d", "100d"]),
    ],
)
def test_durations_of_an_axis_are_those_of_clocks(largest: float, labels: list[str]) -> None:
    assert [tick.label for tick in seconds_scale(largest).ticks()] == labels


@given(value=st.floats(0, 1e18), of=st.sampled_from([number_scale, seconds_scale]))
def test_the_largest_value_fits_under_the_top(value: float, of: object) -> None:
    assert callable(of)
    scaled = of(value)
    assert scaled.top >= value * (1 - 1e-9)
    assert 2 <= len(scaled.ticks()) <= 6
    assert scaled.ticks()[0].percent == 100


@given(first=times, last=times, most=st.integers(2, 500))
def test_the_time_is_cut_into_no_more_pieces_than_were_allowed(first: datetime, last: datetime, most: int) -> None:
    first, last = min(first, last), max(first, last)
    seconds = bucket_seconds(first, last, most=most)
    pieces = last.timestamp() // seconds - first.timestamp() // seconds + 1
    assert pieces <= most
