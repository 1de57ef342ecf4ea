"""How long a group committed nothing around a change: from its last commit before to the first one after it."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import log_order, milliseconds_between, up_to_current_row


def with_pauses(changes: DataFrame, commits: DataFrame) -> DataFrame:
    """Adds the column `pause_ms` to the changes of groups: how many milliseconds the group committed nothing around the
    change.

    Changes without a commit between them are one pause: it counts for the first one, so that pauses can be added up. A
    group without members does not pause: neither when it becomes empty nor when it begins again.
    """
    position = ["group", "source_partition", "source_offset"]
    change = f.struct(*changes.columns)
    marks = changes.select(*position, change.alias("change"), f.lit(None).cast("timestamp").alias("at"))
    committed = commits.where(~f.col("tombstone")).select(*position, f.col("appended_at").alias("at"))
    # Reduces all commits to the few stretches between changes, each with its first and its last commit.
    stretches = (
        marks.unionByName(committed, allowMissingColumns=True)
        .withColumn("stretch", f.count("change").over(up_to_current_row(log_order("group"))))
        .groupBy("group", "stretch")
        .agg(
            f.first("change", ignorenulls=True).alias("change"),
            f.min("at").alias("first_at"),
            f.max("at").alias("last_at"),
        )
    )
    in_turn = Window.partitionBy("group").orderBy("stretch")
    # Ordered backwards, since a window that reaches ahead to its end is read again for each row.
    ahead = Window.partitionBy("group", "emptied").orderBy(f.desc("stretch"))
    is_at_work = (f.col("change.members") > 0) & (f.coalesce("change.members_before", f.lit(1)) > 0)
    pause = milliseconds_between(f.col("before_at"), f.col("after_at"))
    return (
        stretches.withColumn("emptied", f.count_if(f.col("change.members") == 0).over(up_to_current_row(in_turn)))
        .withColumn("before_at", f.lag("last_at").over(in_turn))
        .withColumn("after_at", f.last("first_at", ignorenulls=True).over(up_to_current_row(ahead)))
        .where(f.col("change").isNotNull())
        .select("change.*", f.when(is_at_work, pause).alias("pause_ms"))
    )
