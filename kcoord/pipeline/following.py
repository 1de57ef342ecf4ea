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
from kcoord.pipeline.decode_job import ASIDE, NotRead, Summary, rejections
from kcoord.pipeline.decoding.row_filter import Wanted
from kcoord.pipeline.follow_folder import DECODED, alone, check_path, clear, overwrite, overwrite_by_none, prepare
from kcoord.pipeline.schemas import REJECTED, SCANNED
from kcoord.pipeline.sources.arrow_packing import rows_of, unpacked
from kcoord.pipeline.sources.connectors import PYTHON, Connector
from kcoord.pipeline.sources.live_plan import Choice, check_connection, find_topics
from kcoord.pipeline.tables import CHECKPOINT, TablesFolder
from kcoord.pipeline.unreadable_topics import Warn, unread_told

_NONE: Final = -1  # no micro-batch has begun
_LOOK: Final = 1  # seconds between checks whether to stop
_GRACE: Final = 60  # seconds for the micro-batch in progress
_MOMENT: Final = 5  # seconds for Spark to record it as done
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one micro-batch, or all of them together, wrote to the tables."""

    batches: int = 0
    size: int = 0
    """How many bytes were read."""
    summary: Summary = field(default_factory=lambda: _nothing())

    @property
    def records(self) -> int:
        return self.summary.records

    @property
    def rows(self) -> Mapping[str, int]:
        return self.summary.rows

    def plus(self, other: "Written") -> "Written":
        return Written(
            batches=self.batches + other.batches,
            size=self.size + other.size,
            summary=Summary(
                records=self.records + other.records,
                rows=_sums(self.rows, other.rows),
                rejected=self.summary.rejected + other.summary.rejected,
                aside=_sums(self.summary.aside, other.summary.aside),
                not_read=self.summary.not_read.plus(other.summary.not_read),
            ),
        )


def _nothing() -> Summary:
    return Summary(records=0, rows=dict.fromkeys(DECODED, 0), rejected=0, aside=dict.fromkeys(ASIDE, 0))


def _sums(some: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count + others[name] for name, count in some.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a stream runs, and how often it writes: until it is stopped, or until all that is there now has been
    read."""

    interval: float = 10.0
    ends_at_the_end: bool = False


Say = Callable[[Written], None]
"""Called with the totals of each micro-batch."""


def follow(
    spark: SparkSession,
    connection: Connection,
    out: TablesFolder,
    *,
    wanted: Wanted,
    choice: Choice,
    pace: Pace,
    say: Say,
    warn: Warn,
    connector: Connector = PYTHON,
) -> Written:
    """Streams until SIGINT or SIGTERM, or to the end of what is there. Continues from the folder's checkpoint.

    Call it in the main thread. Raises BadFolder, NothingToRead, ConnectionError, StreamingQueryException.
    """
    check_path(out)
    check_cluster(connection)
    with alone(out):
        return follow_alone(
            spark,
            connection,
            out,
            wanted=wanted,
            choice=choice,
            pace=pace,
            say=say,
            warn=warn,
            connector=connector,
        )


def follow_alone(
    spark: SparkSession,
    connection: Connection,
    out: TablesFolder,
    *,
    wanted: Wanted,
    choice: Choice,
    pace: Pace,
    say: Say,
    warn: Warn,
    connector: Connector = PYTHON,
    replaces: bool = False,
) -> Written:
    """Streams like `follow`, for a caller that holds the lock of the folder. The content of the folder may be
    replaced."""
    trigger: dict[str, Any] = (
        {"availableNow": True} if pace.ends_at_the_end else {"processingTime": f"{pace.interval} seconds"}
    )
    rows = connector.stream(spark, connection, wanted, choice)
    if replaces:
        clear(out)
    prepare(spark, out)
    writing = Writing(out, say)
    writer = rows.writeStream.foreachBatch(writing.write).trigger(**trigger)
    with _until_told() as is_told, unread_told(connection, choice, warn):
        query = writer.option("checkpointLocation", out.location(CHECKPOINT)).start()
        wait_for_end(query, is_told, writing)
    return writing.written


def check_cluster(connection: Connection) -> None:
    """Checks the connection here, so that an error does not first appear in a Spark worker."""
    check_connection(connection)
    with closing(LogFetcher(connection)) as fetching:
        find_topics(connection, fetching, Choice(log_ends=False))


class Writing:
    """Writes micro-batches to the tables."""

    def __init__(self, out: TablesFolder, say: Say) -> None:
        self.written = Written()
        self.begun = _NONE
        self.done = _NONE
        self._out = out
        self._say = say

    def write(self, packed: DataFrame, batch: int) -> None:
        """Writes one micro-batch. Spark calls it again with the same number if it does not know whether the batch was
        done."""
        is_first = self.begun == _NONE
        self.begun = batch
        packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            brought = _brought(packed)
            for table in DECODED:
                if brought.rows[table]:
                    overwrite(unpacked(packed, table), self._out, table, batch=batch)
                elif is_first:
                    overwrite_by_none(packed.sparkSession, self._out, table, batch=batch)
        finally:
            packed.unpersist()
        self.written = self.written.plus(brought)
        self._say(brought)
        self.done = batch

    @property
    def is_at_it(self) -> bool:
        return self.begun > self.done


def _brought(packed: DataFrame) -> Written:
    """Counts the rows of a micro-batch on the driver: it has few packs, and a Spark job would take longer."""
    account = when(col("table") == SCANNED, col("content")).alias("account")
    packs = packed.select("table", "rows", account).collect()
    scanned = [row for pack in packs if pack.account is not None for row in rows_of(pack.account)]
    rows = {table: sum(pack.rows for pack in packs if pack.table == table) for table in DECODED}
    rejected, not_read = rejections(unpacked(packed, REJECTED)) if rows[REJECTED] else (0, NotRead())
    return Written(
        batches=1,
        size=sum(row["bytes"] for row in scanned),
        summary=Summary(
            records=sum(row["records"] for row in scanned),
            rows=rows,
            rejected=rejected,
            aside={name: sum(row[name] for row in scanned) for name in ASIDE},
            not_read=not_read,
        ),
    )


def wait_for_end(query: StreamingQuery, is_told: threading.Event, writing: Writing) -> None:
    """Waits until the query ends, or until it is asked to stop and the micro-batch in progress has been written."""
    while not is_told.is_set():
        if query.awaitTermination(_LOOK):
            return
    # The query ends anyway: a micro-batch that fails now is repeated at the next start.
    with suppress(StreamingQueryException):
        if writing.is_at_it and _ends_within(_GRACE, query, lambda: not writing.is_at_it):
            _ends_within(_MOMENT, query, lambda: not query.status["isTriggerActive"])
    query.stop()


def _ends_within(seconds: int, query: StreamingQuery, is_over: Callable[[], bool]) -> bool:
    """Waits until the condition holds or the query ends; returns False if the time ran out first."""
    for _ in range(0, seconds, _LOOK):
        if is_over() or query.awaitTermination(_LOOK):
            return True
    return is_over()


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """Yields an event that the first SIGINT or SIGTERM sets; the second one does what it always does."""
    is_told = threading.Event()
    before = {number: signal.getsignal(number) for number in _STOPPING}

    def tell(number: int, frame: object) -> None:
        is_told.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in _STOPPING:
        signal.signal(number, tell)
    try:
        yield is_told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
