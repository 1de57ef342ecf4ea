"""A live Kafka read by Spark's own connector: the tables are those of kcoord's source, and the secrets stay hidden."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.times import utc_text
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.sources.live_plan import TopicSelection, plan_logs
from kcoord.testing.kafka import KafkaCluster
from tests.integration.pipeline.spark_connector import ConnectorSpark, Done, connector_jars
from tests.integration.pipeline.test_follow import rows_in
from tests.integration.pipeline.test_live import read
from tests.integration.support.secure_kafka import PASSWORDS, SecureKafka
from tests.support.pipeline.expected_rows import Rows
from tests.support.pipeline.live_logs import LogScene, comparable

pytestmark = pytest.mark.timeout(900)  # a Spark is started, and its jars may have to be fetched

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
CONNECTOR: Final = ("--connector", "spark-sql-kafka")
OFFSETS: Final = "__consumer_offsets"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all that Spark writes in addition to the tables."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark_with_connector(folder: Path) -> Iterator[ConnectorSpark]:
    with ConnectorSpark(folder, {"spark.jars": connector_jars()}) as running:
        yield running


@pytest.fixture(scope="module")
def scene(spark_with_connector: ConnectorSpark) -> Iterator[LogScene]:
    """A real Kafka with every kind of record, and one that cannot be decoded; Spark starts meanwhile."""
    with KafkaCluster(properties=SETTINGS) as kafka:
        scene = LogScene(kafka.bootstrap)
        scene.make("orders", records=60)
        for group in ("billing", "shipping"):
            scene.commit(group, "orders", times=20)
        scene.join("classic", "orders")
        scene.join("modern", "orders", **{"group.protocol": "consumer"})
        scene.pay("paid", "orders")
        scene.pay("unpaid", "orders", is_aborted=True)
        scene.commit("gone", "orders")
        scene.forget("gone")
        # Brokers let only their own admin client write there, and recognise it by its client id.
        with Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "__admin_client"}) as producer:
            producer.produce(OFFSETS, key=b"\x00\x63", value=b"?", partition=1)
            assert producer.flush(60) == 0
        yield scene


@pytest.fixture(scope="module")
def by_kcoord(scene: LogScene, spark_with_connector: ConnectorSpark, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The tables as the default source reads them."""
    out = tmp_path_factory.mktemp("by-kcoord") / "tables"
    ended_well(spark_with_connector.kcoord("pipeline", "decode", "-b", scene.bootstrap, "--out", str(out)))
    return rows_in(out)


def by_default_source(scene: LogScene, wanted: RowSelection) -> Rows:
    """Returns what the default source reads now, without Spark."""
    connection = Connection(bootstrap=(scene.bootstrap,))
    return read(connection, plan_logs(connection, wanted, TopicSelection()), wanted)


def ended_well(done: Done) -> None:
    assert done.exit_code == 0, f"{done.error}\n{done.stderr}"


def assert_same_tables(ours: Rows, theirs: Rows) -> None:
    """Compares the tables except for what the connector does not return: transactions, and batches."""
    for table in ("generations", "group_events", "log_ends", "rejected"):
        assert comparable(ours, table) == comparable(theirs, table), table
    assert not any(row["transactional"] for row in ours["commits"])
    commits = {"commits": [row | {"transactional": False} for row in theirs["commits"]]}
    assert comparable(ours, "commits") == comparable(commits, "commits")
    for name in ("commits", "generations", "group_events", "rejected", "plain"):
        assert sum(row[name] for row in ours["scanned"]) == sum(row[name] for row in theirs["scanned"]), name


def test_both_ways_give_the_same_tables_and_the_connector_leaves_nothing_in_the_log(
    scene: LogScene, by_kcoord: Rows, spark_with_connector: ConnectorSpark, tmp_path: Path
) -> None:
    out = tmp_path / "tables"
    done = spark_with_connector.kcoord("pipeline", "decode", "-b", scene.bootstrap, "--out", str(out), *CONNECTOR)
    ended_well(done)
    rows = rows_in(out)
    assert_same_tables(rows, by_kcoord)
    assert all(rows[table] for table in rows), "every table has rows"
    assert {row["group"] for row in by_kcoord["commits"] if row["transactional"]} == {"paid"}
    assert sum(row["aborted"] for row in by_kcoord["scanned"]) == 3
    assert "`transactional` is false in all rows" in done.stderr
    after = by_default_source(scene, RowSelection())
    assert {row["group"] for table in ("commits", "generations") for row in after[table]} == {
        *("billing", "shipping", "classic", "paid", "gone")
    }, "no group of Spark's"


def test_a_cluster_is_followed_by_the_connector_from_a_time_on_and_each_record_is_there_once(
    scene: LogScene, by_kcoord: Rows, spark_with_connector: ConnectorSpark, tmp_path: Path
) -> None:
    out = tmp_path / "tables"
    times = sorted(row["appended_at"] for row in by_kcoord["commits"])
    wanted = RowSelection(since_ms=_ms(times[len(times) // 2]), groups=("shipping", "classic", "modern", "later"))
    narrowed = ["--since", utc_text(wanted.since_ms or 0), *(f"--group={group}" for group in wanted.groups)]
    follow = ["pipeline", "decode", "-b", scene.bootstrap, "--out", str(out), "--follow", "--catch-up", *narrowed]
    for commits_of_later in (0, 3):
        ended_well(spark_with_connector.kcoord(*follow, *CONNECTOR))
        rows = rows_in(out)
        assert_same_tables(rows, by_default_source(scene, wanted))
        assert len([row for row in rows["commits"] if row["group"] == "later"]) == commits_of_later
        assert 0 < len(rows["commits"]) < len(by_kcoord["commits"])
        scene.commit("later", "orders")
    other_way = spark_with_connector.kcoord(*follow)
    assert other_way.exit_code == 1
    assert "begun with --connector spark-sql-kafka, and this is without --connector: say the same" in other_way.error


def test_it_logs_in_as_the_properties_say_and_no_file_of_sparks_holds_the_password_or_the_key(
    secure_kafka: SecureKafka, spark_with_connector: ConnectorSpark, folder: Path, tmp_path: Path
) -> None:
    open_door = LogScene(secure_kafka.bootstrap("CLIENT"))
    open_door.make("connected")
    open_door.commit("connected", "connected")
    for kind, more in (("mtls-jks", []), ("scram", ["--follow", "--catch-up"])):
        where = ["--command-config", str(secure_kafka.properties(kind)), "--out", str(tmp_path / kind)]
        narrowed = ["--no-log-ends", "--group", "connected"]
        ended_well(spark_with_connector.kcoord("pipeline", "decode", *where, *narrowed, *more, *CONNECTOR))
        assert {row["group"] for row in rows_in(tmp_path / kind)["commits"]} == {"connected"}, kind
    files = [path for root in (folder, tmp_path) for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if b"SparkListenerJobStart" in path.read_bytes()], "Spark's log of events"
    assert r"ice=\s" in PASSWORDS["alice"], "which is so in whatever way it is quoted"
    for secret in (b"ice=\\", b"PRIVATE KEY"):
        assert [path for path in files if secret in path.read_bytes()] == []


def _ms(at: datetime) -> int:
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
