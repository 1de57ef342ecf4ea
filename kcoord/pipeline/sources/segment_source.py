"""Folders of segments as a data source of Spark, one task for each large range of a segment, or for many small ones.

    spark.dataSource.register(SegmentSource)
    spark.read.format("kcoord_segments").option("path", "/copies/logs").option("table", "commits").load()

| option   | is                                                                                               |
|----------|--------------------------------------------------------------------------------------------------|
| `path`   | a folder of partitions' folders, one of these, or one segment; each worker must see it there     |
| `table`  | the table whose rows are wanted, or several with commas between: then it is a union frame        |
| `wanted` | `RowSelection.to_json()`: some groups only, some time                                            |
| `ranges` | `ranges_text()`: the ranges that were planned before; then `path` is not searched                |

Ranges are planned once and given to all reads of a job, so that they see the same log although it may still grow.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kcoord.pipeline.decoding.decode import decode_range
from kcoord.pipeline.decoding.row_filter import RowSelection, filter_rows
from kcoord.pipeline.decoding.segments import LogEnd, Segment, SegmentRange, find_segments, pack_ranges, plan_ranges
from kcoord.pipeline.schemas import spark_schema
from kcoord.pipeline.sources.union_frame import to_union_rows, union_schema

SEGMENTS: Final = "kcoord_segments"


class SegmentSource(DataSource):
    """Spark's data source `kcoord_segments`, which decodes log segment files to rows of the tables."""

    @classmethod
    def name(cls) -> str:
        """Returns `kcoord_segments`, the source's name for Spark's `format()`."""
        return SEGMENTS

    def schema(self) -> StructType:
        """Returns the schema of the table in the option `table`, or of the union frame of several."""
        tables = _tables(self.options["table"])
        return spark_schema(tables[0]) if len(tables) == 1 else union_schema(tables)

    def reader(self, schema: StructType) -> "SegmentReader":
        """Returns Spark's reader of the segments that the options name."""
        return SegmentReader(dict(self.options))


class RangesPartition(InputPartition):
    """Spark's InputPartition for segment files: the ranges of segments that one Spark task reads."""

    def __init__(self, ranges: Sequence[SegmentRange]) -> None:
        self.ranges = ranges


class SegmentReader(DataSourceReader):
    """Spark's reader of log segment files: it distributes ranges of segments to tasks, and decodes them in each
    task."""

    def __init__(self, options: dict[str, str]) -> None:
        self._path = options.get("path", "")
        self._tables = _tables(options["table"])
        self._wanted = RowSelection.from_json(options["wanted"]) if "wanted" in options else RowSelection()
        self._ranges = options.get("ranges")

    def partitions(self) -> list[RangesPartition]:
        """Returns the ranges of segments that each Spark task reads."""
        planned = (
            plan_ranges(find_segments(Path(self._path).absolute()))
            if self._ranges is None
            else _ranges_of(self._ranges)
        )
        return [RangesPartition(each) for each in pack_ranges(planned)]

    def read(self, partition: RangesPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Decodes the ranges of one Spark task: yields rows of the table of the option `table`, or of the union frame
        of several."""
        for each in partition.ranges:
            for rows in filter_rows(self._wanted, decode_range(each)):
                if rows[0] in self._tables:
                    yield rows[1] if len(self._tables) == 1 else to_union_rows(rows, self._tables)


def ranges_text(ranges: Sequence[SegmentRange]) -> str:
    """Serializes ranges of segments for the option `ranges` of the data source."""
    return json.dumps([(_segment_facts(each.segment), each.start, each.end) for each in ranges])


def _segment_facts(segment: Segment) -> dict[str, Any]:
    return {**asdict(segment), "path": str(segment.path.absolute())}


def _ranges_of(text: str) -> list[SegmentRange]:
    return [SegmentRange(segment=_segment(facts), start=start, end=end) for facts, start, end in json.loads(text)]


def _segment(facts: dict[str, Any]) -> Segment:
    return Segment(**{**facts, "path": Path(facts["path"]), "log_end": LogEnd(*facts["log_end"])})


def _tables(text: str) -> list[str]:
    return text.split(",")
