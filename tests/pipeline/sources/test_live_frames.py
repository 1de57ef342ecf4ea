"""A live cluster through Spark: the tables of a job are what was read, and no plan shows credentials."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from kcoord.admin.connecting.connection import Connection
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Security
from kcoord.pipeline.decode_job import decode
from kcoord.pipeline.decoding.fetched import LogRange
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.live_input import LiveInput
from kcoord.pipeline.sources.live_log import read_ranges
from kcoord.pipeline.sources.live_partitions import ranges_text
from kcoord.pipeline.sources.live_plan import ReadPlan, TopicSelection, pack_tasks, plan_logs
from kcoord.pipeline.sources.live_source import LIVE, live_source
from kcoord.pipeline.tables import TablesFolder
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.pipeline.expected_rows import Row

WORD = "hunter2-hunter2"
EVERYTHING = RowSelection()


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with EmbeddedCluster(topics={"orders": 3}, settings={"offsets.topic.num.partitions": "2"}) as cluster:
        for group in ("billing", "shipping", "audit"):
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
            for number in range(20):
                offsets = [TopicPartition("orders", index, number + index) for index in range(3)]
                consumer.commit(offsets=offsets, asynchronous=False)
            consumer.close()
        yield Connection(bootstrap=(cluster.bootstrap,))


def rows_of(connection: Connection, plan: ReadPlan, table: str) -> list[Row]:
    return [
        row
        for task in pack_tasks(plan.ranges)
        for name, batch in read_ranges(connection, task, EVERYTHING)
        if name == table
        for row in batch.to_pylist()
    ]


def same(frame: DataFrame, rows: list[Row]) -> bool:
    """Compares the rows without times, which Spark returns in the zone of this machine."""
    names = [name for name, kind in frame.dtypes if kind != "timestamp"]
    ours = sorted(str(row.asDict(recursive=True)) for row in frame.select(names).collect())
    return ours == sorted(str({name: row[name] for name in names}) for row in rows)


def test_the_tables_of_a_job_are_what_was_read(spark: SparkSession, connection: Connection, tmp_path: Path) -> None:
    plan = plan_logs(connection, EVERYTHING, TopicSelection())
    out = TablesFolder(str(tmp_path / "tables"))
    summary = decode(spark, LiveInput(connection, plan), out, EVERYTHING, lambda _: None)
    assert summary.is_balanced
    assert summary.rows["commits"] == 180
    for table in ("commits", "scanned", "log_ends"):
        assert same(out.read(spark, table), rows_of(connection, plan, table)), table


def test_a_source_gives_one_table_too_and_only_what_is_wanted(spark: SparkSession, connection: Connection) -> None:
    plan = plan_logs(connection, EVERYTHING, TopicSelection(log_ends=False))
    wanted = RowSelection(groups=("audit",))
    spark.dataSource.register(live_source(connection))
    reader = spark.read.format(LIVE).option("ranges", ranges_text(plan.ranges)).option("wanted", wanted.to_json())
    commits = reader.option("table", "commits").load()
    assert same(commits, [row for row in rows_of(connection, plan, "commits") if row["group"] == "audit"])
    [scanned] = reader.option("table", "scanned").load().groupBy().sum("commits", "left_out").collect()
    assert tuple(scanned) == (60, 120)


def test_no_plan_shows_how_to_log_in(spark: SparkSession) -> None:
    security = Security(sasl=Plain(username="bob", password=Secret(WORD)))
    connection = Connection(bootstrap=("127.0.0.1:1",), security=security)
    plan = ReadPlan(cluster_id="c", ranges=(LogRange(topic="__consumer_offsets", partition=0, start=0, end=9),))
    frame = LiveInput(connection, plan).frame(spark, ["commits"], EVERYTHING)
    spark.dataSource.register(live_source(connection))
    stream = spark.readStream.format(LIVE).load()
    in_numbers = ", ".join(map(str, WORD.encode()))  # as the JVM shows bytes
    for shown in (frame, stream):
        executed = shown._jdf.queryExecution()
        plan_text = (
            executed.toString() + executed.stringWithStats() if shown is frame else executed.logical().toString()
        )
        assert LIVE in plan_text
        assert WORD not in plan_text
        assert in_numbers not in plan_text
