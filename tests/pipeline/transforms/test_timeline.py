"""How lag went over time, also for groups that stopped committing."""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.schemas import LAG, LOG_ENDS
from kcoord.pipeline.transforms.lag.timeline import lag_period, lag_timeline
from tests.pipeline.transforms.lags import behind, check, deleted
from tests.support.pipeline.histories import at, frame_of

COLUMNS: Final = "group at lag highest_lag lag_ms commits"


def ends(spark: SparkSession, *batches: tuple[int, int, float]) -> DataFrame:
    rows: list[dict[str, Any]] = [
        {"topic": "orders", "partition": 0, "base_offset": base, "end_offset": end, "last_at": at(seconds)}
        for base, end, seconds in batches
    ]
    return frame_of(spark, LOG_ENDS, rows)


def test_a_timeline_adds_up_partitions_and_where_no_log_is_known_as_of_their_last_commit(spark: SparkSession) -> None:
    rows = [
        behind("g", 0, 0, 10),
        behind("g", 5, 0, 4, partition=1),
        behind("g", 6, 4, 0, partition=1),
        behind("g", 25, 0, 30),
        behind("h", 39, 0, None),
    ]
    width = 9.751
    check(
        lag_timeline(frame_of(spark, LAG, rows), ends(spark), pieces=4),
        COLUMNS,
        ("g", at(0), 10, 10, 100, 3),
        ("g", at(width), 10, 10, 100, 0),
        ("g", at(2 * width), 30, 30, 300, 1),
        ("g", at(3 * width), 30, 30, 300, 0),
        ("h", at(3 * width), None, None, None, 1),
    )


def test_a_timeline_of_one_moment_is_one_piece(spark: SparkSession) -> None:
    found = lag_timeline(frame_of(spark, LAG, [behind("g", 7, 0, 1)]), ends(spark), pieces=3)
    check(found, "group at lag", *(("g", at(7 + piece / 1000), 1) for piece in range(3)))


def test_the_lag_of_who_commits_no_more_grows_with_the_log(spark: SparkSession) -> None:
    lag = frame_of(spark, LAG, [behind("silent", 0, 100, 0, next_at=at(30))])
    log = ends(spark, (0, 100, 0), (100, 150, 30), (150, 200, 90))
    check(
        lag_timeline(lag, log, pieces=2),
        COLUMNS,
        ("silent", at(0), 50, 50, 15_000, 1),
        ("silent", at(45.001), 100, 100, 60_000, 0),
    )


def test_the_end_of_a_piece_is_told_with_the_lag_in_time_then(spark: SparkSession) -> None:
    rows = [behind("g", 0, 0, 100, next_at=at(-50)), behind("g", 40, 100, 0, next_at=at(60)), behind("h", 0, 5, None)]
    found = lag_timeline(
        frame_of(spark, LAG, rows), ends(spark, (0, 100, -50), (100, 150, 60), (150, 160, 90)), pieces=2
    )
    check(
        found.where("group = 'g'"),
        "at until lag lag_ms behind_ms",
        (at(0), at(45), 0, 1000, 0),
        (at(45.001), at(90), 60, 30_000, 30_000),
    )
    check(found.where("group = 'h'"), "lag behind_ms", (95, None), (155, None))


def test_an_offset_that_is_deleted_has_no_lag_from_then_on(spark: SparkSession) -> None:
    rows = [
        behind("deleted", 20, 0, 10),
        deleted("deleted", 30),
        deleted("deleted before", 20),
        behind("other", 4000, 0, 90),
    ]
    check(
        lag_timeline(frame_of(spark, LAG, rows), ends(spark, (0, 10, 0), (10, 90, 4000)), pieces=2),
        COLUMNS,
        ("deleted", at(20), None, 10, 100, 1),
        ("other", at(20 + 1990.001), 90, 90, 900, 1),
    )


def test_what_was_committed_before_the_time_that_is_asked_for_counts_in_it(spark: SparkSession) -> None:
    rows = [
        behind("dead", 0, 100, 0, next_at=at(60)),
        behind("deleted", 0, 100, 0, next_at=at(60)),
        deleted("deleted", 10),
        behind("later", 7200, 150, 0),
    ]
    lag, log = frame_of(spark, LAG, rows), ends(spark, (0, 100, 0), (100, 130, 60), (130, 150, 7000), (150, 151, 7200))
    times = {"since": at(3600), "until": at(7200)}
    check(lag_timeline(lag, log, pieces=1, **times), COLUMNS, ("dead", at(3600), 50, 50, 6_940_000, 0))
    period = lag_period(lag, log, **times)
    assert (period.first, period.last) == (at(3600), at(7000))
    assert lag_timeline(lag, log, pieces=1, since=at(9000)).isEmpty(), "nothing is known of that time"


def test_a_topic_that_was_made_anew_has_the_end_of_its_newest_batch(spark: SparkSession) -> None:
    lag = frame_of(spark, LAG, [behind("g", 0, 1000, 0, log_end=1000), behind("g", 210, 10, 0, log_end=10)])
    found = lag_timeline(lag, ends(spark, (0, 1000, 0), (0, 10, 200), (10, 15, 300)), pieces=3)
    check(found, "at lag", (at(0), 0), (at(100.001), 0), (at(200.002), 5))
