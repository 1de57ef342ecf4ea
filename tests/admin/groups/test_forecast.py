"""Whether groups keep up, when others will have caught up, and their lag in time, over successive snapshots."""

from collections.abc import Iterator

import pytest

from kcoord.admin.groups.forecast import MAX_FORECAST, UNKNOWN, Forecast, Outlook, TimeLag, forecast
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.rates import UNKNOWN_RATE, Rate
from kcoord.admin.groups.snapshot_changes import GroupStatus, WatchHistory
from kcoord.admin.model import Refusal, Resource
from kcoord.errors import ErrorCode
from tests.support.admin.snapshots import NOW, group, member, seen, snapshot, tp

A = member("a", "t-0")
KEEPS_UP = Forecast(Outlook.CAUGHT_UP, 0.0)
NEVER = Forecast(Outlook.FALLING_BEHIND)


@pytest.mark.parametrize(
    ("consumed", "produced", "lag", "expected"),
    [
        (50.0, 10.0, 400, Forecast(Outlook.CATCHING_UP, 10.0)),
        (10.0, 0.0, 1, Forecast(Outlook.CATCHING_UP, 0.1)),
        (10.0, 50.0, 400, NEVER),
        (0.0, 0.0, 400, NEVER),
        (0.0, 0.1, 400, NEVER),
        (10.0, 10.0, 400, Forecast(Outlook.STEADY)),
        (11.0, 10.0, 400, Forecast(Outlook.STEADY)),  # one commit more or less than the six in half a minute
        (9.0, 10.0, 400, Forecast(Outlook.STEADY)),
        (10.0, 10.0 - 1e-13, 7_205_759_403, Forecast(Outlook.STEADY)),
        (1e-13, 0.0, 400, Forecast(Outlook.CATCHING_UP, None)),  # beyond the longest forecast
        (0.001, 0.0, 2600, Forecast(Outlook.CATCHING_UP, None)),
        (0.001, 0.0, 2500, Forecast(Outlook.CATCHING_UP, 2_500_000.0)),
        (10.0, 50.0, 0, KEEPS_UP),
        (None, None, 0, KEEPS_UP),
        (None, 10.0, 400, UNKNOWN),
        (50.0, 10.0, None, UNKNOWN),
        (50.0, 10.0, -3, Forecast(Outlook.BEYOND_END)),
    ],
)
def test_a_forecast_follows_from_the_lag_and_both_paces(
    consumed: float | None, produced: float | None, lag: int | None, expected: Forecast
) -> None:
    made = forecast(lag, Rate(consumed=consumed, produced=produced), keeps_up=False, span=30.0)
    assert made.outlook is expected.outlook
    assert made.seconds == (None if expected.seconds is None else pytest.approx(expected.seconds))


def test_no_forecast_is_longer_than_a_month() -> None:
    assert MAX_FORECAST == 30 * 24 * 3600


def test_a_group_that_keeps_up_has_caught_up_whatever_its_paces_say() -> None:
    assert forecast(400, Rate(consumed=0.0, produced=90.0), keeps_up=True, span=30.0) == KEEPS_UP
    assert forecast(400, UNKNOWN_RATE, keeps_up=True, span=0.0) == KEEPS_UP


@pytest.mark.parametrize(("lag", "expected"), [(250, KEEPS_UP), (251, UNKNOWN)])
def test_in_the_first_seconds_only_what_one_commit_interval_brings_counts_as_caught_up(
    lag: int, expected: Forecast
) -> None:
    assert forecast(lag, Rate(consumed=10.0, produced=50.0), keeps_up=None, span=4.0) == expected


# Successive snapshots


def _watched(snapshots: Iterator[Snapshot]) -> Iterator[GroupStatus]:
    watch = WatchHistory()
    for each in snapshots:
        watch.add(each)
        yield watch.groups()[0]


def _consuming(
    seconds: int, *, rate: float, commits_every: int, every: int = 2, until: int = 10**9
) -> Iterator[Snapshot]:
    """Returns snapshots of a consumer that reads all at once and commits now and then; the log is written evenly."""
    for after in range(0, seconds, every):
        committed = 1000 + int(rate * (min(after, until) // commits_every * commits_every))
        yield snapshot(seen(group(A), {"t-0": (committed, 0, 1000 + int(rate * after))}), after=after)


@pytest.mark.parametrize("rate", [100.0, 3.0, 0.1, 0.01])
@pytest.mark.parametrize("commits_every", [5, 20, 30])
@pytest.mark.parametrize("every", [1, 2, 7])
def test_a_group_that_keeps_up_never_reads_otherwise(rate: float, commits_every: int, every: int) -> None:
    read = {
        watched.forecast.outlook
        for watched in _watched(_consuming(300, rate=rate, commits_every=commits_every, every=every))
    }
    assert read <= {Outlook.CAUGHT_UP}


@pytest.mark.parametrize("commits_every", [60, 200])
def test_a_group_that_commits_rarely_reads_as_one_that_keeps_up_once_its_rhythm_is_known(commits_every: int) -> None:
    read = [each.forecast.outlook for each in _watched(_consuming(1000, rate=50.0, commits_every=commits_every))]
    assert set(read[commits_every:]) == {Outlook.CAUGHT_UP}  # two commits, with a snapshot every two seconds


@pytest.mark.parametrize("missed", [1, 4, 7, 9])
def test_a_group_that_is_first_seen_between_two_rare_commits_is_not_said_to_fall_behind(missed: int) -> None:
    snapshots = list(_consuming(200, rate=50.0, commits_every=20))[missed:]
    read = [each.forecast.outlook for each in _watched(iter(snapshots))]
    assert set(read) <= {Outlook.UNKNOWN, Outlook.CAUGHT_UP}
    assert set(read[10:]) == {Outlook.CAUGHT_UP}


def test_a_group_that_stops_is_said_to_fall_behind_within_half_a_minute() -> None:
    read = [each.forecast for each in _watched(_consuming(200, rate=50.0, commits_every=5, until=100))]
    assert set(read[:50]) == {KEEPS_UP}
    assert set(read[68:]) == {NEVER}


def test_a_slow_group_is_said_to_fall_behind_from_its_first_commits_on() -> None:
    snapshots = (
        snapshot(seen(group(A), {"t-0": (after // 5 * 100, 0, 3000 + 100 * after)}), after=after)
        for after in range(0, 100, 2)
    )
    read = [each.forecast for each in _watched(snapshots)]
    assert set(read[8:]) == {NEVER}
    assert KEEPS_UP not in read


def test_a_burst_that_later_commits_do_not_reach_is_lag() -> None:
    def snapshots() -> Iterator[Snapshot]:
        yield from _consuming(60, rate=10.0, commits_every=5)
        for after in range(60, 120, 2):  # a million records at once; it reads a thousand a second
            committed = 1600 + 5000 * ((after - 60) // 5)
            yield snapshot(seen(group(A), {"t-0": (committed, 0, 1_000_000)}), after=after)

    read = [each.forecast for each in _watched(snapshots())]
    assert set(read[:30]) == {KEEPS_UP}
    assert Outlook.CAUGHT_UP not in {each.outlook for each in read[37:]}
    assert read[-1].outlook is Outlook.CATCHING_UP
    assert read[-1].seconds == pytest.approx(943, rel=0.2)


def test_a_group_that_nobody_consumes_falls_behind() -> None:
    snapshots = (snapshot(seen(group(state="Empty"), {"t-0": (10, 0, 3000)}), after=after) for after in range(0, 40, 2))
    read = [each.forecast for each in _watched(snapshots)]
    assert read[0] == UNKNOWN
    assert set(read[6:]) == {NEVER}


def test_one_partition_that_stands_still_keeps_its_group_from_having_caught_up() -> None:
    both = member("a", "t-0", "t-1")
    snapshots = (
        snapshot(seen(group(both), {"t-0": (10 * after, 0, 10 * after), "t-1": (5, 0, 10 + after)}), after=after)
        for after in range(0, 100, 2)
    )
    *_, last = _watched(snapshots)
    assert last.forecasts == {tp("t-0"): KEEPS_UP, tp("t-1"): NEVER}
    assert last.forecast.outlook is not Outlook.CAUGHT_UP


def test_a_group_beyond_the_end_of_a_log_has_not_caught_up() -> None:
    snapshots = (snapshot(seen(group(A), {"t-0": (500, 0, 100)}), after=after) for after in range(0, 40, 2))
    assert {each.forecast.outlook for each in _watched(snapshots)} == {Outlook.BEYOND_END}


def test_a_group_that_was_not_told_once_is_judged_as_before() -> None:
    watch = WatchHistory()
    for each in _consuming(300, rate=50.0, commits_every=60):
        watch.add(each)
    watch.add(
        snapshot(after=300, refused=[Refusal(kind=Resource.GROUP, name="g", error=ErrorCode.coordinator_not_available)])
    )
    watch.add_failure(NOW + 302, "refused")
    watch.add(list(_consuming(340, rate=50.0, commits_every=60))[-1])
    assert watch.groups()[0].forecast == KEEPS_UP


# Lag in time


def test_the_time_behind_is_the_age_of_the_first_record_that_is_not_consumed() -> None:
    watch = WatchHistory()
    watch.add(snapshot(seen(group(A), {"t-0": (10, 0, 30)}, next_record_at=NOW - 90)))
    (watched,) = watch.groups()
    assert watched.time_lag == TimeLag(90.0)
    assert watched.time_lags == {tp("t-0"): TimeLag(90.0)}


def test_without_times_of_records_it_is_seen_from_when_the_log_grew() -> None:
    watch = WatchHistory()
    for after in range(0, 41, 2):
        watch.add(snapshot(seen(group(A), {"t-0": (90, 0, 100 + 10 * max(0, after - 20))}), after=after))
    assert watch.groups()[0].time_lag == TimeLag(40.0, is_at_least=True)  # it was behind in the first snapshot already
    watch = WatchHistory()
    for after in range(0, 41, 2):
        watch.add(snapshot(seen(group(A), {"t-0": (100, 0, 100 + 10 * max(0, after - 20))}), after=after))
    assert watch.groups()[0].time_lag == TimeLag(20.0)


def test_the_furthest_behind_of_its_partitions_is_the_groups() -> None:
    watch = WatchHistory()
    both = member("a", "t-0", "t-1")
    watch.add(snapshot(seen(group(both), {"t-0": (30, 0, 30), "t-1": (None, 0, 10)})))
    (watched,) = watch.groups()
    assert (watched.time_lag, watched.time_lags) == (TimeLag(0.0), {tp("t-0"): TimeLag(0.0), tp("t-1"): None})


def test_a_group_whose_lag_is_not_known_is_behind_by_what_is_not_known() -> None:
    watch = WatchHistory()
    watch.add(snapshot(seen(group(A), {"t-0": None})))
    assert watch.groups()[0].time_lag is None
