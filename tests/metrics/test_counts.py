"""Histograms and request counters."""

import pytest

from kcoord.metrics.counts import BUCKETS, Histogram, RequestCounts, Tally


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [(0.0, 0.0001), (0.0001, 0.0001), (0.00011, 0.00025), (0.3, 0.5), (29.9, 30.0), (30.0, 30.0)],
)
def test_a_bucket_holds_what_took_no_longer_than_its_bound(seconds: float, bound: float) -> None:
    histogram = Histogram()
    histogram.add(seconds)
    assert histogram.counts.index(1) == BUCKETS.index(bound)
    assert histogram.count == 1


def test_what_took_longer_than_the_last_bound_is_counted_too() -> None:
    histogram = Histogram()
    histogram.add(31.0, times=2)
    assert histogram.counts[-1] == histogram.count == 2
    assert histogram.seconds == 62.0


def test_bounds_grow() -> None:
    assert list(BUCKETS) == sorted(set(BUCKETS))
    assert (BUCKETS[0], BUCKETS[-1]) == (0.0001, 30.0)


def test_what_is_fresh_is_counted_when_it_has_left_and_only_once() -> None:
    counts = RequestCounts()
    commits = counts.of("OffsetCommit", "NONE")
    tally = Tally("a reply", commits, frame_bytes=96, sent_bytes=20, offsets=3)
    tally.fresh = 2
    counts.fresh.append(tally)
    assert commits.total == 0
    counts.on_sent(0.002)
    counts.on_sent(0.002)
    of_api = counts.apis["OffsetCommit"]
    assert (commits.total, counts.offsets_committed, tally.fresh) == (2, 6, 0)
    assert (of_api.received_bytes, of_api.sent_bytes) == (200, 40)
    assert (of_api.durations.count, of_api.durations.seconds) == (2, 0.004)


def test_all_errors_of_an_api_share_its_durations() -> None:
    counts = RequestCounts()
    for error in ("NONE", "REBALANCE_IN_PROGRESS"):
        counts.answered(counts.of("JoinGroup", error), 0.5, received_bytes=10, sent_bytes=20)
    assert [(each.api, each.error, each.total) for each in counts] == [
        ("JoinGroup", "NONE", 1),
        ("JoinGroup", "REBALANCE_IN_PROGRESS", 1),
    ]
    assert counts.apis["JoinGroup"].durations.count == 2
    assert counts.apis["JoinGroup"].sent_bytes == 40
