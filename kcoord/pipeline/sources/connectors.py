"""The ways to read a live cluster, by the names that `--connector` has for them. The rows are the same.

| name              | is                                                              | needs                          |
|-------------------|-----------------------------------------------------------------|--------------------------------|
| `python`          | our own client in a Python Data Source, which returns Arrow     | nothing more                   |
| `spark-sql-kafka` | Spark's connector: Kafka's Java client, rows of keys and values | its jars on Spark's class path |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kcoord.admin.connecting.connection import Connection
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.connector import check_connector, read_by_connector, stream_by_connector
from kcoord.pipeline.sources.connector_options import kafka_options
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.sources.live_source import read_live, stream_live


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """One way to read a live cluster into Spark: our own Python source, or Spark's Kafka connector."""

    check_connection: Callable[[Connection], object]
    """Raises NotForConnector; called before Spark and the cluster are used."""
    check: Callable[[SparkSession], None]
    """Raises NoConnector."""
    read: Callable[[SparkSession, Connection, Sequence[LogRange], RowSelection], DataFrame]
    """Returns the packed rows of the planned ranges."""
    stream: Callable[[SparkSession, Connection, RowSelection, TopicSelection], DataFrame]
    """Returns the packed rows of what there is and will be."""
    checkpointed_choice: Callable[[TopicSelection], TopicSelection]
    """Returns the choice of topics as its checkpoint stores it."""


PYTHON: Final = Connector(
    check_connection=lambda _: None,
    check=lambda _: None,
    read=read_live,
    stream=stream_live,
    checkpointed_choice=lambda choice: choice,
)
SPARK_SQL_KAFKA: Final = Connector(
    check_connection=kafka_options,
    check=check_connector,
    read=read_by_connector,
    stream=stream_by_connector,
    checkpointed_choice=TopicSelection.without_groups,
)
CONNECTORS: Final[Mapping[str, Connector]] = {"python": PYTHON, "spark-sql-kafka": SPARK_SQL_KAFKA}
