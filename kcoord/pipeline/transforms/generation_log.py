"""Who was in groups and what was assigned, in the order of the log: the generations of classic groups, the records of
consumer groups; the latest of both; and what was committed while a generation lasted."""

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import deduplicated, log_order, up_to_current_row

_POSITION: Final = ("source_partition", "source_offset")


def generation_log(generations: DataFrame) -> DataFrame:
    """Returns the records of classic groups in the order of the log, each once, with the members without their
    bytes."""
    members = f.transform(
        "members",
        lambda each: f.struct(
            *(each[name].alias(name) for name in ("member_id", "instance_id", "client_id", "client_host")),
            each.session_timeout_ms.alias("session_timeout_ms"),
            each.subscription.isNotNull().alias("is_readable"),
            each.subscription.topics.alias("topics"),
            (f.size(each.subscription.owned) > 0).alias("claims"),
            each.subscription.rack.alias("rack"),
            each.assignment.assigned.alias("assigned"),
        ),
    )
    return (
        deduplicated(generations)
        .select(
            "group",
            *_POSITION,
            "generation",
            "protocol_type",
            "protocol",
            "tombstone",
            "state_since",
            "appended_at",
            members.alias("members"),
        )
        .orderBy("group", *_POSITION)
    )


def latest_generations(generations: DataFrame) -> DataFrame:
    """Returns the latest generation with members of each classic group, as `generation_log` has it."""
    newest_first = Window.partitionBy("group").orderBy(*map(f.desc, _POSITION))
    with_members = generations.where(f.size("members") > 0)
    latest = with_members.withColumn("place", f.row_number().over(newest_first)).where(f.col("place") == 1)
    return generation_log(latest)


def last_commits(generations: DataFrame, commits: DataFrame) -> DataFrame:
    """Returns when the partitions of a member were last committed while a generation lasted: a row for each generation
    (by `group` and the `source_offset` of its record) and member of which any was, with the column `last_at`."""
    records = deduplicated(generations)
    marks = records.select("group", *_POSITION, f.col("source_offset").alias("mark"))
    committed = commits.where(~f.col("tombstone") & f.col("appended_at").isNotNull()).select(
        "group", *_POSITION, "topic", "partition", f.col("appended_at").alias("at")
    )
    of_partitions = (
        marks.unionByName(committed, allowMissingColumns=True)
        .withColumn("mark", f.last("mark", ignorenulls=True).over(up_to_current_row(log_order("group"))))
        .where(f.col("topic").isNotNull() & f.col("mark").isNotNull())
        .groupBy("group", f.col("mark").alias("source_offset"), "topic", "partition")
        .agg(f.max("at").alias("at"))
    )
    return (
        _assigned(records)
        .join(of_partitions, on=["group", "source_offset", "topic", "partition"], how="inner")
        .groupBy("group", "source_offset", "member_id")
        .agg(f.max("at").alias("last_at"))
        .select("group", "source_offset", "member_id", "last_at")
    )


def _assigned(generations: DataFrame) -> DataFrame:
    """Returns a row for each partition that a generation assigned to a member."""
    return (
        generations.select("group", "source_offset", f.explode("members").alias("member"))
        .select("group", "source_offset", "member.member_id", f.explode("member.assignment.assigned").alias("each"))
        .select("group", "source_offset", "member_id", "each.topic", f.explode("each.partitions").alias("partition"))
    )


def event_log(group_events: DataFrame, record_types: Collection[int]) -> DataFrame:
    """Returns the records of these types in the order of the log, each once."""
    return (
        deduplicated(group_events.where(f.col("record_type").isin(*record_types)))
        .select("group", *_POSITION, "record_type", "member_id", "key", "payload", "appended_at")
        .orderBy("group", *_POSITION)
    )


def latest_events(group_events: DataFrame, record_types: Collection[int]) -> DataFrame:
    """Returns the latest record of each key of these types, as `event_log` has them: what a log would have after
    compaction."""
    newest_first = Window.partitionBy("group", "record_type", "key").orderBy(*map(f.desc, _POSITION))
    ranked = group_events.where(f.col("record_type").isin(*record_types)).withColumn(
        "place", f.row_number().over(newest_first)
    )
    return event_log(ranked.where(f.col("place") == 1), record_types)
