"""Findings in lag: partitions that never catch up, and partitions that do not move."""

from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import milliseconds_between, up_to_current_row
from kcoord.pipeline.transforms.lag.log_growth import last_end, written_batches

_KEYS: Final = ("group", "topic", "partition")
_HOUR: Final = 3600
_LONG_ENOUGH: Final = timedelta(minutes=1)


def never_caught_up(
    lag: DataFrame,
    *,
    bound: int = 0,
    at_least: int = 2,
    longer_than: timedelta = _LONG_ENOUGH,
    read_until: datetime | None = None,
) -> DataFrame:
    """Returns a row for each partition of a group whose lag was above the bound at every commit, if there are at least
    so many commits; the largest lag first.

    A partition whose commits began a moment before the end of what was read had no time to catch up, and one whose
    offset was deleted need not: neither is returned. `since` and `until` are the first and the last commit. `per_hour`
    is by how many records the lag grew in an hour, along the straight line that fits it best; null if all commits are
    of one moment.
    """
    order = f.struct("at", "committed")
    known_at = f.when(f.col("lag").isNotNull(), f.col("at"))
    end = f.greatest("until", f.lit(read_until).cast("timestamp"))
    enough_ms = longer_than // timedelta(milliseconds=1)
    is_line = milliseconds_between(f.col("since"), f.col("until")) > enough_ms
    return (
        lag.groupBy(*_KEYS)
        .agg(
            f.count("lag").alias("commits"),
            f.min("lag").alias("lowest_lag"),
            f.max("lag").alias("highest_lag"),
            f.max_by(f.struct("lag", "lag_ms"), f.when(known_at.isNotNull(), order)).alias("last"),
            f.max_by(f.col("committed").isNotNull(), order).alias("is_there"),
            f.min(known_at).alias("since"),
            f.max(known_at).alias("until"),
            (f.regr_slope("lag", f.unix_millis("at") / 1000) * _HOUR).alias("per_hour"),
        )
        .where((f.col("lowest_lag") > bound) & (f.col("commits") >= at_least))
        .where(f.col("is_there") & (milliseconds_between(f.col("since"), end) > enough_ms))
        .select(
            *_KEYS,
            "commits",
            "lowest_lag",
            "highest_lag",
            f.col("last.lag").alias("last_lag"),
            f.col("last.lag_ms").alias("last_lag_ms"),
            f.when(is_line, f.round("per_hour", 1)).alias("per_hour"),
            "since",
            "until",
        )
        .orderBy(f.desc("last_lag"), *_KEYS)
    )


def stuck_partitions(
    lag: DataFrame,
    log_ends: DataFrame,
    *,
    longer_than: timedelta = _LONG_ENOUGH,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Returns a row for each partition of a group whose committed offset did not move while there were records to read:
    the longest such interval of each, if longer than `longer_than`.

    The interval begins when there is a record at the committed offset, and ends when another offset is committed, or
    when it is deleted, or else where the log ends that was read: `until` is null then. `lag` is what there was to read
    at its end.

    The tables come whole: a partition that is stuck has no further commits, and may have been stuck before `since`.
    Intervals count if they end after `since`; records from `until` on are ignored.
    """
    rows = lag if until is None else lag.where(f.col("at") < f.lit(until))
    in_time = Window.partitionBy(*_KEYS).orderBy("at", "committed")
    in_turn = Window.partitionBy(*_KEYS).orderBy("stand")
    is_other = ~f.col("committed").eqNullSafe(f.lag("committed").over(in_time))
    first = f.min_by(f.struct("at", "log_end"), "at")
    ends = (
        written_batches(log_ends, until)
        .groupBy("topic", "partition")
        .agg(last_end().alias("last_end"), f.max("at").alias("last_at"))
    )
    intervals = (
        rows.withColumn("is_other", is_other)
        .withColumn("stand", f.sum(f.col("is_other").cast("int")).over(up_to_current_row(in_time)))
        .groupBy(*_KEYS, "stand", "committed")
        .agg(first.alias("first"), f.min("next_at").alias("next_at"))
        .withColumn("after", f.lead("first").over(in_turn))
        .where(f.col("next_at").isNotNull())
        .join(ends, on=["topic", "partition"], how="inner")
        .withColumn("since", f.greatest("first.at", "next_at"))
        .withColumn("until", f.col("after.at"))
        .withColumn("stood_ms", milliseconds_between(f.col("since"), f.coalesce("until", "last_at")))
        .withColumn("lag", f.coalesce("after.log_end", "last_end") - f.col("committed"))
    )
    going_on = intervals if since is None else intervals.where(f.coalesce(f.col("until") > f.lit(since), f.lit(True)))
    longest = f.max_by(f.struct("committed", "lag", "since", "until", "stood_ms"), f.struct("stood_ms", "since"))
    return (
        going_on.where((f.col("stood_ms") > longer_than // timedelta(milliseconds=1)) & (f.col("lag") > 0))
        .groupBy(*_KEYS)
        .agg(longest.alias("longest"))
        .select(*_KEYS, "longest.*")
        .orderBy(f.desc("stood_ms"), *_KEYS)
    )
