"""A live cluster as a log that tables are made of: read once, cached packed, and unpacked table by table."""

from collections.abc import Sequence
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kcoord.admin.connecting.connection import Connection
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.arrow_packing import unpack_table, unpack_tables
from kcoord.pipeline.sources.connectors import PYTHON, Connector
from kcoord.pipeline.sources.live_plan import ReadPlan

_RECORD_BYTES: Final = 100


class LiveInput:
    """The logs of a live cluster, in ranges planned before, as the log that the tables are decoded from. They are read
    when the first rows are needed, and cached as long as the session lives."""

    def __init__(self, connection: Connection, plan: ReadPlan, connector: Connector = PYTHON) -> None:
        self.plan = plan
        self._connection = connection
        self._connector = connector
        self._packed: dict[RowSelection, DataFrame] = {}

    @property
    def size(self) -> int:
        """How many bytes are read, estimated by the typical size of a record: a cluster reports only offsets."""
        return self.plan.offsets * _RECORD_BYTES

    def check(self, spark: SparkSession) -> None:
        """Raises an error if this Spark cannot read the cluster, for lack of the connector."""
        self._connector.check(spark)

    def frame(self, spark: SparkSession, tables: Sequence[str], wanted: RowSelection) -> DataFrame:
        """Returns the decoded rows of one table; of several tables a union frame, which has a struct column for each
        table. `wanted` selects groups and times."""
        if wanted not in self._packed:
            rows = self._connector.read(spark, self._connection, self.plan.ranges, wanted)
            self._packed[wanted] = rows.persist(StorageLevel.MEMORY_AND_DISK)
        packed = self._packed[wanted]
        return unpack_table(packed, tables[0]) if len(tables) == 1 else unpack_tables(packed, tables)
