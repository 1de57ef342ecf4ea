"""The job behind `kcoord pipeline decode`: it writes the tables of a log.

The log is read twice. Commits are by far the most rows: they stream from the reader to Parquet. All other tables
together have few rows, so they are read as one union frame, which is cached and split into the tables. The ranges to
read are planned before, so both passes see the same log.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kcoord.pipeline.decoding.row_filter import FILTERED_OUT, RowSelection
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, LOG_ENDS, REJECTED, SCANNED, TABLES
from kcoord.pipeline.sources.segment_source import SEGMENTS, SegmentSource, ranges_text
from kcoord.pipeline.sources.union_frame import select_table
from kcoord.pipeline.tables import TablesFolder

NON_COMMIT_TABLES: Final = (GENERATIONS, GROUP_EVENTS, LOG_ENDS, REJECTED, SCANNED)
SKIP_REASONS: Final = ("control", "aborted", "open", "plain", FILTERED_OUT)
"""Why a record is not a row of a table: these are columns of `scanned`."""

OnStep = Callable[[str], None]
"""Called with the name of each step as it begins."""


class Input(Protocol):
    """A log of `__consumer_offsets` and other topics that the tables are decoded from: segment files, or a live
    cluster."""

    @property
    def size(self) -> int:
        """How many bytes of log are read, estimated."""

    def check(self, spark: SparkSession) -> None:
        """Raises an error if this Spark cannot read the log, as far as that is known before reading."""

    def frame(self, spark: SparkSession, tables: Sequence[str], wanted: RowSelection) -> DataFrame:
        """Returns the decoded rows of one table; of several tables a union frame, which has a struct column for each
        table. `wanted` selects groups and times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """Log segment files (ranges of them) as the log that the tables are decoded from."""

    ranges: Sequence[SegmentRange]

    @property
    def size(self) -> int:
        """How many bytes of segments are read."""
        return sum(each.end - each.start for each in self.ranges)

    def check(self, spark: SparkSession) -> None:
        """Accepts any Spark, since decoding segments needs nothing of it."""

    def frame(self, spark: SparkSession, tables: Sequence[str], wanted: RowSelection) -> DataFrame:
        """Returns the decoded rows of one table; of several tables a union frame, which has a struct column for each
        table. `wanted` selects groups and times."""
        spark.dataSource.register(SegmentSource)
        reader = spark.read.format(SEGMENTS).option("table", ",".join(tables)).option("wanted", wanted.to_json())
        return reader.option("ranges", ranges_text(self.ranges)).load()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """How much of the log could not be read when it was decoded (corrupt batches, ends of segments, deleted offsets),
    so that nobody knows what it held."""

    batches: int = 0
    segments: int = 0
    """Segments, or fetched parts of a log, that were not read to their ends."""
    gaps: int = 0
    """Ranges of offsets that a live cluster had deleted before they were read: that is no damage."""
    size: int = 0
    """How many bytes the unread batches and ends of segments have."""
    records: int = 0
    """How many records the unread batches hold according to their headers."""

    @property
    def is_damage(self) -> bool:
        """Whether something was corrupt, and not only deleted by the cluster."""
        return bool(self.batches or self.segments)

    def plus(self, other: "NotRead") -> "NotRead":
        """Returns the sum of both."""
        return NotRead(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How many records a decode job read, how many of them became rows of each table, and how many were rejected or
    skipped."""

    records: int
    rows: Mapping[str, int]
    """The number of rows written to each table."""
    rejected: int
    """Rejected records. `rejected` may have more rows: also for bytes that are no record, and one for the rest of a
    batch."""
    skipped: Mapping[str, int]
    """Records that became no row, by reason."""
    not_read: NotRead = NotRead()

    @property
    def is_balanced(self) -> bool:
        """Whether every record that was read is a row, was rejected, or was skipped for a known reason."""
        return self.records == self.decoded + self.rejected + sum(self.skipped.values())

    @property
    def decoded(self) -> int:
        """The number of records that became rows of `commits`, `generations` or `group_events`."""
        return sum(self.rows[table] for table in (COMMITS, GENERATIONS, GROUP_EVENTS))


def decode(spark: SparkSession, log: Input, out: TablesFolder, wanted: RowSelection, on_step: OnStep) -> Summary:
    """Decodes a log, writes the decoded tables to the folder, where they must not exist yet, and returns the counts of
    records."""
    on_step(COMMITS)
    out.write(log.frame(spark, [COMMITS], wanted), COMMITS)
    others = log.frame(spark, NON_COMMIT_TABLES, wanted).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for table in NON_COMMIT_TABLES:
            on_step(table)
            out.write(select_table(others, table), table)
    finally:
        others.unpersist()
    on_step("summary")
    return summary(spark, out)


def summary(spark: SparkSession, out: TablesFolder) -> Summary:
    """Counts the records and rows of the decoded tables in the folder. This runs Spark jobs."""
    scanned = out.read(spark, SCANNED)
    [sums] = scanned.select(*(f.sum(name).alias(name) for name in ("records", *SKIP_REASONS))).collect()
    rejected, not_read = rejections(out.read(spark, REJECTED))
    decoded = [name for name, table in TABLES.items() if table.is_decoded]
    return Summary(
        records=sums["records"] or 0,
        rows=_row_counts({table: out.read(spark, table) for table in decoded}),
        rejected=rejected,
        skipped={name: sums[name] or 0 for name in SKIP_REASONS},
        not_read=not_read,
    )


def _row_counts(frames: Mapping[str, DataFrame]) -> Mapping[str, int]:
    """Counts the rows of every frame in one Spark job."""
    counts = [frame.agg(f.lit(name).alias("table"), f.count("*").alias("rows")) for name, frame in frames.items()]
    return {row["table"]: row["rows"] for row in reduce(DataFrame.unionAll, counts).collect()}


def rejections(rejected: DataFrame) -> tuple[int, NotRead]:
    """Adds up the DataFrame `rejected`: returns the number of rejected records, and how much of the log could not be
    read. A row may be of several records, or of none."""
    is_batch, is_segment = f.col("what") == "batch", f.col("what") == "segment"
    has_size = f.col("bytes").isNotNull()
    record_count = f.col("records") + f.coalesce("claimed", f.lit(0))
    [sums] = rejected.agg(
        f.sum("records").alias("rejected"),
        f.count_if(is_batch).alias("batches"),
        f.count_if(is_segment & has_size).alias("segments"),
        f.count_if(is_segment & ~has_size).alias("gaps"),
        f.sum("bytes").alias("size"),
        f.sum(f.when(is_batch, record_count)).alias("records"),
    ).collect()
    counts = {each.name: sums[each.name] or 0 for each in fields(NotRead)}
    return sums["rejected"] or 0, NotRead(**counts)
