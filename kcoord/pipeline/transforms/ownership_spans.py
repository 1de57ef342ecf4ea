"""Who held which partition in each record: the input of ownership and moved partitions."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.events import CURRENT, MEMBER, read_events
from kcoord.pipeline.transforms.history import deduplicated, log_order, snapshots, up_to_current_row

FACTS: Final = ("instance_id", "client_id", "client_host")
CLASSIC: Final = "classic"
_RECORD: Final = (
    *("group", "kind", "line", "life", "source_partition", "source_offset", "at", "generation", "turn", "next"),
    "change_offset",
)
"""`line`, `turn` and `next` come from `history.snapshots`; `change_offset` is the record that began the change."""


def classic_partitions(generations: DataFrame) -> DataFrame:
    """Returns a row for each partition that a generation of a classic group assigned to a member."""
    member = f.col("member")
    return (
        _classic(generations)
        .select(*_RECORD, f.explode("members").alias("member"))
        .select(
            *_RECORD,
            member.member_id.alias("member_id"),
            *(member[name].alias(name) for name in FACTS),
            f.explode(member.assignment.assigned).alias("given"),
        )
        .select(
            *_RECORD,
            "member_id",
            *FACTS,
            f.col("given.topic").alias("topic"),
            f.explode("given.partitions").alias("partition"),
        )
    )


def classic_members(generations: DataFrame) -> DataFrame:
    """Returns a row for each member of each generation of a classic group."""
    member = f.col("member")
    return (
        _classic(generations)
        .select(*_RECORD, f.explode("members").alias("member"))
        .select(*_RECORD, member.member_id.alias("member_id"), *(member[name].alias(name) for name in FACTS))
    )


def modern_partitions(group_events: DataFrame, names: DataFrame) -> DataFrame:
    """Returns a row for each partition in each current assignment of a member of a consumer (KIP-848) or share group.

    A partition that a member has to revoke still belongs to it: nobody else gets it before the member has revoked it.
    """
    return (
        _modern(group_events, CURRENT)
        .select(*_RECORD, "member_id", "who.*", f.explode("owned").alias("given"))
        .select(
            *_RECORD,
            "member_id",
            *FACTS,
            f.col("given.topicId").alias("topic_id"),
            f.explode("given.partitions").alias("partition"),
        )
        .join(f.broadcast(names), on="topic_id", how="left")
        .select(*_RECORD, "member_id", *FACTS, f.coalesce("topic", "topic_id").alias("topic"), "partition")
    )


def modern_members(group_events: DataFrame) -> DataFrame:
    """Returns a row for each record that describes a member of a consumer (KIP-848), share or streams group."""
    return _modern(group_events, MEMBER).where(~f.col("tombstone")).select(*_RECORD, "member_id", "who.*")


def _classic(generations: DataFrame) -> DataFrame:
    deleted = f.sum(f.col("tombstone").cast("int")).over(up_to_current_row(log_order("group")))
    return snapshots(
        deduplicated(generations).select(
            "group",
            f.lit(CLASSIC).alias("kind"),
            f.lit("").alias("line"),
            deleted.alias("life"),
            "source_partition",
            "source_offset",
            f.col("source_offset").alias("change_offset"),
            f.col("appended_at").alias("at"),
            "generation",
            "members",
        )
    )


def _modern(group_events: DataFrame, role: str) -> DataFrame:
    return snapshots(
        read_events(group_events)
        .where(f.col("role") == role)
        .withColumn("line", f.col("member_id"))
        .withColumn("generation", f.col("member_epoch"))
    )
