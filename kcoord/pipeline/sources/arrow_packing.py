"""Packs rows of all tables into one frame: a row of it holds many rows of one table, as Arrow's bytes.

A log is read from a cluster once, and a second read would not even see the same log: compaction goes on. So the rows
are cached in the form that costs least (a few rows of some MiB, compressed), and each table is unpacked from that.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.schemas import TABLES, spark_schema
from kcoord.pipeline.sources.union_frame import to_union_rows, union_schema

PACKED: Final = StructType(
    [
        StructField("table", StringType(), nullable=False),
        StructField("rows", LongType(), nullable=False),
        StructField("content", BinaryType(), nullable=False),
    ]
)
_SCHEMA: Final = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
    ]
)
_PACK_ROWS: Final = 50_000
_PACK_BYTES: Final = 8 * 1024 * 1024
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def pack_rows(rows: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
    """Packs rows of several tables: yields batches of rows `table`, `rows` (their number), `content` (Arrow's bytes),
    each of which holds many rows of one table."""
    buffered: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for table, batch in rows:
        batches = buffered[table]
        batches.append(batch)
        if sum(map(len, batches)) >= _PACK_ROWS or sum(each.nbytes for each in batches) >= _PACK_BYTES:
            yield _pack(table, buffered.pop(table))
    for table, batches in buffered.items():
        yield _pack(table, batches)


def unpack_table(frame: DataFrame, table: str) -> DataFrame:
    """Returns the rows of one table from a DataFrame of packed rows, each of which holds many rows of one table as
    Arrow's bytes."""
    return frame.where(col("table") == table).select("content").mapInArrow(_unpack, spark_schema(table))


def unpack_tables(frame: DataFrame, tables: Sequence[str]) -> DataFrame:
    """Returns the rows of several tables from a DataFrame of packed rows (each holds many rows of one table as Arrow's
    bytes), as a union frame, which has a struct column for each table."""
    names = list(tables)

    def unpack(packs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for pack in packs:
            for table, content in zip(pack.column("table").to_pylist(), pack.column("content"), strict=True):
                yield from (to_union_rows((table, batch), names) for batch in _batches(content))

    wanted = frame.where(col("table").isin(names)).select("table", "content")
    return wanted.mapInArrow(unpack, union_schema(names))


def rows_of(content: bytes) -> list[dict[str, Any]]:
    """Returns the rows of a table that one packed row holds in its column `content`, as Arrow's bytes, as
    dictionaries."""
    with pa.ipc.open_stream(content) as stream:
        return [row for batch in stream for row in batch.to_pylist()]


def _pack(table: str, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, TABLES[table].schema, options=_COMPRESSED) as stream:
        for batch in batches:
            stream.write_batch(batch)
    row = {"table": table, "rows": sum(map(len, batches)), "content": written.getvalue().to_pybytes()}
    return pa.RecordBatch.from_pylist([row], _SCHEMA)


def _unpack(packs: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for pack in packs:
        for content in pack.column("content"):
            yield from _batches(content)


def _batches(content: pa.BinaryScalar) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(content.as_buffer()) as stream:
        yield from stream
