"""Spark's own Kafka connector (spark-sql-kafka): it reads `__consumer_offsets`, and our decoder makes rows of it.

    __consumer_offsets ─ spark.read.format("kafka") ─ key, value, offset, … ─ mapInArrow(decode_consumed) ─┐
    other topics       ─ the Python source (live_source) ──────────────────────────────────────────────────┴─ packed

Both branches give packed rows of all tables, so all later steps are the same. Other topics are read for the ends of
their logs, batch by batch, and the connector returns no batches.

How it is used, and why:

| the connector                                 | so                                                                  |
|-----------------------------------------------|---------------------------------------------------------------------|
| looks up offsets without internal topics      | it is configured to find offsets by a consumer (`_BY_CONSUMER`)     |
| joins a group if it subscribes to a topic     | partitions are assigned: a group would be written into what is read |
| can read on over records that are gone        | it is configured to fail (`failOnDataLoss`): no loss goes unseen    |
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_millis

from kcoord.admin.connecting.connection import Connection
from kcoord.exceptions import LocalFailure
from kcoord.pipeline.decoding.consumed_messages import CONSUMED_COLUMNS, decode_consumed
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import OFFSETS_TOPIC
from kcoord.pipeline.sources.arrow_packing import PACKED, pack_rows
from kcoord.pipeline.sources.connector_options import SECRET_OPTIONS, kafka_options
from kcoord.pipeline.sources.live_plan import RANGE_OFFSETS, TopicSelection, group_starts
from kcoord.pipeline.sources.live_source import read_live, stream_live

JARS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.0",
)
"""The jars of the connector; Spark has the rest. Not all versions of the second were published, so each has its own."""
_FORMAT: Final = "kafka"
_BY_CONSUMER: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_HIDDEN: Final = "spark.sql.redaction.options.regex"
_MISSING: Final = "Failed to find data source: kafka"


class NoConnector(LocalFailure, RuntimeError):
    """Raised when this Spark does not have its Kafka connector (spark-sql-kafka)."""

    def __init__(self) -> None:
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
        super().__init__(
            f"this Spark has no Kafka connector: add the jars {', '.join(JARS)} (--conf spark.jars=…), or, where it can"
            f" be found, the package of this version (--conf spark.jars.packages={package}); or say --connector python"
        )


def check_connector(spark: SparkSession) -> None:
    """Raises NoConnector if this Spark does not have its Kafka connector (spark-sql-kafka)."""
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "assign": _assignment_json([0])}  # load() connects to no broker
    with _connector_needed():
        spark.read.format(_FORMAT).options(**nobody).load()


def read_by_connector(
    spark: SparkSession, connection: Connection, ranges: Sequence[LogRange], wanted: RowSelection
) -> DataFrame:
    """Reads these ranges of offsets by Spark's Kafka connector, and returns the decoded rows of all tables as a
    DataFrame of packed rows, each of which holds many rows of one table as Arrow's bytes. `wanted` selects groups and
    times. Raises NoConnector, NotForConnector."""
    of_groups = [each for each in ranges if each.holds_offsets]
    others = [each for each in ranges if not each.holds_offsets]
    ends_of_logs = read_live(spark, connection, others, wanted)
    if not of_groups:
        return ends_of_logs
    partitions = {each.partition for each in of_groups}
    starts = {index: min(each.start for each in of_groups if each.partition == index) for index in partitions}
    ends = {index: max(each.end for each in of_groups if each.partition == index) for index in partitions}
    reader = spark.read.format(_FORMAT).options(**_options(spark, connection, starts))
    with _connector_needed():
        rows = decode_and_pack(reader.option("endingOffsets", _offsets_json(ends)).load(), wanted)
    return rows.union(ends_of_logs) if others else rows


def stream_by_connector(
    spark: SparkSession, connection: Connection, wanted: RowSelection, choice: TopicSelection
) -> DataFrame:
    """Reads the logs by Spark's Kafka connector as a stream, and returns the decoded rows of all tables as a streaming
    DataFrame of packed rows, each of which holds many rows of one table as Arrow's bytes. Raises NoConnector,
    NotForConnector, and as `group_starts`.

    The Python source is always part of the union, and last: its entry in the checkpoint identifies the cluster of the
    tables, and the request.
    """
    starts = group_starts(connection, wanted)
    reader = spark.readStream.format(_FORMAT).options(**_options(spark, connection, starts))
    with _connector_needed():
        rows = decode_and_pack(reader.load(), wanted)
    return rows.union(stream_live(spark, connection, wanted, choice.without_groups()))


def decode_and_pack(records: DataFrame, wanted: RowSelection) -> DataFrame:
    """Decodes a DataFrame of consumed records of `__consumer_offsets`, which has the connector's columns, to a
    DataFrame of packed rows, each of which holds many rows of one table as Arrow's bytes."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack_rows(decode_consumed(batches, wanted))

    columns = records.withColumn("timestamp", unix_millis("timestamp")).select(*CONSUMED_COLUMNS)
    return columns.mapInArrow(decode, PACKED)


def hide_secrets(spark: SparkSession) -> None:
    """Makes Spark redact options with passwords and keys in plans, which it shows in errors and in logs."""
    hidden = spark.conf.get(_HIDDEN) or ""
    if SECRET_OPTIONS not in hidden:
        spark.conf.set(_HIDDEN, f"{hidden}|{SECRET_OPTIONS}".removeprefix("|"))


def _options(spark: SparkSession, connection: Connection, starts: Mapping[int, int]) -> dict[str, str]:
    spark.conf.set(_BY_CONSUMER, "true")
    hide_secrets(spark)
    return {
        **kafka_options(connection),
        "assign": _assignment_json(sorted(starts)),
        "startingOffsets": _offsets_json(starts),
        "failOnDataLoss": "true",
        "maxRecordsPerPartition": str(RANGE_OFFSETS),
    }


def _assignment_json(partitions: Sequence[int]) -> str:
    return json.dumps({OFFSETS_TOPIC: list(partitions)})


def _offsets_json(offsets: Mapping[int, int]) -> str:
    return json.dumps({OFFSETS_TOPIC: {str(index): offset for index, offset in sorted(offsets.items())}})


@contextmanager
def _connector_needed() -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        if _MISSING not in str(error):
            raise
        raise NoConnector from None
