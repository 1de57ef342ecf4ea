"""A live cluster read as data: its rows are those of its files, whatever happens to the cluster meanwhile."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from kcoord.admin.connecting.connection import Connection, ConnectionOptions, resolve_connection
from kcoord.admin.wire import fetching
from kcoord.pipeline.decoding.decode import Rows as Batch
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import TABLES
from kcoord.pipeline.sources.live_log import read_ranges
from kcoord.pipeline.sources.live_plan import (
    NothingToRead,
    ReadPlan,
    TopicSelection,
    find_topics,
    pack_tasks,
    plan_logs,
)
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from tests.integration.support.secure_kafka import SecureKafka
from tests.support.pipeline.expected_rows import Rows
from tests.support.pipeline.live_logs import LogScene, assert_same_rows, comparable, done, of_segments

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "log.cleaner.min.compaction.lag.ms": "3600000",
}
NOBODY_CAME = TopicSelection(log_ends=False)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(properties=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def scene(kafka: KafkaCluster) -> LogScene:
    """A cluster with every kind of record."""
    scene = LogScene(kafka.bootstrap)
    scene.make("orders", records=60)
    scene.make("unread", records=5)
    for group in ("billing", "shipping", "audit"):
        scene.commit(group, "orders", times=40)
    scene.join("classic", "orders")
    scene.join("modern", "orders", **{"group.protocol": "consumer"})
    scene.pay("paid", "orders")
    scene.pay("unpaid", "orders", is_aborted=True)
    scene.commit("gone", "orders")
    scene.forget("gone")
    return scene


def connection_to(bootstrap: str) -> Connection:
    return Connection(bootstrap=tuple(bootstrap.split(",")))


def gathered(batches: Iterator[Batch]) -> Rows:
    rows: Rows = {name: [] for name in TABLES}
    for table, batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(TABLES[table].schema)
        rows[table] += batch.to_pylist()
    return rows


def read(connection: Connection, plan: ReadPlan, wanted: RowSelection | None = None) -> Rows:
    tasks = pack_tasks(plan.ranges)
    return gathered(rows for task in tasks for rows in read_ranges(connection, task, wanted or RowSelection()))


def read_all(connection: Connection, choice: TopicSelection | None = None) -> Rows:
    return read(connection, plan_logs(connection, RowSelection(), choice or TopicSelection()))


def test_a_live_cluster_gives_the_rows_of_its_segments(scene: LogScene, kafka: KafkaCluster, tmp_path: Path) -> None:
    rows = read_all(connection_to(kafka.bootstrap))
    theirs = of_segments(kafka.brokers[0].data_dir, tmp_path, {"orders"})
    assert_same_rows(rows, theirs)
    assert all(rows[table] for table in ("commits", "generations", "group_events", "log_ends"))
    assert not rows["rejected"]
    assert {row["topic"] for row in rows["log_ends"]} == {"orders"}, "nobody has committed to the other"


def test_commits_of_an_aborted_transaction_do_not_appear(scene: LogScene, kafka: KafkaCluster) -> None:
    rows = read_all(connection_to(kafka.bootstrap), NOBODY_CAME)
    groups = {row["group"] for row in rows["commits"] if row["transactional"]}
    assert groups == {"paid"}
    assert sum(row["aborted"] for row in rows["scanned"]) == 3
    assert not rows["log_ends"]


def test_small_fetches_give_the_same_rows(
    scene: LogScene, kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_all(connection_to(kafka.bootstrap))
    monkeypatch.setattr(fetching, "PARTITION_BYTES", 300)
    monkeypatch.setattr(fetching, "RESPONSE_BYTES", 500)
    assert_same_rows(read_all(connection_to(kafka.bootstrap)), whole)


def test_topics_may_be_named_or_left_out(scene: LogScene, kafka: KafkaCluster) -> None:
    connection = connection_to(kafka.bootstrap)
    plan = plan_logs(connection, RowSelection(), TopicSelection(topics=("unread", "missing")))
    assert {each.topic for each in plan.ranges} == {"__consumer_offsets", "unread"}
    assert [str(refusal) for refusal in plan.refused] == ["topic missing: UNKNOWN_TOPIC_OR_PARTITION"]
    assert {each.topic for each in plan_logs(connection, RowSelection(), NOBODY_CAME).ranges} == {"__consumer_offsets"}


def test_a_time_to_begin_at_spares_what_was_before_it(scene: LogScene, kafka: KafkaCluster) -> None:
    connection = connection_to(kafka.bootstrap)
    whole = read_all(connection)
    times = sorted(row["appended_at"] for row in whole["commits"])
    since, until = _ms(times[len(times) // 2]), _ms(times[-5])
    wanted = RowSelection(since_ms=since, until_ms=until)
    plan = plan_logs(connection, wanted, TopicSelection())
    rows = read(connection, plan, wanted)
    assert comparable(rows, "commits") == comparable(
        {"commits": [row for row in whole["commits"] if since <= _ms(row["appended_at"]) < until]},
        "commits",
    )
    assert sum(row["records"] for row in rows["scanned"]) < sum(row["records"] for row in whole["scanned"])
    # The end is also known for topics that were written only before.
    ends = {(row["topic"], row["partition"]): row["end_offset"] for row in rows["log_ends"]}
    assert ends == {("orders", index): 20 for index in range(3)}


def test_a_broker_may_restart_in_the_middle(
    scene: LogScene, kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connection_to(kafka.bootstrap)
    plan = plan_logs(connection, RowSelection(), TopicSelection())
    whole = read(connection, plan)
    monkeypatch.setattr(fetching, "PARTITION_BYTES", 1000)

    def with_a_restart() -> Iterator[Batch]:
        [task] = pack_tasks(plan.ranges)
        for number, rows in enumerate(read_ranges(connection, task, RowSelection())):
            yield rows
            if number == 3:
                kafka.restart(1)
                restarted.append(number)

    restarted: list[int] = []
    rows = gathered(with_a_restart())
    assert restarted
    assert_same_rows(rows, whole)
    assert not rows["rejected"]


def test_what_is_deleted_from_a_log_meanwhile_is_a_gap_and_the_rest_is_read(
    scene: LogScene, kafka: KafkaCluster
) -> None:
    scene.make("shrinking", records=90)
    connection = connection_to(kafka.bootstrap)
    plan = plan_logs(connection, RowSelection(), TopicSelection(topics=("shrinking",)))
    done(scene.admin.delete_records([KafkaPartition("shrinking", 1, 25)]))
    rows = read(connection, plan)
    [gap] = rows["rejected"]
    assert (gap["what"], gap["records"]) == ("segment", 0)
    assert gap["reason"] == "shrinking-1: a gap: the offsets 0 to 24 are gone"
    assert max(row["end_offset"] for row in rows["log_ends"] if row["partition"] == 1) == 30


def test_a_topic_that_is_deleted_meanwhile_is_a_gap(scene: LogScene, kafka: KafkaCluster) -> None:
    scene.make("leaving", records=9)
    connection = connection_to(kafka.bootstrap)
    plan = plan_logs(connection, RowSelection(), TopicSelection(topics=("leaving",)))
    done(scene.admin.delete_topics(["leaving"]))
    [task] = pack_tasks(plan.ranges)
    rows = gathered(read_ranges(connection, task, RowSelection(), retry_timeout=2.0))
    assert sorted(row["reason"] for row in rows["rejected"]) == [
        f"leaving-{index}: a gap: the offsets 0 to 2 are gone: the topic is not there any more" for index in range(3)
    ]
    assert len(rows["commits"]) > 100, "what is still there is read"


@pytest.mark.parametrize("kind", ["mtls-p12", "scram", "plain", "oauth"])
def test_every_login_of_ours_reads_logs(kind: str, secure_kafka: SecureKafka) -> None:
    scene = LogScene(secure_kafka.bootstrap("CLIENT"))
    scene.make(f"read-by-{kind}")
    scene.commit("logged-in", f"read-by-{kind}")
    given = ConnectionOptions(command_config=secure_kafka.properties(kind))
    rows = read_all(resolve_connection(given, {}), NOBODY_CAME)
    assert "logged-in" in {row["group"] for row in rows["commits"]}


def test_our_own_cluster_gives_the_rows_of_its_journal(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": "3"}
    with EmbeddedCluster(topics={"orders": 3}, settings=settings, data_dir=tmp_path / "data") as cluster:
        scene = LogScene(cluster.bootstrap)
        scene.produce("orders", records=60)
        for group in ("billing", "shipping"):
            scene.commit(group, "orders", times=20)
        scene.join("classic", "orders")
        scene.forget("shipping")
        rows = read_all(connection_to(cluster.bootstrap))
    assert_same_rows(rows, of_segments(tmp_path / "data", tmp_path / "copy", {"orders"}))
    assert all(rows[table] for table in ("commits", "generations", "log_ends"))
    assert not rows["rejected"]


def test_kafkas_own_topics_are_read_only_if_they_are_named() -> None:
    internal = "__transaction_state"
    with EmbeddedCluster(topics={"orders": 3, internal: 3}) as cluster:
        connection = connection_to(cluster.bootstrap)
        for topic in ("orders", internal):
            LogScene(cluster.bootstrap).commit("watcher", topic)
        with closing(fetching.LogFetcher(connection)) as logs:
            found = [
                find_topics(connection, logs, choice)[0]
                for choice in (TopicSelection(), TopicSelection(topics=(internal,)))
            ]
    read = [[topic.name for topic in topics] for topics in found]
    assert read == [["__consumer_offsets", "orders"], ["__consumer_offsets", internal]]


def test_a_cluster_without_groups_is_told_in_one_line() -> None:
    with EmbeddedCluster() as cluster, pytest.raises(NothingToRead, match="no group was ever there"):
        plan_logs(connection_to(cluster.bootstrap), RowSelection(), TopicSelection())


def _ms(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
