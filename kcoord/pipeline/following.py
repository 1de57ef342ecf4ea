"""Following a live cluster: its logs as a stream into the tables, each record once, whatever ends the job and when.

One query of Spark's structured streaming reads all logs in micro-batches. Before a micro-batch begins, its offsets are
written into the checkpoint; when it is done, that is written too. So a job that was killed begins with the micro-batch
that it was at, with the same number and the same offsets. What the killed one left of it is replaced, since each
micro-batch has folders of its own:

    <folder>/<table>/batch=<number>/date=<day>/….parquet
    <folder>/_checkpoint/

That needs nothing of the file system but to delete a folder and to write files, so it is as true on HDFS and S3.
Readers see `batch` as one more column of a partitioned table and leave it out.

The cluster is read once for all tables: what a micro-batch brings is kept packed (`sources.packed`) until all are
written. Tables without new rows are not written, except of the first micro-batch after a start: it may be one that was
killed, and what that left is replaced, by a file without rows if need be. So each table has a file from the first
micro-batch on, and others than us can tell its columns.
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
from kcoord.admin.wire.fetching import Fetching
from kcoord.pipeline.decode_job import ASIDE, NotRead, Summary, rejections
from kcoord.pipeline.decoding.row_filter import Wanted
from kcoord.pipeline.follow_folder import DECODED, alone, check_path, clear, overwrite, overwrite_by_none, prepare
from kcoord.pipeline.schemas import REJECTED, SCANNED
from kcoord.pipeline.sources.arrow_packing import rows_of, unpacked
from kcoord.pipeline.sources.connectors import PYTHON, Connector
from kcoord.pipeline.sources.live_plan import Choice, check_connection, find_topics
from kcoord.pipeline.tables import CHECKPOINT, TablesFolder
from kcoord.pipeline.unreadable_topics import Warn, unread_told

_NONE: Final = -1  # the number of no micro-batch
_LOOK: Final = 1  # seconds between looks whether to stop
_GRACE: Final = 60  # seconds for the micro-batch that is being written
_MOMENT: Final = 5  # seconds for writing down that it is done
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one micro-batch, or all of them together, brought into the tables."""

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
    """Until it is stopped, with so many seconds from one micro-batch to the next; or until all is read that is there
    now."""

    interval: float = 10.0
    ends_at_the_end: bool = False


Say = Callable[[Written], None]
"""Told what a micro-batch brought."""


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
    """Until SIGINT or SIGTERM, or to the end of what is there. Goes on where the folder's checkpoint says.

    Called in the main thread. Raises BadFolder, NothingToRead, ConnectionError, StreamingQueryException.
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
    """The same for who has seen to it that no other job follows into the folder. What is in it may be replaced."""
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
    """What is wrong from the start is told here, not by a worker of Spark's."""
    check_connection(connection)
    with closing(Fetching(connection)) as fetching:
        find_topics(connection, fetching, Choice(log_ends=False))


class Writing:
    """Micro-batches to tables."""

    def __init__(self, out: TablesFolder, say: Say) -> None:
        self.written = Written()
        self.begun = _NONE
        self.done = _NONE
        self._out = out
        self._say = say

    def write(self, packed: DataFrame, batch: int) -> None:
        """What Spark calls with each micro-batch, again with the same number if it does not know that it was done."""
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
    """Counted here: it is a few packs, and no other job is as quick."""
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
    """Until the query ends, or it is told to; then the micro-batch that is being written is waited for."""
    while not is_told.is_set():
        if query.awaitTermination(_LOOK):
            return
    # What fails from now on was to end anyway, and is done again the next time.
    with suppress(StreamingQueryException):
        if writing.is_at_it and _ends_within(_GRACE, query, lambda: not writing.is_at_it):
            _ends_within(_MOMENT, query, lambda: not query.status["isTriggerActive"])
    query.stop()


def _ends_within(seconds: int, query: StreamingQuery, is_over: Callable[[], bool]) -> bool:
    """Whether it was over before so long; or the query was."""
    for _ in range(0, seconds, _LOOK):
        if is_over() or query.awaitTermination(_LOOK):
            return True
    return is_over()


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """Set by the signals that stop a program; the second time they do what they always do."""
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
