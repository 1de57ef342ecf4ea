"""Small tables for Spark, with only the columns that a test is about."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.report.frames import Frames
from kcoord.pipeline.schemas import TABLES, spark_schema
from kcoord.pipeline.transforms.ownership import memberships

START: Final = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)

_ALWAYS: Final[dict[str, Any]] = {
    "group": "g",
    "topic": "orders",
    "partition": 0,
    "member_id": "m",
    "state": "Stable",
    "tombstone": False,
    "transactional": False,
    "record_type": 5,
    "record_name": "ConsumerGroupMemberMetadata",
    "key": "{}",
    "reason": "odd",
    "what": "record",
    "at": START,
    **dict.fromkeys(("source_partition", "records", "start", "end", "bytes", "batches", "commits", "generations"), 0),
    **dict.fromkeys(("base_offset", "end_offset"), 0),
    **dict.fromkeys(("group_events", "rejected", "control", "aborted", "open", "plain", "left_out"), 0),
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def table(spark: SparkSession, name: str, *rows: dict[str, Any]) -> DataFrame:
    """Builds a table; columns that a row lacks are null, or an allowed default. Rows are in the order of the log."""
    schema = TABLES[name].schema
    defaults = {each.name: None if each.nullable else _ALWAYS[each.name] for each in schema}
    full = []
    for number, row in enumerate(rows):
        assert row.keys() <= defaults.keys(), f"{name} has no {row.keys() - defaults.keys()}"
        numbered = {"source_offset": number} if "source_offset" in defaults else {}
        full.append(tuple({**defaults, **numbered, **row}.values()))
    return spark.createDataFrame(full, spark_schema(name))


def frames(spark: SparkSession, **tables: list[dict[str, Any]]) -> Frames:
    """Returns all tables of a report; those that are not named are empty."""
    made = {name: table(spark, name, *tables.get(name, [])) for name in TABLES}
    return Frames(**made, memberships=memberships(made["generations"], made["group_events"]))
