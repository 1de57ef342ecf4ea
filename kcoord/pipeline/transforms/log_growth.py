"""When the log of a partition grew, and where it ended then.

The log's own times are those that producers gave. Kafka lets them lie in the past as far as they like, and an hour in
the future: so a batch is taken to be written when the latest of those up to it says.

A topic that was deleted and made anew begins at 0 again, and nothing in `log_ends` tells one from the other but that
batches overlap. There offsets are no order: each batch is taken to be written when it says itself.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kcoord.pipeline.transforms.history import surely, until_now

_KEYS: Final = ("topic", "partition")


def written(log_ends: DataFrame, until: datetime | None = None) -> DataFrame:
    """The batches, once, with the time `at` which they were written; of before `until`."""
    by_offset = Window.partitionBy(*_KEYS).orderBy("base_offset", "end_offset")
    overlaps = surely(f.lag("end_offset").over(by_offset) > f.col("base_offset"))
    is_anew = f.max("overlaps").over(Window.partitionBy(*_KEYS))
    made = (
        log_ends.dropDuplicates([*_KEYS, "base_offset", "end_offset", "last_at"])
        .withColumn("overlaps", overlaps)
        .withColumn("so_far", f.max("last_at").over(until_now(by_offset)))
        .withColumn("at", f.when(is_anew, f.col("last_at")).otherwise(f.col("so_far")))
        .select(*_KEYS, "base_offset", "end_offset", "last_at", "at")
    )
    return made if until is None else made.where(f.col("at") < f.lit(until))


def last_end() -> Column:
    """Of several batches the end of the one that was written last: not the largest, if the topic was made anew."""
    return f.max_by("end_offset", f.struct("at", "end_offset"))
