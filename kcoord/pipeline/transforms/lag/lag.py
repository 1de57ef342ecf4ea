"""The lag of each commit: the committed offset compared with the end of the log at that time.

Neither join is a range join, which would compare every commit with every batch. Instead commits and batches of a
partition are sorted together, by time to find where the log ended, by offset to find the first record that was not
read, and each commit takes the last batch before it.

An offset that is deleted, or that expires, ends what its commit began: it has a row, with no offset.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import day_of, milliseconds_between, up_to_current_row
from kcoord.pipeline.transforms.lag.log_growth import written_batches

_KEYS: Final = ("topic", "partition")
_BATCH, _COMMIT = 0, 1  # at the same time, or offset, the batch comes first


def lag(commits: DataFrame, log_ends: DataFrame) -> DataFrame:
    """Returns the table `lag`, which compares each committed offset with the end of the partition's log at that time: a
    row for each commit whose time is known, and for each tombstone that deletes one."""
    rows = _in_one(_committed(commits), written_batches(log_ends))
    by_time = up_to_current_row(Window.partitionBy(*_KEYS).orderBy("at", "kind", "last_offset"))
    by_offset = up_to_current_row(Window.partitionBy(*_KEYS).orderBy(f.desc("last_offset"), "kind"))
    lag_of = f.greatest(f.col("log_end") - f.col("committed"), f.lit(0).cast("long"))
    is_commit = f.col("committed").isNotNull()
    return (
        rows.withColumn("log_end", f.last("end_offset", ignorenulls=True).over(by_time))
        .withColumn("next_at", f.when(is_commit, f.last("batch", ignorenulls=True).over(by_offset)["last_at"]))
        .where(f.col("kind") == _COMMIT)
        .withColumn("lag", f.when(is_commit & f.col("log_end").isNotNull(), lag_of))
        .select(
            "group",
            "topic",
            "partition",
            "at",
            "committed",
            "log_end",
            "lag",
            _age_of_next().alias("lag_ms"),
            "next_at",
            day_of("at"),
        )
    )


def _committed(commits: DataFrame) -> DataFrame:
    """Returns commits and tombstones without duplicates, partitioned by topic and partition, so that later steps need
    no shuffle."""
    at = f.coalesce("committed_at", "appended_at")
    return (
        commits.where(at.isNotNull())
        .select(
            "group", *_KEYS, at.alias("at"), f.col("offset").alias("committed"), "source_partition", "source_offset"
        )
        .repartition(*_KEYS)
        .dropDuplicates([*_KEYS, "group", "source_partition", "source_offset"])
    )


def _in_one(committed: DataFrame, written: DataFrame) -> DataFrame:
    batch = f.struct("last_at")
    nothing = f.lit(None)
    return committed.select(
        *_KEYS,
        f.lit(_COMMIT).alias("kind"),
        "at",
        f.col("committed").alias("last_offset"),
        "group",
        "committed",
        nothing.cast("long").alias("end_offset"),
        nothing.cast("struct<last_at: timestamp>").alias("batch"),
    ).unionByName(
        written.select(
            *_KEYS,
            f.lit(_BATCH).alias("kind"),
            "at",
            (f.col("end_offset") - 1).alias("last_offset"),
            nothing.cast("string").alias("group"),
            nothing.cast("long").alias("committed"),
            "end_offset",
            batch.alias("batch"),
        )
    )


def _age_of_next() -> Column:
    """Returns the age of the next record, at least zero: a batch that was not written yet is not counted as lag."""
    age = milliseconds_between(f.col("next_at"), f.col("at"))
    return f.when(f.col("lag") == 0, f.lit(0).cast("long")).when(f.col("lag") > 0, age)
