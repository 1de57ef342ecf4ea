"""The frames of the first page: the groups in their order, and what was rejected."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.event_types import GROUP_EPOCHS
from kcoord.pipeline.transforms.history import null_as_false

_MODERN: Final = r"^(Consumer|Share|Streams)Group"


def ranked_groups(
    commits: DataFrame, generations: DataFrame, group_events: DataFrame, rebalances: DataFrame, timeline: DataFrame
) -> DataFrame:
    """Returns a row for each group, with its kind and state, and its counts of commits and rebalances: those with the
    most rebalances first, then by the largest lag, then by name.

    A group that wrote nothing in the requested time is included if it was behind in it, as `lag_timeline` has it.
    `changes` counts the rows of `rebalances`: also static members that came back without a rebalance.
    """
    is_rebalance = ~null_as_false(f.col("generation") == f.col("from_generation"))
    committed = commits.groupBy("group").agg(f.count_if(~f.col("tombstone")).alias("commits"))
    changed = rebalances.groupBy("group").agg(
        f.count_if(is_rebalance).alias("rebalances"),
        f.count("*").alias("changes"),
        f.sum("duration_ms").alias("lost_ms"),
        f.sum("pause_ms").alias("pause_ms"),
    )
    behind = timeline.groupBy("group").agg(f.max("highest_lag").alias("peak_lag"))
    is_known = f.col("commits").isNotNull() | f.col("kind").isNotNull() | (f.col("peak_lag") > 0)
    counts = ("commits", "rebalances", "changes", "lost_ms")
    return (
        committed.join(group_kinds(generations, group_events), on="group", how="full")
        .join(changed, on="group", how="left")
        .join(behind, on="group", how="full")
        .where(is_known)
        .orderBy(f.col("rebalances").desc_nulls_last(), f.col("peak_lag").desc_nulls_last(), "group")
        .select(
            "group",
            "kind",
            "state",
            "protocol_type",
            "protocol",
            *(f.coalesce(name, f.lit(0)).alias(name) for name in counts),
            "pause_ms",
        )
    )


def group_kinds(generations: DataFrame, group_events: DataFrame) -> DataFrame:
    """Returns a row for each group with its kind (classic, consumer, share, streams) and state, by its newest record; a
    group may change from classic to consumer and back.

    For the newer kinds the log has no state, except that the group was deleted: then its tombstone is its last record.
    """
    newest = f.struct("source_offset", "appended_at")
    classic = generations.groupBy("group").agg(
        f.max_by(f.struct("state", "protocol_type", "protocol"), newest).alias("told"),
        f.max(newest).alias("classic_at"),
    )
    modern = group_events.groupBy("group").agg(
        f.max_by(f.struct("record_name", "record_type", "tombstone"), newest).alias("event"),
        f.max(newest).alias("modern_at"),
    )
    is_classic = f.col("classic_at").isNotNull() & (
        f.col("modern_at").isNull() | (f.col("classic_at") > f.col("modern_at"))
    )
    modern_kind = f.lower(f.regexp_extract("event.record_name", _MODERN, 1))
    is_deleted = f.col("event.tombstone") & f.col("event.record_type").isin(*GROUP_EPOCHS)
    return (
        classic.join(modern, on="group", how="full")
        .withColumn("told", f.when(is_classic, f.col("told")))
        .select(
            "group",
            f.when(is_classic, "classic").otherwise(modern_kind).alias("kind"),
            f.when(is_classic, f.col("told.state")).when(is_deleted, "Dead").alias("state"),
            "told.protocol_type",
            "told.protocol",
        )
    )


def rejected_reasons(rejected: DataFrame) -> DataFrame:
    """Counts the rows of the table `rejected` and their records by reason, the most frequent first."""
    return (
        rejected.groupBy("reason", "what")
        .agg(
            f.count("*").alias("rows"),
            f.sum("records").alias("records"),
            f.max("appended_at").alias("last_at"),
        )
        .orderBy(f.col("records").desc(), f.col("rows").desc(), "reason", "what")
        .select("reason", "what", "rows", "records", "last_at")
    )
