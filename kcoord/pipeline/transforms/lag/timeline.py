"""How lag went over time, also for groups that stopped committing: the last commit is compared with the log as it
grows.

The time is cut into pieces, the same for all. What was before the first of them is a piece as well, the one before it:
a partition begins with what was committed then. Rows are bounded by pieces and partitions, not by commits.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.lag.log_growth import last_end, written_batches
from kcoord.pipeline.transforms.period import Period, time_of

_PARTITION: Final = ("topic", "partition")
_KEYS: Final = ("group", *_PARTITION)
_PIECE_BEFORE: Final = -1
_NOTHING: Final = 0


def lag_timeline(
    lag: DataFrame,
    log_ends: DataFrame,
    *,
    pieces: int,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Returns each group's lag over time: a row for each group and each of `pieces` equal parts of the time, from `at`
    to `until`.

    `lag` adds up the partitions, each as of the end of the piece, and `behind_ms` is the lag in time of the worst of
    them then; `highest_lag` and `lag_ms` are the worst of one partition in the piece; `commits` are those in it. Where
    nothing is known of a partition's log, its lag stays that of its last commit. An offset that was deleted has no lag.

    The tables come whole: what was committed before `since` counts until something else is.
    """
    return sum_partitions(partition_timeline(lag, log_ends, pieces=pieces, since=since, until=until))


def sum_partitions(partitions: DataFrame) -> DataFrame:
    """Aggregates the lag of partitions over time to that of groups: a row for each group and piece of the time."""
    return (
        partitions.groupBy("group", "at")
        .agg(
            f.max("until").alias("until"),
            f.sum("lag").alias("lag"),
            f.max("highest_lag").alias("highest_lag"),
            f.max("lag_ms").alias("lag_ms"),
            f.max("behind_ms").alias("behind_ms"),
            f.sum("commits").alias("commits"),
        )
        .select("group", "at", "until", "lag", "highest_lag", "lag_ms", "behind_ms", "commits")
        .orderBy("group", "at")
    )


def partition_timeline(
    lag: DataFrame,
    log_ends: DataFrame,
    *,
    pieces: int,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Returns each partition's lag over time: a row for each group, partition and piece of the time, with the columns
    of `lag_timeline`."""
    rows, grown = _known_before(until, lag, log_ends)
    bounds = f.broadcast(_bounds(rows, grown, pieces, since))
    ends = _ends(grown.crossJoin(bounds), pieces)
    is_same_piece = f.col("each") == f.col("piece")
    end, committed = f.col("end_offset"), f.col("last.committed")
    zero = f.lit(_NOTHING).cast("long")
    lag_then = f.when(end.isNotNull() & committed.isNotNull(), f.greatest(end - committed, zero)).otherwise(
        f.col("last.lag")
    )
    piece_ends = f.least(f.col("start_ms") + (f.col("each") + 1) * f.col("width_ms") - 1, f.col("end_ms"))
    age_then = (
        f.when(f.col("lag") == 0, zero)
        .when((f.col("lag") > 0) & f.col("last.next_at").isNotNull(), piece_ends - f.unix_millis("last.next_at"))
        .otherwise(f.col("last.lag_ms"))
    )
    return (
        _last_commits(rows.crossJoin(bounds), pieces)
        .where(f.col("each") > _PIECE_BEFORE)
        .join(ends, on=[*_PARTITION, "each"], how="left")
        .withColumn("lag", lag_then)
        .withColumn("behind_ms", age_then)
        .select(
            *_KEYS,
            f.timestamp_millis(f.col("start_ms") + f.col("each") * f.col("width_ms")).alias("at"),
            f.timestamp_millis(piece_ends).alias("until"),
            "lag",
            f.greatest("lag", f.when(is_same_piece, f.col("highest_lag"))).alias("highest_lag"),
            f.greatest("behind_ms", f.when(is_same_piece, f.col("lag_ms"))).alias("lag_ms"),
            "behind_ms",
            f.when(is_same_piece, f.col("commits")).otherwise(zero).alias("commits"),
        )
    )


def lag_period(
    lag: DataFrame, log_ends: DataFrame, *, since: datetime | None = None, until: datetime | None = None
) -> Period:
    """Returns the time that a timeline of lag cuts into pieces: from the first commit, or from `since`, to the last
    time known of any log. This runs a Spark job."""
    found = _bounds(*_known_before(until, lag, log_ends), 1, since).collect()
    return Period(first=time_of(found[0]["start_ms"]), last=time_of(found[0]["end_ms"])) if found else Period()


def _known_before(until: datetime | None, lag: DataFrame, log_ends: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns the lag before `until`, and the batches of the logs that were read from."""
    rows = lag if until is None else lag.where(f.col("at") < f.lit(until))
    read = rows.select(*_PARTITION).distinct()
    return rows, written_batches(log_ends, until).join(read, on=[*_PARTITION], how="left_semi")


def _bounds(lag: DataFrame, grown: DataFrame, pieces: int, since: datetime | None) -> DataFrame:
    """Returns one row: from the first commit, or from `since` if that is later, to the last time known of any log."""
    first_ms, last_ms = f.min(f.unix_millis("at")), f.max(f.unix_millis("at"))
    since_ms = f.unix_millis(f.lit(since).cast("timestamp"))
    commits = lag.agg(f.greatest(first_ms, since_ms).alias("start_ms"), last_ms.alias("last_commit_ms"))
    logs = grown.agg(last_ms.alias("last_batch_ms"))
    end_ms = f.greatest("last_commit_ms", "last_batch_ms")
    return (
        commits.crossJoin(logs)
        .withColumn("end_ms", end_ms)
        .where(f.col("start_ms") <= f.col("end_ms"))
        .withColumn("width_ms", f.ceil((f.col("end_ms") - f.col("start_ms") + 1) / pieces))
        .select("start_ms", "end_ms", "width_ms")
    )


def _ends(grown: DataFrame, pieces: int) -> DataFrame:
    """Returns where each log ended at the end of `each` piece."""
    by_piece = grown.groupBy(*_PARTITION, _piece().alias("piece")).agg(last_end().alias("end_offset"))
    return _forward_filled(by_piece, _until_next(_PARTITION, pieces)).select(*_PARTITION, "each", "end_offset")


def _last_commits(lag: DataFrame, pieces: int) -> DataFrame:
    """Returns the `last` row of each partition, in `each` piece until the next one; a deletion ends it."""
    facts = f.struct("committed", "lag", "lag_ms", "next_at")
    seen = lag.groupBy(*_KEYS, _piece().alias("piece"), "start_ms", "end_ms", "width_ms").agg(
        f.count("committed").alias("commits"),
        f.max_by(facts, f.struct("at", "committed")).alias("last"),
        f.max("lag").alias("highest_lag"),
        f.max("lag_ms").alias("lag_ms"),
    )
    is_deleted = f.col("last.committed").isNull()
    last = f.when(is_deleted, f.col("piece")).otherwise(_until_next(_KEYS, pieces))
    return _forward_filled(seen, last).where(~is_deleted | (f.col("commits") > 0))


def _piece() -> Column:
    nth = f.floor((f.unix_millis("at") - f.col("start_ms")) / f.col("width_ms"))
    return f.greatest(f.coalesce(nth, f.lit(_PIECE_BEFORE)), f.lit(_PIECE_BEFORE).cast("long"))


def _until_next(keys: Sequence[str], pieces: int) -> Column:
    """Returns the piece before the next one that has a row, or the last one."""
    in_turn = Window.partitionBy(*keys).orderBy("piece")
    return f.coalesce(f.lead("piece").over(in_turn), f.lit(pieces)) - 1


def _forward_filled(frame: DataFrame, last: Column) -> DataFrame:
    """Repeats each row in all pieces from its own to the last that it counts for."""
    return frame.withColumn("until_piece", last).withColumn("each", f.explode(f.sequence("piece", "until_piece")))
