"""A live cluster as a data source of Spark: ranges of its logs that were planned before, or a stream of them.

    read_live(spark, connection, plan.ranges, wanted)
    stream_live(spark, connection, wanted, choice)

| option   | is                                                                                                  |
|----------|-----------------------------------------------------------------------------------------------------|
| `ranges` | `ranges_text()` of what `live_plan` planned; not for a stream                                       |
| `choice` | `TopicSelection.to_json()`: whose log ends are wanted; for a stream                                 |
| `wanted` | `RowSelection.to_json()`: some groups only, some time                                               |
| `table`  | the table whose rows are wanted; without it rows of all tables come packed (`sources.arrow_packing`) |

The connection is no option: see `sources.pickled_connection`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from kcoord.admin.connecting.connection import Connection
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import spark_schema
from kcoord.pipeline.sources.arrow_packing import PACKED, pack_rows
from kcoord.pipeline.sources.live_log import read_ranges
from kcoord.pipeline.sources.live_partitions import RangesPartition, ranges_of, ranges_text
from kcoord.pipeline.sources.live_plan import TopicSelection, pack_tasks
from kcoord.pipeline.sources.live_stream import LiveStreamReader
from kcoord.pipeline.sources.pickled_connection import PickledConnection, pickle_connection

LIVE: Final = "kcoord_live"


def read_live(
    spark: SparkSession, connection: Connection, ranges: Sequence[LogRange], wanted: RowSelection
) -> DataFrame:
    """Reads these ranges of offsets from a live cluster by our Python source, and returns the decoded rows of all
    tables as a DataFrame of packed rows, each of which holds many rows of one table as Arrow's bytes. `wanted` selects
    groups and times."""
    spark.dataSource.register(live_source(connection))
    reader = spark.read.format(LIVE).option("ranges", ranges_text(ranges))
    return reader.option("wanted", wanted.to_json()).load()


def stream_live(spark: SparkSession, connection: Connection, wanted: RowSelection, choice: TopicSelection) -> DataFrame:
    """Reads the chosen topics of a live cluster by our Python source as a stream, and returns the decoded rows of all
    tables as a streaming DataFrame of packed rows, each of which holds many rows of one table as Arrow's bytes.
    `wanted` selects groups and times."""
    spark.dataSource.register(live_source(connection))
    return spark.readStream.format(LIVE).option("wanted", wanted.to_json()).option("choice", choice.to_json()).load()


def live_source(connection: Connection) -> type[DataSource]:
    """Returns the class of the Spark data source `kcoord_live` for this cluster; registering another one replaces
    it."""
    pickled = pickle_connection(connection)

    class LiveSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return LIVE

        def schema(self) -> StructType:
            return spark_schema(self.options["table"]) if "table" in self.options else PACKED

        def reader(self, schema: StructType) -> LiveReader:
            return LiveReader(pickled, dict(self.options))

        def streamReader(self, schema: StructType) -> LiveStreamReader:  # noqa: N802 - Spark's name
            return LiveStreamReader(
                pickled, _wanted(self.options), TopicSelection.from_json(self.options.get("choice"))
            )

    return LiveSource


class LiveReader(DataSourceReader):
    """Spark's reader of a live cluster in a batch job: it distributes the planned ranges of offsets to tasks, and
    fetches and decodes them in each task."""

    def __init__(self, connection: PickledConnection, options: dict[str, str]) -> None:
        self._connection = connection
        self._ranges = options["ranges"]
        self._wanted = _wanted(options)
        self._table = options.get("table")

    def partitions(self) -> list[RangesPartition]:
        """Returns the ranges of offsets that each Spark task reads."""
        return [RangesPartition(each) for each in pack_tasks(ranges_of(self._ranges))]

    def read(self, partition: RangesPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Fetches and decodes the ranges of one Spark task: yields rows of the table of the option `table`, or without
        it packed rows, each of which holds many rows of one table as Arrow's bytes."""
        rows = read_ranges(self._connection.unpickle(), partition.ranges, self._wanted)
        if self._table is None:
            yield from pack_rows(rows)
        else:
            yield from (batch for table, batch in rows if table == self._table)


def _wanted(options: Mapping[str, str]) -> RowSelection:
    return RowSelection.from_json(options["wanted"]) if "wanted" in options else RowSelection()
