"""Each change from one generation, or epoch, to the next: how long it took, why it happened, and what it changed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.events import CONSUMER
from kcoord.pipeline.transforms.history import log_order, milliseconds_between, null_as_false
from kcoord.pipeline.transforms.ownership_spans import CLASSIC
from kcoord.pipeline.transforms.rebalances.causes import (
    LEFT,
    UNKNOWN,
    member_causes,
    sorted_member_ids,
    with_other_causes,
)
from kcoord.pipeline.transforms.rebalances.epoch_changes import epoch_changes
from kcoord.pipeline.transforms.rebalances.generation_changes import generation_changes
from kcoord.pipeline.transforms.rebalances.moves import moves
from kcoord.pipeline.transforms.rebalances.pauses import with_pauses


def rebalances(generations: DataFrame, group_events: DataFrame, commits: DataFrame, names: DataFrame) -> DataFrame:
    """Returns the table `rebalances`: a row for each change of a group from one generation, or epoch, to the next, with
    its causes, its duration and what it changed. `names` comes from `topic_names`."""
    changes = generation_changes(generations).unionByName(epoch_changes(group_events))
    moved = moves(generations, group_events, names).withColumnRenamed("change_offset", "source_offset")
    came, went = f.col("came"), f.col("went")
    is_known = came.isNotNull()
    causes = with_other_causes(
        member_causes(came, went),
        subscription_changed=f.col("subscription_changed"),
        handed_over=f.col("regained") > 0,
        partitions_changed=f.col("topics_changed") | (f.col("fresh") > 0) | (f.col("lost") > 0),
    )
    # If the log begins later than the group, and the group is empty now, its members have left.
    cause_of_unknown = f.array(f.when(f.col("members") == 0, LEFT).otherwise(UNKNOWN))
    has_owners = f.col("kind").isin(CLASSIC, CONSUMER)
    return (
        _without_conversions(with_pauses(changes, commits))
        .join(moved, on=["group", "source_offset"], how="left")
        .fillna(0, subset=["moved", "fresh", "regained", "lost"])
        .select(
            "group",
            "generation",
            "from_generation",
            "started_at",
            "ended_at",
            milliseconds_between(f.col("started_at"), f.col("ended_at")).alias("duration_ms"),
            f.when(is_known, causes).otherwise(cause_of_unknown).alias("causes"),
            f.when(is_known, sorted_member_ids(came)).alias("joined"),
            f.when(is_known, sorted_member_ids(went)).alias("left"),
            "members",
            f.when(is_known & has_owners, f.col("moved")).alias("moved_partitions"),
            "pause_ms",
            f.to_date(f.coalesce("ended_at", "started_at")).alias("date"),
        )
    )


def _without_conversions(changes: DataFrame) -> DataFrame:
    """Removes conversions: a group that changes its kind is deleted and written anew at the same moment, with the same
    members."""
    before = f.lag(f.struct("is_deletion", "kind", "ended_at")).over(log_order("group"))
    moment = f.coalesce("started_at", "ended_at")
    is_conversion = (
        f.col("before.is_deletion") & (f.col("before.kind") != f.col("kind")) & (f.col("before.ended_at") == moment)
    )
    return (
        changes.withColumn("before", before).where(~f.col("is_deletion") & ~null_as_false(is_conversion)).drop("before")
    )
