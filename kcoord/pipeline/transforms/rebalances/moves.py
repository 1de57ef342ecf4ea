"""Partitions that changed hands, by the record that began the change."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.events import SHARE
from kcoord.pipeline.transforms.ownership_spans import classic_partitions, modern_partitions


def moves(generations: DataFrame, group_events: DataFrame, names: DataFrame) -> DataFrame:
    """Returns a row for each rebalance (by `group` and `change_offset`, the record that began it) with counts of
    partitions: `moved` to another owner than the last one they had, `regained` (assigned after a time without an
    owner), `fresh` with their first owner, `lost`. A static member is the same owner when it comes back.

    A cooperative rebalance takes a partition away in one generation and gives it in the next: it moves in the second.
    """
    held = classic_partitions(generations).unionByName(modern_partitions(group_events, names))
    life = Window.partitionBy("group", "kind", "life", "topic", "partition").orderBy("source_offset")
    is_one_line = f.col("line") == ""
    last_owner, last_turn, next_turn = f.lag("owner").over(life), f.lag("turn").over(life), f.lead("turn").over(life)
    seen = (
        held.where(f.col("kind") != SHARE)
        .withColumn("owner", f.coalesce("instance_id", "member_id"))
        .withColumn("moved", last_owner != f.col("owner"))
        .withColumn("fresh", last_owner.isNull())
        .withColumn("regained", is_one_line & (last_turn < f.col("turn") - 1))
        .withColumn("lost", is_one_line & (f.coalesce(next_turn, f.lit(0)) != f.col("turn") + 1))
    )
    given = seen.select("group", "change_offset", "moved", "fresh", "regained", f.lit(False).alias("lost"))
    taken = seen.where("lost AND next IS NOT NULL").select(
        "group",
        f.col("next.source_offset").alias("change_offset"),
        *(f.lit(False).alias(name) for name in ("moved", "fresh", "regained")),
        "lost",
    )
    return (
        given.unionByName(taken)
        .groupBy("group", "change_offset")
        .agg(*(f.count_if(name).cast("int").alias(name) for name in ("moved", "fresh", "regained", "lost")))
        .select("group", "change_offset", "moved", "fresh", "regained", "lost")
    )
