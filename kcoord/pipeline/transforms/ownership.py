"""Who owned which partition from when to when, and who was in a group.

Classic groups: a generation's record contains what each member got; the next record of the group, be it a generation,
the empty group or its deletion, ends what it does not repeat. The newer kinds: each member's current assignment
contains it, until the next one, or its deletion. For streams groups the log has tasks instead of partitions: they are
left out.

A static member that comes back has a new member id: that is a new row, with the same instance id.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import day_of, intervals
from kcoord.pipeline.transforms.ownership_spans import (
    FACTS,
    classic_members,
    classic_partitions,
    modern_members,
    modern_partitions,
)


def ownership(generations: DataFrame, group_events: DataFrame, names: DataFrame) -> DataFrame:
    """Returns the table `ownership`: a row for each time in which a member owned a partition without a break. `names`
    comes from `topic_names`: a topic that it lacks is shown by its id."""
    held = classic_partitions(generations).unionByName(modern_partitions(group_events, names))
    return (
        intervals(held, ["member_id", "topic", "partition"], FACTS)
        .withColumnsRenamed({"from_at": "owned_from", "until_at": "owned_until"})
        .select(
            "group",
            "topic",
            "partition",
            "member_id",
            *FACTS,
            "from_generation",
            "until_generation",
            "owned_from",
            "owned_until",
            day_of("owned_from"),
        )
    )


def memberships(generations: DataFrame, group_events: DataFrame) -> DataFrame:
    """Returns a row for each stay of a member in its group, from `member_from` to `member_until`."""
    held = classic_members(generations).unionByName(modern_members(group_events))
    return intervals(held, ["member_id"], FACTS).select(
        "group",
        "member_id",
        *FACTS,
        f.col("from_at").alias("member_from"),
        f.col("until_at").alias("member_until"),
        "has_ended",
    )
