"""The frames that the page of a group is drawn from: they have a bounded number of rows for each group.

Times are milliseconds since 1970 here: collected as timestamps they would be in the zone of the machine. A piece is a
part of the time, identified by its beginning.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.report.model import Limits

_TP: Final = ("group", "topic", "partition")


def rebalance_marks(rebalances: DataFrame, piece_ms: int) -> DataFrame:
    """Returns the rebalances for a chart: one row for each group, cause and piece of the time, with their number and
    sum of durations. A rebalance whose beginning or end is unknown is a moment."""
    start, end = f.coalesce("started_at", "ended_at"), f.coalesce("ended_at", "started_at")
    return (
        rebalances.where(start.isNotNull())
        .withColumns({"start": f.unix_millis(start), "end": f.unix_millis(end)})
        .select("group", f.explode("causes").alias("cause"), "start", "end", "duration_ms")
        .groupBy("group", "cause", piece_of(f.col("end"), piece_ms).alias("piece"))
        .agg(
            f.min("start").alias("first"),
            f.max("end").alias("last"),
            f.count("*").alias("rebalances"),
            f.coalesce(f.sum("duration_ms"), f.lit(0)).alias("lost_ms"),
        )
        .select("group", "cause", "first", "last", "rebalances", "lost_ms")
        .orderBy("group", "first", "cause")
    )


def latest_rebalances(rebalances: DataFrame, limits: Limits) -> DataFrame:
    """Returns the latest rows of the table `rebalances` of each group, the newest first."""
    at = f.unix_millis(f.coalesce("ended_at", "started_at"))
    newest = Window.partitionBy("group").orderBy(at.desc_nulls_last(), f.col("generation").desc_nulls_last())
    return (
        rebalances.withColumn("place", f.row_number().over(newest))
        .where(f.col("place") <= limits.rebalances)
        .orderBy("group", "place")
        .select(
            "group",
            "generation",
            f.unix_millis("started_at").alias("started_at"),
            f.unix_millis("ended_at").alias("ended_at"),
            "duration_ms",
            "causes",
            *(f.slice(name, 1, limits.names).alias(name) for name in ("joined", "left")),
            *(f.greatest(f.size(name), f.lit(0)).alias(f"{name}_count") for name in ("joined", "left")),
            "members",
            "moved_partitions",
            "pause_ms",
        )
    )


def latest_members(memberships: DataFrame, limits: Limits) -> DataFrame:
    """Returns a row for each of the members of a group that were present most recently, in the order in which they
    came. The column `members` is the total of the group."""
    first, last = f.unix_millis("member_from"), f.unix_millis("member_until")
    by_member = memberships.groupBy("group", "member_id").agg(
        *(f.max(name).alias(name) for name in ("instance_id", "client_id", "client_host")),
        f.min(first).alias("first_at"),
        f.when(f.bool_and("has_ended"), f.max(last)).alias("last_at"),
        f.bool_and("has_ended").alias("has_gone"),
    )
    group = Window.partitionBy("group")
    latest_first = group.orderBy(f.col("last_at").desc_nulls_first(), f.col("first_at").desc_nulls_last(), "member_id")
    return (
        by_member.withColumns({"place": f.row_number().over(latest_first), "members": f.count("*").over(group)})
        .where(f.col("place") <= limits.members)
        .orderBy("group", f.col("first_at").asc_nulls_first(), "member_id")
        .select(
            *("group", "member_id", "instance_id", "client_id", "client_host", "first_at", "last_at"),
            *("has_gone", "members"),
        )
    )


def longest_ownerships(ownership: DataFrame, limits: Limits) -> DataFrame:
    """Returns the longest rows of the table `ownership` for the partitions of each group that changed hands most often,
    by partition and time. The column `partitions` is the total of the group, `spans` that of the partition."""
    start, end = f.unix_millis("owned_from"), f.unix_millis("owned_until")
    by_partition = ownership.groupBy(*_TP).agg(f.count("*").alias("spans"))
    group = Window.partitionBy("group")
    busiest = group.orderBy(f.col("spans").desc(), "topic", "partition")
    chosen = (
        by_partition.withColumns({"place": f.row_number().over(busiest), "partitions": f.count("*").over(group)})
        .where(f.col("place") <= limits.partitions)
        .select(*_TP, "spans", "partitions")
    )
    # A span without a known end or beginning counts as the longest.
    longest = Window.partitionBy(*_TP).orderBy((end - start).desc_nulls_first(), start, "member_id")
    return (
        ownership.join(f.broadcast(chosen), on=list(_TP), how="inner")
        .withColumn("place", f.row_number().over(longest))
        .where(f.col("place") <= limits.spans)
        .select(
            *_TP,
            "member_id",
            "instance_id",
            start.alias("owned_from"),
            end.alias("owned_until"),
            "spans",
            "partitions",
        )
        .orderBy(*_TP, f.col("owned_from").asc_nulls_first(), "member_id")
    )


def commit_counts(commits: DataFrame, piece_ms: int) -> DataFrame:
    """Counts the commits of each group by piece of the time: a row for each group and piece; pieces without a commit
    have no row."""
    return (
        commits.where(~f.col("tombstone") & f.col("appended_at").isNotNull())
        .groupBy("group", piece_of(f.unix_millis("appended_at"), piece_ms).alias("piece"))
        .agg(f.count("*").alias("commits"))
        .select("group", "piece", "commits")
        .orderBy("group", "piece")
    )


def lag_of_partitions(timeline: DataFrame, limits: Limits) -> DataFrame:
    """Returns the lag over time of those partitions of each group whose lag was the largest: a row for each partition
    and piece of a `partition_timeline`. The column `partitions` is the total of the group."""
    group = Window.partitionBy("group")
    furthest = group.orderBy(f.col("peak").desc_nulls_last(), "topic", "partition")
    chosen = (
        timeline.groupBy(*_TP)
        .agg(f.max("highest_lag").alias("peak"))
        .withColumns({"place": f.row_number().over(furthest), "partitions": f.count("*").over(group)})
        .where((f.col("place") <= limits.lines) & f.col("peak").isNotNull())
        .select(*_TP, "place", "partitions")
    )
    return (
        timeline.join(f.broadcast(chosen), on=list(_TP), how="inner")
        .select(*_TP, "place", "partitions", f.unix_millis("at").alias("piece"), f.col("highest_lag").alias("lag"))
        .orderBy("group", "place", "piece")
    )


def piece_of(milliseconds: Column, piece_ms: int) -> Column:
    """Returns a column with the beginning of the piece (of `piece_ms` milliseconds) that the time is in."""
    return milliseconds - f.pmod(milliseconds, f.lit(piece_ms).cast("long"))
