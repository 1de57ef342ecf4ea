"""When the log of a partition grew, and where it ended then.

Timestamps in the log come from producers. Kafka accepts times arbitrarily far in the past, and up to an hour in the
future: so a batch is taken to be written at the latest timestamp up to it.

A topic that was deleted and recreated begins at 0 again, and `log_ends` does not show it except by batches that
overlap. Then offsets are no order: each batch is taken to be written at its own timestamp.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import null_as_false, up_to_current_row

_KEYS: Final = ("topic", "partition")


def written_batches(log_ends: DataFrame, until: datetime | None = None) -> DataFrame:
    """Returns the rows of the table `log_ends`, a batch each, without duplicates and with a column `at`, the time at
    which the batch was written; only those before `until`."""
    by_offset = Window.partitionBy(*_KEYS).orderBy("base_offset", "end_offset")
    overlaps = null_as_false(f.lag("end_offset").over(by_offset) > f.col("base_offset"))
    is_anew = f.max("overlaps").over(Window.partitionBy(*_KEYS))
    made = (
        log_ends.dropDuplicates([*_KEYS, "base_offset", "end_offset", "last_at"])
        .withColumn("overlaps", overlaps)
        .withColumn("so_far", f.max("last_at").over(up_to_current_row(by_offset)))
        .withColumn("at", f.when(is_anew, f.col("last_at")).otherwise(f.col("so_far")))
        .select(*_KEYS, "base_offset", "end_offset", "last_at", "at")
    )
    return made if until is None else made.where(f.col("at") < f.lit(until))


def last_end() -> Column:
    """Returns the aggregate of a partition's log end: the end offset of the batch that was written last, which is not
    the largest one if the topic was recreated."""
    return f.max_by("end_offset", f.struct("at", "end_offset"))
