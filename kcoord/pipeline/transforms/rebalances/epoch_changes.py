"""Changes of consumer (KIP-848), share and streams groups, from one epoch to the next.

The reasons for an epoch are written before it: who comes, who goes, what is subscribed to. After it each member's
current assignment shows when the member has reached that epoch. So the change begins when the epoch is written, and
ends when all members have reached it and wait for no partition, or when the next epoch begins.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.events import CURRENT, GROUP, MEMBER, PATTERN, read_events
from kcoord.pipeline.transforms.history import log_order, null_as_false, up_to_current_row
from kcoord.pipeline.transforms.ownership_spans import FACTS
from kcoord.pipeline.transforms.rebalances.causes import CHANGE, MEMBERS


def epoch_changes(group_events: DataFrame) -> DataFrame:
    """Returns a row for each new epoch of a consumer (KIP-848), share or streams group, and for each deletion of one,
    with the columns CHANGE: who came and went, and when it began and ended."""
    life = Window.partitionBy("group").orderBy("turn")
    before = f.lag(f.struct("is_deletion", "generation", "members", "metadata_hash")).over(life)
    was_there = null_as_false(~f.col("before.is_deletion"))
    return (
        _by_epoch(_with_turns(read_events(group_events)))
        .withColumn("before", before)
        .withColumn("ended_at", f.coalesce("all_there_at", f.lead("started_at").over(life)))
        .withColumn("from_generation", f.when(was_there, f.col("before.generation")))
        .withColumn("members_before", f.when(was_there, f.col("before.members")).otherwise(0))
        .withColumn("topics_changed", null_as_false(f.col("metadata_hash") != f.col("before.metadata_hash")))
        .select(*CHANGE)
    )


def _with_turns(events: DataFrame) -> DataFrame:
    """Adds `turn`, the number of the epoch that an event led to or followed; how many members were `living` then, and
    how many of them were `there`, at that epoch."""
    order = up_to_current_row(log_order("group"))
    is_epoch, is_reason = f.col("role") == GROUP, f.col("role").isin(MEMBER, PATTERN)
    is_there = (f.col("role") == CURRENT) & (f.col("member_epoch") >= f.col("target")) & f.col("is_stable")
    return (
        events.withColumn("turn", f.sum(is_epoch.cast("int")).over(order) + is_reason.cast("int"))
        .withColumn("target", f.last("epoch", ignorenulls=True).over(order))
        .withColumn("living", _change_of(_is_living(), "group", "member_id"))
        .withColumn("there", _change_of(null_as_false(is_there), "group", "turn", "member_id"))
        .withColumn("living", f.sum("living").over(order).cast("int"))
        .withColumn("there", f.sum("there").over(up_to_current_row(log_order("group", "turn"))))
        .withColumn(
            "before", f.lag(f.struct("tombstone", "subscription")).over(log_order("group", "role", "member_id"))
        )
    )


def _by_epoch(events: DataFrame) -> DataFrame:
    """Puts all that belongs to an epoch into one row."""
    role, is_gone = f.col("role"), f.col("tombstone")
    is_new = f.coalesce("before.tombstone", f.lit(True))
    member = f.struct("member_id", *(f.col(f"who.{name}") for name in FACTS))
    is_other = ~is_new & (f.col("subscription") != f.col("before.subscription"))
    is_resolved_pattern = (role == PATTERN) & ~is_gone
    is_complete = role.isin(GROUP, CURRENT) & (f.col("there") == f.col("living"))
    epoch = f.struct(
        *("kind", "source_partition", "source_offset"),
        f.col("epoch").alias("generation"),
        f.col("at").alias("started_at"),
        f.col("living").alias("members"),
        f.col("tombstone").alias("is_deletion"),
        "metadata_hash",
    )
    return (
        events.groupBy("group", "turn")
        .agg(
            f.first(f.when(role == GROUP, epoch), ignorenulls=True).alias("epoch"),
            f.collect_list(f.when((role == MEMBER) & ~is_gone & is_new, member)).cast(MEMBERS).alias("came"),
            f.collect_list(f.when((role == MEMBER) & is_gone, member)).cast(MEMBERS).alias("went"),
            f.max(null_as_false((role == MEMBER) & is_other) | is_resolved_pattern).alias("subscription_changed"),
            f.min_by(f.when(is_complete, f.col("at")), f.when(is_complete, f.col("source_offset"))).alias(
                "all_there_at"
            ),
        )
        .where(f.col("epoch").isNotNull())
        .select("group", "turn", "epoch.*", "came", "went", "subscription_changed", "all_there_at")
    )


def _is_living() -> Column:
    """Whether the member is in the group after this event. A static member that is temporarily away has epoch -2."""
    is_away = null_as_false(f.col("member_epoch") < 0)
    return f.col("role").isin(MEMBER, CURRENT) & ~f.col("tombstone") & ~is_away


def _change_of(flag: Column, *keys: str) -> Column:
    """Returns 1 if the flag became true with this event, -1 if it became false, compared with the event before of the
    same keys."""
    number = flag.cast("int")
    return number - f.coalesce(f.lag(number).over(log_order(*keys)), f.lit(0))
