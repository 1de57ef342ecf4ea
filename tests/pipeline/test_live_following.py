"""Micro-batches to tables: what is replaced, what is waited for, and that the counts add up."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcoord.admin.wire.fetching import Fetched
from kcoord.pipeline.decoding.fetched import LogRange, RangeDecoder
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.follow_folder import DECODED, prepare
from kcoord.pipeline.following import _BATCH_GRACE, BatchWriter, WriteTotals, wait_for_end
from kcoord.pipeline.schemas import TABLES
from kcoord.pipeline.sources.arrow_packing import PACKED, pack_rows
from kcoord.pipeline.tables import TablesFolder
from tests.support.pipeline.segment_files import batch, commit, in_a_row, tombstone

EVERYTHING = RowSelection()
BATCHES = in_a_row(batch(commit(1), commit(2)), batch(tombstone(), commit(3)))


def micro_batch(spark: SparkSession, *batches: bytes, wanted: RowSelection = EVERYTHING) -> DataFrame:
    decoder = RangeDecoder(LogRange(topic="__consumer_offsets", partition=0, start=0, end=4), wanted)
    fetched = Fetched(records=b"".join(batches), aborted=(), stable_end=4, is_crowded=False)
    rows = [*decoder.decode(fetched), *decoder.scanned()]
    packs = pa.Table.from_batches(list(pack_rows(rows)))
    return spark.createDataFrame([tuple(row.values()) for row in packs.to_pylist()], PACKED)


def test_a_micro_batch_that_is_done_again_leaves_nothing_of_before(spark: SparkSession, tmp_path: Path) -> None:
    out = TablesFolder(str(tmp_path / "tables"))
    prepare(spark, out)
    killed = BatchWriter(out, lambda _: None)
    killed.write(micro_batch(spark, *BATCHES), 7)
    assert out.read(spark, "commits").count() == 4
    again = BatchWriter(out, lambda _: None)
    again.write(micro_batch(spark), 7)  # compaction has removed the records meanwhile
    assert out.read(spark, "commits").isEmpty()
    assert out.read(spark, "scanned").count() == 1
    again.write(micro_batch(spark, *BATCHES), 8)
    assert out.read(spark, "commits").count() == 4


def test_what_was_written_adds_up_and_what_is_missing_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    out = TablesFolder(str(tmp_path / "tables"))
    reported: list[WriteTotals] = []
    writing = BatchWriter(out, reported.append)
    torn = bytearray(BATCHES[0])
    torn[-1] ^= 0xFF
    writing.write(micro_batch(spark, bytes(torn), BATCHES[1]), 0)
    writing.write(micro_batch(spark, *BATCHES, wanted=RowSelection(groups=("nobody",))), 1)
    total = writing.written.summary
    assert total.is_balanced
    assert (writing.written.batches, total.rows["commits"], total.skipped["left_out"]) == (2, 2, 4)
    assert total.records == total.rejected + 2 + 4
    lossy = micro_batch(spark, *BATCHES).where("table != 'commits'")
    writing.write(lossy, 2)
    assert not reported[-1].summary.is_balanced
    assert not writing.written.summary.is_balanced


def test_tables_that_never_had_a_row_can_be_read_by_others(spark: SparkSession, tmp_path: Path) -> None:
    out = TablesFolder(str(tmp_path / "tables"))
    prepare(spark, out)
    writing = BatchWriter(out, lambda _: None)
    writing.write(micro_batch(spark), 0)
    for table in DECODED:
        read = spark.read.parquet(str(tmp_path / "tables" / table))
        assert sorted(read.columns) == sorted(["batch", *TABLES[table].schema.names])
    torn = bytearray(BATCHES[0])
    torn[-1] ^= 0xFF
    writing.write(micro_batch(spark, bytes(torn), BATCHES[1]), 1)
    rejected = spark.read.parquet(str(tmp_path / "tables" / "rejected"))
    assert [row.batch for row in rejected.collect()] == [1]
    lost = writing.written.summary.not_read
    assert (lost.batches, lost.segments, lost.size, lost.records) == (1, 0, len(torn), 2)


class Query:
    """Imitates Spark's query for its waiter: each call of awaitTermination stands for a second, in which something may
    happen."""

    def __init__(self, *happens: Callable[[], Any]) -> None:
        self.happens = list(happens)
        self.is_stopped = False
        self.status = {"isTriggerActive": False}
        # After an idle time Spark reports the micro-batch that has not even begun.
        self.lastProgress = {"batchId": 10**6}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        if self.happens:
            self.happens.pop(0)()
        return False

    def stop(self) -> None:
        self.is_stopped = True


def writing_at(*, begun: int, done: int) -> BatchWriter:
    writing = BatchWriter(TablesFolder("nowhere"), lambda _: None)
    writing.begun, writing.done = begun, done
    return writing


def wait_for(query: Query, writing: BatchWriter) -> None:
    is_stopping = threading.Event()
    is_stopping.set()
    wait_for_end(cast(StreamingQuery, query), is_stopping, writing)
    assert query.is_stopped


def test_a_micro_batch_that_is_being_written_is_waited_for() -> None:
    writing = writing_at(begun=6, done=5)

    def finish() -> None:
        assert not query.is_stopped
        writing.done = 6

    query = Query(lambda: None, finish)
    wait_for(query, writing)
    assert not query.happens
    assert not writing.is_writing


def test_while_nothing_is_written_the_end_comes_at_once() -> None:
    query = Query(lambda: None)
    wait_for(query, writing_at(begun=6, done=6))
    assert query.happens, "it did not wait"


def test_a_micro_batch_that_never_ends_is_not_waited_for_for_ever() -> None:
    seconds: list[int] = []
    query = Query(*[lambda: seconds.append(1)] * 10_000)
    wait_for(query, writing_at(begun=0, done=-1))
    assert len(seconds) == _BATCH_GRACE
