"""Streams the logs of a live cluster into the tables, each record once, however and whenever the job ends.

One query of Spark's structured streaming reads all logs in micro-batches. Before a micro-batch begins, its offsets are
written into the checkpoint; when it has ended, that is written too. So a job that was killed begins with the
micro-batch that it had not finished, with the same number and the same offsets. What the killed job left of it is
replaced, since each micro-batch has its own folders:

    <folder>/<table>/batch=<number>/date=<day>/….parquet
    <folder>/_checkpoint/

The file system only has to delete a folder and to write files, so this holds on HDFS and S3 too. Readers see `batch`
as one more column of a partitioned table and leave it out.

The cluster is read once for all tables: the rows of a micro-batch stay packed (`sources.arrow_packing`) until all
tables are written. Tables without new rows are not written, except in the first micro-batch after a start: it may
repeat one that was killed, and what that left must be replaced, by a file without rows if need be. So each table has a
file from the first micro-batch on, and other readers can find its columns.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, when
from pyspark.sql.streaming.query import StreamingQuery

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.wire.fetching import LogFetcher
from kcoord.pipeline.decode_job import SKIP_REASONS, NotRead, Summary, rejections
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.follow_folder import DECODED, clear, overwrite_batch, overwrite_with_empty, prepare
from kcoord.pipeline.schemas import REJECTED, SCANNED
from kcoord.pipeline.sources.arrow_packing import rows_of, unpack_table
from kcoord.pipeline.sources.connectors import PYTHON, Connector
from kcoord.pipeline.sources.live_plan import TopicSelection, check_connection, find_topics
from kcoord.pipeline.tables import CHECKPOINT, TablesFolder
from kcoord.pipeline.unreadable_topics import Warn, unreadable_reported

_NO_BATCH: Final = -1  # no micro-batch has begun
_POLL_INTERVAL: Final = 1  # seconds between checks whether to stop
_BATCH_GRACE: Final = 60  # seconds for the micro-batch in progress
_COMMIT_GRACE: Final = 5  # seconds for Spark to record it as done
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTotals:
    """How much one micro-batch of a stream, or all of them together, has read and written to the tables."""

    batches: int = 0
    size: int = 0
    """How many bytes were read."""
    summary: Summary = field(default_factory=lambda: _empty_summary())

    @property
    def records(self) -> int:
        """How many records were read."""
        return self.summary.records

    @property
    def rows(self) -> Mapping[str, int]:
        """How many rows were written to each table."""
        return self.summary.rows

    def plus(self, other: "WriteTotals") -> "WriteTotals":
        """Returns the totals of both added up."""
        return WriteTotals(
            batches=self.batches + other.batches,
            size=self.size + other.size,
            summary=Summary(
                records=self.records + other.records,
                rows=_sums(self.rows, other.rows),
                rejected=self.summary.rejected + other.summary.rejected,
                skipped=_sums(self.summary.skipped, other.summary.skipped),
                not_read=self.summary.not_read.plus(other.summary.not_read),
            ),
        )


def _empty_summary() -> Summary:
    return Summary(records=0, rows=dict.fromkeys(DECODED, 0), rejected=0, skipped=dict.fromkeys(SKIP_REASONS, 0))


def _sums(some: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count + others[name] for name, count in some.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSchedule:
    """How long a stream runs, until it is stopped or until it has read all that is there now, and how often it writes a
    micro-batch: every `interval` seconds."""

    interval: float = 10.0
    stops_at_end: bool = False


OnBatch = Callable[[WriteTotals], None]
"""Called with the totals of each micro-batch."""


def follow(
    spark: SparkSession,
    connection: Connection,
    out: TablesFolder,
    *,
    wanted: RowSelection,
    choice: TopicSelection,
    schedule: FollowSchedule,
    on_batch: OnBatch,
    warn: Warn,
    connector: Connector = PYTHON,
    replaces: bool = False,
) -> WriteTotals:
    """Streams the logs of a live cluster into the tables until SIGINT or SIGTERM, or to the end of what is there, and
    returns what was written. It continues from the folder's checkpoint; `replaces` deletes what the folder has first.

    Call it in the main thread and with the folder's lock held (`follow_folder.locked`). Raises BadFolder,
    NothingToRead, ConnectionError, StreamingQueryException.
    """
    trigger: dict[str, Any] = (
        {"availableNow": True} if schedule.stops_at_end else {"processingTime": f"{schedule.interval} seconds"}
    )
    rows = connector.stream(spark, connection, wanted, choice)
    if replaces:
        clear(out)
    prepare(spark, out)
    batch_writer = BatchWriter(out, on_batch)
    writer = rows.writeStream.foreachBatch(batch_writer.write).trigger(**trigger)
    with _stop_on_signals() as is_stopping, unreadable_reported(connection, choice, warn):
        query = writer.option("checkpointLocation", out.location(CHECKPOINT)).start()
        wait_for_end(query, is_stopping, batch_writer)
    return batch_writer.written


def check_cluster(connection: Connection) -> None:
    """Checks that the cluster can be read with this connection, so that an error does not first appear in a Spark
    worker."""
    check_connection(connection)
    with closing(LogFetcher(connection)) as fetching:
        find_topics(connection, fetching, TopicSelection(log_ends=False))


class BatchWriter:
    """Writes the micro-batches of a stream to the tables (for Spark's foreachBatch). `begun` and `done` are the numbers
    of the last batch that was begun and done, `written` the totals."""

    def __init__(self, out: TablesFolder, on_batch: OnBatch) -> None:
        self.written = WriteTotals()
        self.begun = _NO_BATCH
        self.done = _NO_BATCH
        self._out = out
        self._on_batch = on_batch

    def write(self, packed: DataFrame, batch: int) -> None:
        """Writes one micro-batch, given as packed rows (each holds many rows of one table as Arrow's bytes). Spark
        calls it again with the same number if it does not know whether the batch was done."""
        is_first = self.begun == _NO_BATCH
        self.begun = batch
        packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            brought = _totals_of(packed)
            for table in DECODED:
                if brought.rows[table]:
                    overwrite_batch(unpack_table(packed, table), self._out, table, batch=batch)
                elif is_first:
                    overwrite_with_empty(packed.sparkSession, self._out, table, batch=batch)
        finally:
            packed.unpersist()
        self.written = self.written.plus(brought)
        self._on_batch(brought)
        self.done = batch

    @property
    def is_writing(self) -> bool:
        """Whether a micro-batch was begun and is not done."""
        return self.begun > self.done


def _totals_of(packed: DataFrame) -> WriteTotals:
    """Counts the rows of a micro-batch on the driver: it has few packs, and a Spark job would take longer."""
    account = when(col("table") == SCANNED, col("content")).alias("account")
    packs = packed.select("table", "rows", account).collect()
    scanned = [row for pack in packs if pack.account is not None for row in rows_of(pack.account)]
    rows = {table: sum(pack.rows for pack in packs if pack.table == table) for table in DECODED}
    rejected, not_read = rejections(unpack_table(packed, REJECTED)) if rows[REJECTED] else (0, NotRead())
    return WriteTotals(
        batches=1,
        size=sum(row["bytes"] for row in scanned),
        summary=Summary(
            records=sum(row["records"] for row in scanned),
            rows=rows,
            rejected=rejected,
            skipped={name: sum(row[name] for row in scanned) for name in SKIP_REASONS},
            not_read=not_read,
        ),
    )


def wait_for_end(query: StreamingQuery, is_stopping: threading.Event, batch_writer: BatchWriter) -> None:
    """Waits until the streaming query ends, or until it is asked to stop and the micro-batch in progress has been
    written; then stops it."""
    while not is_stopping.is_set():
        if query.awaitTermination(_POLL_INTERVAL):
            return
    # The query ends anyway: a micro-batch that fails now is repeated at the next start.
    with suppress(StreamingQueryException):
        if batch_writer.is_writing and _ends_within(_BATCH_GRACE, query, lambda: not batch_writer.is_writing):
            _ends_within(_COMMIT_GRACE, query, lambda: not query.status["isTriggerActive"])
    query.stop()


def _ends_within(seconds: int, query: StreamingQuery, is_over: Callable[[], bool]) -> bool:
    """Waits until the condition holds or the query ends; returns False if the time ran out first."""
    for _ in range(0, seconds, _POLL_INTERVAL):
        if is_over() or query.awaitTermination(_POLL_INTERVAL):
            return True
    return is_over()


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yields an event that the first SIGINT or SIGTERM sets; the second one does what it always does."""
    is_stopping = threading.Event()
    before = {number: signal.getsignal(number) for number in _STOPPING}

    def request_stop(number: int, frame: object) -> None:
        is_stopping.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in _STOPPING:
        signal.signal(number, request_stop)
    try:
        yield is_stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
