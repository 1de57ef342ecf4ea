"""Records in their order, and intervals from one record to another.

All records of a group are in one partition of `__consumer_offsets`, so that their offsets are their order; times are
not, since many records have the same. A record that was read twice, from two copies of a segment, counts once.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as f

_POSITION: Final = ("source_partition", "source_offset")


def deduplicated(records: DataFrame) -> DataFrame:
    """Removes duplicates of records, which come from several copies of a segment, by group and position in the log."""
    return records.dropDuplicates(["group", *_POSITION])


def log_order(*keys: str) -> WindowSpec:
    """Returns the window of the records with the same keys, from the oldest on, in the order of the log."""
    return Window.partitionBy(*keys).orderBy(*_POSITION)


def up_to_current_row(window: WindowSpec) -> WindowSpec:
    """Returns the window that ends with the current row."""
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def null_as_false(condition: Column) -> Column:
    """Returns the condition, with false instead of null."""
    return f.coalesce(condition, f.lit(False))


def day_of(time: str) -> Column:
    """Returns the column `date` of a column of times."""
    return f.to_date(f.col(time)).alias("date")


def milliseconds_between(start: Column, end: Column) -> Column:
    """Returns a column with the milliseconds from start to end."""
    return (f.unix_millis(end) - f.unix_millis(start)).cast("long")


def snapshots(records: DataFrame) -> DataFrame:
    """Numbers records of which each replaces the one before of the same group and `line`: adds the columns `turn` (the
    number) and `next` (time, generation and offset of the one that replaces it).

    A classic group is one line: its record has all its members. In the newer kinds of groups each member is a line,
    with its id as `line`. The records need the columns `at` and `generation`.
    """
    line = log_order("group", "line")
    following = f.struct(f.col("at"), f.col("generation"), f.col("source_offset"))
    return records.withColumn("turn", f.row_number().over(line)).withColumn("next", f.lead(following).over(line))


def intervals(held: DataFrame, keys: Sequence[str], facts: Sequence[str]) -> DataFrame:
    """Returns from when to when a thing, such as a member or an owned partition, was there without a break: one row per
    interval. `held` has a row for each thing in each snapshot.

    A thing is identified by its keys; its facts are those of its last snapshot. A member that stays while its group
    changes its kind continues in another line at the same moment: that is no break.
    """
    thing = ["group", *keys]
    nth = f.dense_rank().over(Window.partitionBy("line", *thing).orderBy("turn"))
    unbroken = (
        held.withColumn("run", f.col("turn") - nth)
        .groupBy("line", *thing, "run")
        .agg(
            f.min("source_partition").alias("source_partition"),
            f.min("source_offset").alias("source_offset"),
            f.min_by(f.struct("at", "generation"), "turn").alias("start"),
            f.max_by("next", "turn").alias("end"),
            f.max_by(f.struct(*facts), "turn").alias("facts"),
        )
    )
    before = log_order(*thing)
    is_carried_on = (f.lag("line").over(before) != f.col("line")) & (f.lag("end.at").over(before) == f.col("start.at"))
    begins = f.when(is_carried_on, 0).otherwise(1)
    return (
        unbroken.withColumn("begins", begins)
        .withColumn("spell", f.sum("begins").over(up_to_current_row(before)))
        .groupBy(*thing, "spell")
        .agg(
            f.min("source_offset").alias("from_offset"),
            f.min_by("start", "source_offset").alias("start"),
            f.max_by("end", "source_offset").alias("end"),
            f.max_by("facts", "source_offset").alias("facts"),
        )
        .select(
            *thing,
            "facts.*",
            f.col("start.generation").alias("from_generation"),
            f.col("end.generation").alias("until_generation"),
            f.col("start.at").alias("from_at"),
            f.col("end.at").alias("until_at"),
            f.col("end").isNotNull().alias("has_ended"),
            "from_offset",
            f.col("end.source_offset").alias("until_offset"),
        )
    )
