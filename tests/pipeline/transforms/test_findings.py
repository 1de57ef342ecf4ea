"""Findings in the tables: unstable groups, members that flap, lag that stays. test_timeline has lag over time."""

from datetime import timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.schemas import LAG, LOG_ENDS, REBALANCES
from kcoord.pipeline.transforms.lag.stuck import never_caught_up, stuck_partitions
from kcoord.pipeline.transforms.rebalances.unstable import flapping_members, unstable_groups
from tests.pipeline.transforms.lags import behind, check, deleted
from tests.support.pipeline.histories import at, frame_of


def rebalance(group: str, ended: float | None, **others: Any) -> dict[str, Any]:
    facts = {"generation": 2, "from_generation": 1, "causes": ["joined"], "duration_ms": 10, "moved_partitions": 1}
    return {"group": group, "ended_at": at(ended)} | facts | others


def test_the_groups_with_the_most_rebalances_are_the_most_restless(spark: SparkSession) -> None:
    rows = [
        rebalance("calm", 0),
        rebalance("b", 7200, causes=["left", "joined"], duration_ms=30, pause_ms=100),
        rebalance("b", 20, causes=["left"], duration_ms=None, moved_partitions=None),
        rebalance("a", 30, causes=["joined"]),
        rebalance("a", None, causes=["unknown"], pause_ms=7, from_generation=None),
        rebalance("a", 50, generation=2, from_generation=2, causes=["static returned"], duration_ms=0),
        rebalance("only returns", 50, generation=2, from_generation=2, causes=["static returned"]),
    ]
    found = unstable_groups(frame_of(spark, REBALANCES, rows), hours=4.0, most=2)
    check(
        found,
        "group rebalances per_hour causes lost_ms longest_ms pause_ms moved_partitions",
        ("a", 2, 0.5, {"joined": 1, "static returned": 1, "unknown": 1}, 20, 10, 7, 3),
        ("b", 2, 0.5, {"joined": 1, "left": 2}, 30, 30, 100, 1),
    )


def test_nothing_is_restless_where_nothing_happened(spark: SparkSession) -> None:
    check(unstable_groups(frame_of(spark, REBALANCES, []), hours=1.0), "group")


Stay = tuple[str, str, str | None, str, float, float | None]


def stays(spark: SparkSession, *rows: Stay) -> DataFrame:
    made = [
        (group, member_id, instance, client, "/h", at(start), at(end), end is not None)
        for group, member_id, instance, client, start, end in rows
    ]
    columns = "group string, member_id string, instance_id string, client_id string, client_host string"
    return spark.createDataFrame(made, f"{columns}, member_from timestamp, member_until timestamp, has_ended boolean")


def test_a_member_that_comes_and_goes_is_known_by_its_instance_or_its_client_and_host(spark: SparkSession) -> None:
    found = flapping_members(
        stays(
            spark,
            ("g", "c-1", None, "c", 0, 1),
            ("g", "c-2", None, "c", 2, 4),
            ("g", "c-3", None, "c", 4, 9),
            ("g", "c-4", None, "c", 9, None),
            ("g", "i-1", "i", "x", 0, 5),
            ("g", "i-2", "i", "y", 5, 6),
            ("g", "i-3", "i", "y", 7, None),
            *(("replicas", f"r-{number}", None, "r", 0, 10) for number in range(5)),
            *(("once", f"o-{number}", None, "o", number, number + 1) for number in range(2)),
        )
    )
    check(
        found,
        "group member returned joined left at_once stayed_ms first_at last_at",
        ("g", "c /h", 3, 4, 3, 1, 2000, at(0), at(9)),
        ("g", "i", 2, 3, 2, 1, 1000, at(0), at(7)),
    )


def test_who_was_never_at_the_end_is_found_with_how_fast_it_falls_behind(spark: SparkSession) -> None:
    rows = [
        behind("grows", 0, 0, 100),
        behind("grows", 1800, 10, 150),
        behind("grows", 3600, 20, 200),
        behind("steady", 0, 0, 5),
        behind("steady", 100, 1, 5),
        behind("caught up", 0, 0, 5),
        behind("caught up", 100, 5, 0),
        behind("unknown", 0, 5, None),
        behind("unknown", 100, 5, None),
        behind("too few", 0, 5, 10),
    ]
    lag = frame_of(spark, LAG, rows)
    columns = "group commits lowest_lag highest_lag last_lag last_lag_ms per_hour since until"
    grows = ("grows", 3, 100, 200, 200, 2000, 100.0, at(0), at(3600))
    check(never_caught_up(lag), columns, grows, ("steady", 2, 5, 5, 5, 50, 0.0, at(0), at(100)))
    check(never_caught_up(lag, bound=5), columns, grows)


def test_who_lived_for_a_moment_or_was_deleted_is_not_said_to_have_never_caught_up(spark: SparkSession) -> None:
    rows = [
        behind("brief", 0, 0, 5),
        behind("brief", 60, 1, 9),
        behind("deleted", 0, 0, 5),
        behind("deleted", 100, 1, 9),
        deleted("deleted", 200),
        behind("begun anew", 0, 0, 5),
        deleted("begun anew", 100),
        behind("begun anew", 200, 1, 9),
    ]
    lag = frame_of(spark, LAG, rows)
    anew = ("begun anew", 2, 9, at(0), at(200))
    check(never_caught_up(lag), "group commits last_lag since until", anew)
    short = never_caught_up(lag, longer_than=timedelta(seconds=59))
    check(short, "group commits last_lag since until", anew, ("brief", 2, 9, at(0), at(60)))


def test_who_committed_for_a_moment_and_stayed_behind_to_the_end_never_caught_up(spark: SparkSession) -> None:
    rows = [
        behind("brief", 0, 0, 5),
        behind("brief", 0.002, 1, 9),
        behind("new", 3590, 0, 5),
        behind("new", 3600, 1, 9),
    ]
    found = never_caught_up(frame_of(spark, LAG, rows), read_until=at(3600))
    check(found, "group commits last_lag per_hour since until", ("brief", 2, 9, None, at(0), at(0.002)))


def test_a_partition_stands_from_when_there_is_something_to_read(spark: SparkSession) -> None:
    rows = [
        # Idle for a thousand seconds, then a record comes, and is read ten seconds later.
        behind("idle", 0, 100, 0, next_at=at(1000)),
        behind("idle", 1010, 101, 0, log_end=101),
        # Commits the same offset again and again, after a shorter time without progress.
        behind("stuck", 0, 50, 10, next_at=at(-5)),
        behind("stuck", 100, 60, 40, next_at=at(90), log_end=100),
        behind("stuck", 200, 60, 40, next_at=at(90), log_end=100),
        behind("stuck", 700, 100, 0, log_end=100),
        # Stops committing.
        behind("gone", 0, 40, 0, next_at=at(10)),
        behind("at the end", 0, 120, 0),
    ]
    ends = [
        {"topic": "orders", "partition": 0, "base_offset": 0, "end_offset": 100, "last_at": at(10)},
        {"topic": "orders", "partition": 0, "base_offset": 100, "end_offset": 120, "last_at": at(2000)},
    ]
    found = stuck_partitions(
        frame_of(spark, LAG, rows),
        frame_of(spark, LOG_ENDS, ends),
        longer_than=timedelta(seconds=600) - timedelta(milliseconds=1),
    )
    check(
        found,
        "group topic partition committed lag since until stood_ms",
        ("gone", "orders", 0, 40, 80, at(10), None, 1_990_000),
        ("stuck", "orders", 0, 60, 40, at(100), at(700), 600_000),
    )


WRITTEN: Final = [
    {"topic": "orders", "partition": 0, "base_offset": 0, "end_offset": 100, "last_at": at(-5)},
    {"topic": "orders", "partition": 0, "base_offset": 100, "end_offset": 120, "last_at": at(5000)},
]


def test_an_offset_that_is_deleted_stands_still_no_more(spark: SparkSession) -> None:
    rows = [
        behind("deleted", 20, 40, 60, next_at=at(-5)),
        deleted("deleted", 30, log_end=100),
        behind("again", 20, 40, 60, next_at=at(-5)),
        deleted("again", 30, log_end=100),
        behind("again", 4000, 40, 60, next_at=at(-5)),
    ]
    lag, ends = frame_of(spark, LAG, rows), frame_of(spark, LOG_ENDS, WRITTEN)
    columns = "group committed lag since until stood_ms"
    again = ("again", 40, 80, at(4000), None, 1_000_000)
    check(stuck_partitions(lag, ends, longer_than=timedelta(minutes=1)), columns, again)
    gone = ("deleted", 40, 60, at(20), at(30), 10_000)
    check(stuck_partitions(lag, ends, longer_than=timedelta(seconds=9)), columns, again, gone)


def test_who_stands_still_in_the_time_that_is_asked_for_may_have_begun_before_it(spark: SparkSession) -> None:
    rows = [
        behind("dead", 0, 40, 60, next_at=at(-5)),
        behind("went on", 0, 40, 60, next_at=at(-5)),
        behind("went on", 1000, 100, 0),
    ]
    lag, ends = frame_of(spark, LAG, rows), frame_of(spark, LOG_ENDS, WRITTEN)
    columns = "group committed lag since until stood_ms"
    dead = ("dead", 40, 80, at(0), None, 5_000_000)
    check(stuck_partitions(lag, ends, since=at(3600)), columns, dead)
    check(stuck_partitions(lag, ends, since=at(900)), columns, dead, ("went on", 40, 60, at(0), at(1000), 1_000_000))
    check(stuck_partitions(lag, ends, until=at(1000)), columns)


def test_who_has_read_all_of_a_topic_that_was_made_anew_does_not_stand_still(spark: SparkSession) -> None:
    ends = [
        {"topic": "orders", "partition": 0, "base_offset": 0, "end_offset": 1000, "last_at": at(0)},
        {"topic": "orders", "partition": 0, "base_offset": 0, "end_offset": 10, "last_at": at(1000)},
    ]
    lag = frame_of(spark, LAG, [behind("new", 100, 10, 990, next_at=at(0)), behind("old", 100, 5, 995, next_at=at(0))])
    check(stuck_partitions(lag, frame_of(spark, LOG_ENDS, ends)), "group committed lag", ("old", 5, 5))
