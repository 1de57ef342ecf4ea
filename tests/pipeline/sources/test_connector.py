"""Spark's own Kafka connector, as far as it can be tested without its jars."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.connector import JARS, NoConnector, check_connector, hide_secrets, read_by_connector
from kcoord.pipeline.sources.live_source import LIVE, live_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY = Connection(bootstrap=("127.0.0.1:1",))
PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "pipeline.md"
HIDDEN = "spark.sql.redaction.options.regex"


def test_that_it_is_missing_is_known_without_a_cluster(spark: "SparkSession") -> None:
    with pytest.raises(NoConnector, match=r"org\.apache\.spark:spark-sql-kafka-0-10_2\.13:4\.2\.0, "):
        check_connector(spark)
    ranges = [LogRange(topic="__consumer_offsets", partition=0, start=0, end=9)]
    with pytest.raises(NoConnector):
        read_by_connector(spark, NOBODY, ranges, RowSelection())


@pytest.mark.parametrize("jar", JARS)
def test_the_jars_that_are_told_are_those_of_the_page(jar: str) -> None:
    name, _, version = jar.rpartition(":")
    assert f"| `{name}` | {version} |" in PAGE.read_text()


def test_a_log_without_groups_needs_no_connector(spark: "SparkSession") -> None:
    others = [LogRange(topic="orders", partition=0, start=0, end=9)]
    assert read_by_connector(spark, NOBODY, others, RowSelection()).columns == ["table", "rows", "content"]


def test_a_plan_shows_no_secret_that_is_an_option_of_a_source(spark: "SparkSession") -> None:
    spark.dataSource.register(live_source(NOBODY))
    secrets = {
        "kafka.ssl.keystore.key": "-----BEGIN KEY",
        "kafka.sasl.jaas.config": "a line of JAAS",
        "kafka.ssl.key.password": "hunter2",
    }
    before = spark.conf.get(HIDDEN)
    try:
        hide_secrets(spark)
        hide_secrets(spark)
        assert str(spark.conf.get(HIDDEN)).count("jaas") == 1
        frame = spark.readStream.format(LIVE).options(**secrets, **{"kafka.client.id": "anybody sees it"}).load()
        plan = frame._jdf.queryExecution().toString()
    finally:
        spark.conf.set(HIDDEN, before or "")
    assert "anybody sees it" in plan
    assert [value for value in secrets.values() if value in plan] == []
