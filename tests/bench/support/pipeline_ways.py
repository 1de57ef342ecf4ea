"""Other ways than the job's to read commits with Spark, for its benchmark.

`ScanSource` reads segments as the job does, finds batches and checks checksums, and decodes nothing.

`raw_parquet` and `decoded_by_sql` are what one would do with a Parquet file of keys and values: expressions of Spark
SQL on binary columns, all of which run in Spark's own generated code. They can read only what is known to be in the
file: keys of version 1, values of version 4 whose metadata is shorter than 127 bytes and whose only tag is the id.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kcoord.pipeline.decoding.locate import locate_records
from kcoord.pipeline.decoding.records import times
from kcoord.pipeline.decoding.scan import DecompressedBatches, Piece, decompressed_parts, read_pieces
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.pipeline.schemas import COMMITS, TABLES
from kcoord.pipeline.sources.segment_source import RangesPartition, SegmentReader, ranges_text

_RAW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("source_partition", pa.int32()),
        ("source_segment", pa.int64()),
        ("source_offset", pa.int64()),
        ("appended_at", pa.timestamp("us", tz="UTC")),
    ]
)


class ScanSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kcoord_scan"

    def schema(self) -> str:
        return "records bigint"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ScanReader({**self.options, "table": COMMITS})


class _ScanReader(SegmentReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        found = (piece for each in partition.ranges for piece in read_pieces(each))
        pieces = [each for each in found if isinstance(each, Piece)]
        records = sum(int(piece.headers["record_count"].sum()) for piece in pieces)
        yield pa.RecordBatch.from_arrays([pa.array([records], pa.int64())], names=["records"])


def scanned(spark: SparkSession, ranges: list[SegmentRange]) -> DataFrame:
    spark.dataSource.register(ScanSource)
    return spark.read.format("kcoord_scan").option("ranges", ranges_text(ranges)).load()


def raw_parquet(ranges: list[SegmentRange], folder: Path) -> None:
    """Writes keys and values of the segments, a file for each range."""
    folder.mkdir()
    for number, each in enumerate(ranges):
        with pq.ParquetWriter(folder / f"part-{number}.parquet", _RAW) as writer:
            for piece in read_pieces(each):
                assert isinstance(piece, Piece)
                for part in decompressed_parts(piece, np.ones(len(piece.headers), np.bool_)):
                    assert isinstance(part, DecompressedBatches)
                    writer.write_batch(_raw_rows(each, part))


def _raw_rows(segment_range: SegmentRange, part: DecompressedBatches) -> pa.RecordBatch:
    headers = part.headers
    found, _ = locate_records(part.buffer, part.starts, part.ends, headers["record_count"].astype(np.int64))
    segment, of = segment_range.segment, found.batches
    values = part.buffer.spans(found.value_starts, found.value_ends)
    columns = [
        part.buffer.spans(found.key_starts, found.key_ends),
        pc.if_else(pa.array(found.has_value), values, pa.scalar(None, pa.binary())),
        pa.repeat(pa.scalar(segment.partition, pa.int32()), len(of)),
        pa.repeat(pa.scalar(segment.base_offset, pa.int64()), len(of)),
        pa.array(headers["base_offset"].astype(np.int64)[of] + found.offset_deltas),
        times(headers["base_timestamp"].astype(np.int64)[of] + found.timestamp_deltas),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_RAW)


def decoded_by_sql(spark: SparkSession, folder: Path) -> DataFrame:
    """Returns the columns of `commits`."""
    raw = spark.read.schema("""key binary, value binary, source_partition int, source_segment bigint,
        source_offset bigint, appended_at timestamp""").parquet(str(folder))
    group = _number("key", "3", 2)
    topic = _number("key", f"5 + {group}", 2)
    metadata = f"({_number('value', '15', 1)} - 1)"
    columns = {
        "group": f"cast(substring(key, 5, {group}) as string)",
        "topic": f"cast(substring(key, 7 + {group}, {topic}) as string)",
        "partition": _number("key", "-4", 4),
        "offset": _number("value", "3", 8),
        "epoch": f"cast(nullif({_number('value', '11', 4, 'bigint')}, 4294967295) as int)",
        "metadata": f"cast(substring(value, 16, {metadata}) as string)",
        "committed_at": f"timestamp_millis({_number('value', f'16 + {metadata}', 8)})",
        "expires_at": "cast(null as timestamp)",
        "tombstone": "value is null",
        "topic_id": f"rtrim('=', translate(base64(substring(value, 27 + {metadata}, 16)), '+/', '-_'))",
        "version": f"cast({_number('value', '1', 2)} as smallint)",
        "transactional": "false",
        "source_partition": "source_partition",
        "source_segment": "source_segment",
        "source_offset": "source_offset",
        "appended_at": "appended_at",
        "date": "cast(appended_at as date)",
    }
    assert list(columns) == TABLES[COMMITS].schema.names
    return raw.selectExpr(*(f"{expression} as `{name}`" for name, expression in columns.items()))


def _number(column: str, at: str, size: int, kind: str = "") -> str:
    """Returns the expression of the big-endian number there. Spark has no function for it."""
    kind = kind or ("bigint" if size == 8 else "int")
    return f"cast(conv(hex(substring({column}, {at}, {size})), 16, 10) as {kind})"
