"""The job that makes tables of a log: what `kcoord pipeline decode` calls.

The log is read twice. Commits are by far the most rows: they go from the reader to Parquet without a stop. All other
tables together are few rows and come side by side in one wide frame, which is kept and taken apart. The ranges that are
read were planned before, so both see the same log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kcoord.pipeline.decoding.row_filter import LEFT_OUT, Wanted
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, LOG_ENDS, REJECTED, SCANNED, TABLES
from kcoord.pipeline.sources.segment_source import SEGMENTS, SegmentSource, ranges_text
from kcoord.pipeline.sources.union_frame import narrowed
from kcoord.pipeline.tables import TablesFolder

BESIDE_COMMITS: Final = (GENERATIONS, GROUP_EVENTS, LOG_ENDS, REJECTED, SCANNED)
ASIDE: Final = ("control", "aborted", "open", "plain", LEFT_OUT)
"""Why a record is no row: columns of `scanned`."""

Say = Callable[[str], None]
"""Told what begins now."""


class Input(Protocol):
    """A log that tables are made of."""

    @property
    def size(self) -> int:
        """About how many bytes are read."""

    def check(self, spark: SparkSession) -> None:
        """Raises if this Spark cannot read it, as far as can be told before."""

    def frame(self, spark: SparkSession, tables: Sequence[str], wanted: Wanted) -> DataFrame:
        """The rows of one table, or of several in a wide frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    ranges: Sequence[SegmentRange]

    @property
    def size(self) -> int:
        return sum(each.end - each.start for each in self.ranges)

    def check(self, spark: SparkSession) -> None:
        """Any Spark can: the decoder is ours."""

    def frame(self, spark: SparkSession, tables: Sequence[str], wanted: Wanted) -> DataFrame:
        spark.dataSource.register(SegmentSource)
        reader = spark.read.format(SEGMENTS).option("table", ",".join(tables)).option("wanted", wanted.text())
        return reader.option("ranges", ranges_text(self.ranges)).load()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """Parts of the log that are there, or were, and of which nobody knows what is in them."""

    batches: int = 0
    segments: int = 0
    """Segments, or what was fetched of a log, that were not read to their ends."""
    gaps: int = 0
    """Offsets that a live cluster had no more when they were to be read: nothing is wrong with them."""
    size: int = 0
    """How many bytes the batches and the ends of segments have."""
    records: int = 0
    """How many records are in the batches, as far as their headers tell."""

    @property
    def is_damage(self) -> bool:
        return bool(self.batches or self.segments)

    def plus(self, other: "NotRead") -> "NotRead":
        return NotRead(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What came in and what became of it."""

    records: int
    rows: Mapping[str, int]
    """Of each table, as it was written."""
    rejected: int
    """Records, as `rejected` tells it: it has a row also for what is no record, and one for the rest of a batch."""
    aside: Mapping[str, int]
    """Records that are no rows, by the reason."""
    not_read: NotRead = NotRead()

    @property
    def is_balanced(self) -> bool:
        """Whether each record that came in is a row, or it is told why it is not."""
        return self.records == self.decoded + self.rejected + sum(self.aside.values())

    @property
    def decoded(self) -> int:
        """Records that are rows."""
        return sum(self.rows[table] for table in (COMMITS, GENERATIONS, GROUP_EVENTS))


def decode(spark: SparkSession, log: Input, out: TablesFolder, wanted: Wanted, say: Say) -> Summary:
    """Writes the decoded tables, which must not be there yet."""
    say(COMMITS)
    out.write(log.frame(spark, [COMMITS], wanted), COMMITS)
    beside = log.frame(spark, BESIDE_COMMITS, wanted).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for table in BESIDE_COMMITS:
            say(table)
            out.write(narrowed(beside, table), table)
    finally:
        beside.unpersist()
    say("summary")
    return summary(spark, out)


def summary(spark: SparkSession, out: TablesFolder) -> Summary:
    """Counted from what is in the folder."""
    scanned = out.read(spark, SCANNED)
    [sums] = scanned.select(*(f.sum(name).alias(name) for name in ("records", *ASIDE))).collect()
    rejected, not_read = rejections(out.read(spark, REJECTED))
    decoded = [name for name, table in TABLES.items() if table.is_decoded]
    return Summary(
        records=sums["records"] or 0,
        rows=_row_counts({table: out.read(spark, table) for table in decoded}),
        rejected=rejected,
        aside={name: sums[name] or 0 for name in ASIDE},
        not_read=not_read,
    )


def _row_counts(frames: Mapping[str, DataFrame]) -> Mapping[str, int]:
    """How many rows each frame has, by one job."""
    counts = [frame.agg(f.lit(name).alias("table"), f.count("*").alias("rows")) for name, frame in frames.items()]
    return {row["table"]: row["rows"] for row in reduce(DataFrame.unionAll, counts).collect()}


def rejections(rejected: DataFrame) -> tuple[int, NotRead]:
    """How many records were rejected (a row may be of several, or of what is none), and what was not read."""
    is_batch, is_segment = f.col("what") == "batch", f.col("what") == "segment"
    has_size = f.col("bytes").isNotNull()
    told = f.col("records") + f.coalesce("claimed", f.lit(0))
    [sums] = rejected.agg(
        f.sum("records").alias("rejected"),
        f.count_if(is_batch).alias("batches"),
        f.count_if(is_segment & has_size).alias("segments"),
        f.count_if(is_segment & ~has_size).alias("gaps"),
        f.sum("bytes").alias("size"),
        f.sum(f.when(is_batch, told)).alias("records"),
    ).collect()
    counts = {each.name: sums[each.name] or 0 for each in fields(NotRead)}
    return sums["rejected"] or 0, NotRead(**counts)
