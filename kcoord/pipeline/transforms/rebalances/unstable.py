"""Findings in rebalances and memberships: unstable groups, and members that come and go."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import milliseconds_between, null_as_false

DEFAULT_LIMIT: Final = 10
"""How many are shown unless the user asks for another number."""


def unstable_groups(rebalances: DataFrame, *, hours: float, most: int = DEFAULT_LIMIT) -> DataFrame:
    """Returns a row for each of the `most` groups with the most rebalances: how many per hour, their causes, and the
    time lost.

    `hours` is the length of the time in which rebalances were counted, as `Period` has it, whatever happened in it.
    `lost_ms` is the sum of what they took at least, `longest_ms` the largest; `pause_ms` how long nothing was committed
    around them. A static member that came back without a rebalance counts as a cause all the same.
    """
    is_rebalance = ~null_as_false(f.col("generation") == f.col("from_generation"))
    counted = rebalances.groupBy("group").agg(
        f.count_if(is_rebalance).alias("rebalances"),
        f.sum("duration_ms").alias("lost_ms"),
        f.max("duration_ms").alias("longest_ms"),
        f.sum("pause_ms").alias("pause_ms"),
        f.sum("moved_partitions").alias("moved_partitions"),
    )
    return (
        counted.where(f.col("rebalances") > 0)
        .orderBy(f.desc("rebalances"), "group")
        .limit(most)
        .join(_causes(rebalances), on="group", how="left")
        .select(
            "group",
            "rebalances",
            f.round(f.col("rebalances") / f.lit(hours), 2).alias("per_hour"),
            "causes",
            "lost_ms",
            "longest_ms",
            "pause_ms",
            "moved_partitions",
        )
        .orderBy(f.desc("rebalances"), "group")
    )


def flapping_members(memberships: DataFrame, *, most: int = DEFAULT_LIMIT, at_least: int = 2) -> DataFrame:
    """Returns a row for each of the `most` members that came back most often, identified by what stays the same: the
    instance id, or client id and host.

    Several members may have the same client id and host: those that were there at the same time are not counted as one
    that returned. `stayed_ms` is the median of how long those that left had stayed.
    """
    named = memberships.withColumn("member", f.coalesce("instance_id", f.concat_ws(" ", "client_id", "client_host")))
    name = ["group", "member"]
    stay = f.when(f.col("has_ended"), milliseconds_between(f.col("member_from"), f.col("member_until")))
    counted = named.groupBy(*name).agg(
        f.count("*").alias("joined"),
        f.count_if("has_ended").alias("left"),
        f.percentile_approx(stay, 0.5).alias("stayed_ms"),
        f.min("member_from").alias("first_at"),
        f.max(f.greatest("member_from", "member_until")).alias("last_at"),
    )
    returned = f.col("joined") - f.col("at_once")
    return (
        counted.join(_most_at_once(named, name), on=name, how="inner")
        .withColumn("returned", returned)
        .where(f.col("returned") >= at_least)
        .select(*name, "returned", "joined", "left", "at_once", "stayed_ms", "first_at", "last_at")
        .orderBy(f.desc("returned"), *name)
        .limit(most)
    )


def _causes(rebalances: DataFrame) -> DataFrame:
    """Counts the rebalances of a group by cause; one with two causes counts for both."""
    return (
        rebalances.select("group", f.explode("causes").alias("cause"))
        .groupBy("group", "cause")
        .agg(f.count("*").alias("count"))
        .groupBy("group")
        .agg(f.map_from_entries(f.array_sort(f.collect_list(f.struct("cause", "count")))).alias("causes"))
    )


def _most_at_once(memberships: DataFrame, name: list[str]) -> DataFrame:
    """Returns the largest number of members at a time. At the same moment departures count before arrivals."""
    came = memberships.select(*name, f.col("member_from").alias("at"), f.lit(1).alias("change"))
    went = memberships.where("has_ended").select(*name, f.col("member_until").alias("at"), f.lit(-1).alias("change"))
    order = Window.partitionBy(*name).orderBy("at", "change").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        came.unionByName(went)
        .withColumn("present", f.sum("change").over(order))
        .groupBy(*name)
        .agg(f.max("present").alias("at_once"))
    )
