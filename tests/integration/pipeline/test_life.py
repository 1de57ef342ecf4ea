"""The pipeline's tables of a history of groups match kafka-dump-log, and the clients' own reports.

The same history is played on a real broker and on kcoord; see tests/integration/pipeline/pipeline_life.py.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kcoord.pipeline.decode_job import SegmentInput, decode
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import find_segments, plan_ranges
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, OWNERSHIP, REBALANCES, REJECTED, SCANNED
from kcoord.pipeline.tables import TablesFolder
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.ownership import ownership
from kcoord.pipeline.transforms.rebalances.causes import HANDED_OVER
from kcoord.pipeline.transforms.rebalances.rebalances import rebalances
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.clients.group_members.programs import Programs
from tests.integration.pipeline import pipeline_life
from tests.integration.pipeline.pipeline_books import (
    Change,
    Era,
    Row,
    Tenure,
    assert_called_back_between,
    assert_same_eras,
    changes,
    logged_eras,
    milliseconds,
    reported_eras,
    reported_holds,
    tenures,
)
from tests.integration.pipeline.pipeline_life import (
    BROKER_SETTINGS,
    COOPERATIVE,
    DELETED,
    EXPIRING,
    MODERN,
    PAID,
    PARTITIONS,
    PAYMENT,
    RANGE,
    RESET_TO,
    SETTINGS,
    STATIC,
    STORY,
    UNPAID,
    UNPAID_OFFSET,
    Life,
    Stage,
)
from tests.integration.support.journal_folders import copy_offsets_topic
from tests.support.differential.pair import wait_for_coordinators
from tests.support.logs.kafka_dump import Batch, printed_batches
from tests.support.pipeline.expected_rows import Rows, comparable, expected_rows_of_dump

KAFKA, KCOORD = "kafka", "kcoord"
DECODED = (COMMITS, GENERATIONS, GROUP_EVENTS)
CLASSIC = (RANGE, COOPERATIVE, STATIC)
MOST_BYTES = 400_000  # small, so that the log is split into several ranges

on_a_broker = pytest.mark.parametrize("lived", [KAFKA], indirect=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """A history that has ended."""

    where: str
    life: Life
    log: Path
    """A copy of the offsets topic's folders."""


@pytest.fixture(scope="module", params=[KAFKA, KCOORD])
def lived(
    request: pytest.FixtureRequest,
    java_tools: JavaTools,
    member_programs: Programs,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("life")
    play = _on_broker if request.param == KAFKA else _on_kcoord
    life = play(folder, lambda bootstrap: Stage(bootstrap, member_programs, folder))
    yield Lived(where=request.param, life=life, log=folder / "log")
    shutil.rmtree(folder)


def _on_broker(folder: Path, stage_at: Callable[[str], Stage]) -> Life:
    with KafkaCluster(properties=BROKER_SETTINGS) as kafka:
        _wait_for(kafka.bootstrap)
        stage = stage_at(kafka.bootstrap)
        pipeline_life.play_on_broker(stage)
        copy_offsets_topic(kafka.brokers[0].data_dir, folder / "log")
    return stage.life


def _on_kcoord(folder: Path, stage_at: Callable[[str], Stage]) -> Life:
    with EmbeddedCluster(settings=SETTINGS, data_dir=folder / "data") as cluster:
        _wait_for(cluster.bootstrap)
        stage = stage_at(cluster.bootstrap)
        pipeline_life.play(stage)
    copy_offsets_topic(folder / "data", folder / "log")
    return stage.life


def _wait_for(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    wait_for_coordinators((host, int(port)))


@pytest.fixture(scope="module")
def tables(lived: Lived, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """All tables that the pipeline derives from it."""
    folder = TablesFolder(str(tmp_path_factory.mktemp("tables") / "out"))
    ranges = plan_ranges(find_segments(lived.log), max_bytes=MOST_BYTES)
    summary = decode(spark, SegmentInput(ranges=ranges), folder, RowSelection(), lambda _: None)
    assert summary.is_balanced
    commits, generations, group_events = (folder.read(spark, table).cache() for table in DECODED)
    names = topic_names(commits, group_events)
    folder.write(ownership(generations, group_events, names), OWNERSHIP)
    folder.write(rebalances(generations, group_events, commits, names), REBALANCES)
    for frame in (commits, generations, group_events):
        frame.unpersist()
    made = (*DECODED, REJECTED, SCANNED, OWNERSHIP, REBALANCES)
    return {table: folder.read(spark, table).toArrow().to_pylist() for table in made}


@pytest.fixture(scope="module")
def dumped(lived: Lived, java_tools: JavaTools) -> dict[Path, list[Batch]]:
    """The segments of the offsets topic as kafka-dump-log prints them."""
    segments = sorted(lived.log.glob("__consumer_offsets-*/*.log"))
    done = java_tools.run("dump-log", "--offsets-decoder", "--files", ",".join(map(str, segments)))
    assert done.exit_code == 0, done.stderr
    printed = done.stdout.split("Dumping ")[1:]
    assert [each.partition("\n")[0] for each in printed] == list(map(str, segments))
    return dict(zip(segments, map(printed_batches, printed), strict=True))


def test_the_decoded_tables_are_row_for_row_what_kafka_dump_log_tells(
    tables: Rows, dumped: dict[Path, list[Batch]]
) -> None:
    expected: Rows = {table: [] for table in DECODED}
    for segment, batches in dumped.items():
        for table, rows in expected_rows_of_dump(batches, segment).items():
            expected[table] += rows
    found = comparable(deepcopy(tables))
    for table in DECODED:
        assert in_order(found[table]) == in_order(expected[table])
    assert not tables[REJECTED]


def test_the_life_has_left_in_the_log_what_is_to_be_told(tables: Rows) -> None:
    """This ensures that the comparison is not empty."""
    commits, generations = tables[COMMITS], tables[GENERATIONS]
    assert offsets_of(commits, RANGE)[-PARTITIONS - 1 :] == [RESET_TO] * PARTITIONS + [None], "reset, one deleted"
    assert {row["group"] for row in commits if row["tombstone"]} == {RANGE, EXPIRING, DELETED}
    assert {row["group"] for row in commits if row["expires_at"]} == {EXPIRING}
    assert groups_that_are_gone(generations) == {EXPIRING, DELETED}
    assert {row["group"] for row in generations if row["members"]} == set(CLASSIC)


@on_a_broker
def test_a_broker_has_left_more(tables: Rows, dumped: dict[Path, list[Batch]]) -> None:
    """There are several segments, two codecs, a group of KIP-848, and both ends of a transaction."""
    assert len({segment.parent for segment in dumped}) < len(dumped)
    batches = [batch for each in dumped.values() for batch in each]
    assert {batch["compresscodec"] for batch in batches} == {"none", "zstd"}
    assert {row["group"] for row in tables[GROUP_EVENTS]} == {MODERN}
    markers = {record["marker"]["type"] for batch in batches for record in batch["records"] if batch["isControl"]}
    assert markers == {"COMMIT", "ABORT"}


@on_a_broker
def test_commits_of_an_aborted_transaction_do_not_appear(tables: Rows, dumped: dict[Path, list[Batch]]) -> None:
    transactional = [batch for each in dumped.values() for batch in each if batch["isTransactional"]]
    written = [record["key"]["data"] for batch in transactional for record in batch["records"] if "key" in record]
    assert {key["group"] for key in written} == {PAID, UNPAID}
    assert offsets_of(tables[COMMITS], PAID) == [*PAYMENT]
    assert offsets_of(tables[COMMITS], UNPAID) == [UNPAID_OFFSET]
    assert {row["group"] for row in tables[COMMITS] if row["transactional"]} == {PAID}
    assert sum(row["aborted"] for row in tables[SCANNED]) == len(PAYMENT)


@pytest.mark.parametrize("group", CLASSIC)
def test_the_generations_are_those_that_the_members_saw(lived: Lived, tables: Rows, group: str) -> None:
    assert_same_eras(reported_eras(lived.life[group]), eras_of(tables, group))


@pytest.mark.parametrize("group", CLASSIC)
def test_members_owned_what_their_callbacks_say_from_when_to_when(lived: Lived, tables: Rows, group: str) -> None:
    """Overtaken shares, which no member has reported, are taken from the log."""
    rows = rows_of(tables[OWNERSHIP], group)
    found = [
        Tenure(
            partition=f"{row['topic']}-{row['partition']}",
            member_id=row["member_id"],
            from_generation=row["from_generation"],
            until_generation=row["until_generation"],
        )
        for row in rows
    ]
    assert sorted(found, key=Tenure.order) == tenures(agreed_eras(lived, tables, group))
    named = {(row["member_id"], row["client_id"], row["instance_id"]) for row in rows}
    assert named == {
        (event.member, member.name, member.config.instance_id)
        for member in lived.life[group]
        for event in member.events("assigned")
    }
    written = {row["ended_at"] for row in rows_of(tables[REBALANCES], group)}
    assert {row["owned_from"] for row in rows} | {row["owned_until"] for row in rows} - {None} <= written


@pytest.mark.parametrize("group", CLASSIC)
def test_groups_rebalanced_as_their_callbacks_say_and_why_the_script_says(
    lived: Lived, tables: Rows, group: str
) -> None:
    rows = by_end(rows_of(tables[REBALANCES], group))
    members, eras = lived.life[group], agreed_eras(lived, tables, group)
    owners = {event.member: member.owner for member in members for event in member.events()}
    facts = [{name: row[name] for name in Change.__dataclass_fields__} for row in rows]
    assert [Change(**each) for each in facts] == changes(eras, owners)
    assert causes_of(rows) == STORY[group]
    assert_called_back_between(members, eras, [written_ms(row["started_at"]) for row in rows])
    assert all(row["started_at"] <= row["ended_at"] for row in rows)


def test_only_a_cooperative_group_hands_over(tables: Rows) -> None:
    handed_over = [row for row in tables[REBALANCES] if row["causes"] == [HANDED_OVER]]
    assert {row["group"] for row in handed_over} == {COOPERATIVE}
    assert all(row["moved_partitions"] for row in handed_over)


def test_groups_without_members_neither_rebalance_nor_own(lived: Lived, tables: Rows) -> None:
    for table in (OWNERSHIP, REBALANCES):
        assert {row["group"] for row in tables[table]} == lived.life.keys()


@on_a_broker
def test_members_of_a_consumer_group_owned_what_their_callbacks_say(lived: Lived, tables: Rows) -> None:
    """In KIP-848 a partition that a member gives back is its own until the broker has got the heartbeat."""
    rows = sorted(rows_of(tables[OWNERSHIP], MODERN), key=lambda row: (row["partition"], row["owned_from"]))
    holds = reported_holds(lived.life[MODERN])
    assert [(f"{row['topic']}-{row['partition']}", row["member_id"], row["from_generation"]) for row in rows] == [
        (hold.partition, hold.member_id, hold.epoch) for hold in holds
    ]
    written = {(row["member_id"], row["appended_at"]) for row in rows_of(tables[GROUP_EVENTS], MODERN)}
    for row, hold in zip(rows, holds, strict=True):
        assert (row["member_id"], row["owned_from"]) in written
        assert written_ms(row["owned_from"]) <= hold.since_ms
        assert (row["owned_until"] is None) == (hold.until_ms is None)
        if hold.until_ms is not None:
            assert (row["member_id"], row["owned_until"]) in written
            assert hold.until_ms <= written_ms(row["owned_until"])


@on_a_broker
def test_a_consumer_group_rebalanced_as_its_callbacks_say_and_why_the_script_says(lived: Lived, tables: Rows) -> None:
    rows = by_end(rows_of(tables[REBALANCES], MODERN))
    first, second = (member.member_id for member in lived.life[MODERN])
    assert causes_of(rows) == STORY[MODERN]
    assert [row["joined"] for row in rows] == [[first], [second], []]
    assert [row["left"] for row in rows] == [[], [], [second]]
    assert [row["members"] for row in rows] == [1, 2, 1]
    assert [row["moved_partitions"] for row in rows] == [0, PARTITIONS // 2, PARTITIONS // 2]
    events = rows_of(tables[GROUP_EVENTS], MODERN)
    epochs = [row for row in events if row["record_name"] == "ConsumerGroupMetadata"]
    assert [(row["generation"], row["started_at"]) for row in rows] == [
        (json.loads(row["payload"])["epoch"], row["appended_at"]) for row in in_order(epochs)
    ]
    assigned = [event for member in lived.life[MODERN] for event in member.events("assigned")]
    for row in rows:
        last_assigned = max(milliseconds(event.at) for event in assigned if event.generation == row["generation"])
        assert row["started_at"] <= row["ended_at"]
        assert written_ms(row["ended_at"]) <= last_assigned


def agreed_eras(lived: Lived, tables: Rows, group: str) -> list[Era]:
    reported, logged = reported_eras(lived.life[group]), eras_of(tables, group)
    assert_same_eras(reported, logged)
    return logged


def eras_of(tables: Rows, group: str) -> list[Era]:
    return logged_eras(rows_of(tables[GENERATIONS], group))


def causes_of(rebalances: list[Row]) -> list[str]:
    """Returns the causes, one for each rebalance without the second half of a cooperative one."""
    assert all(len(row["causes"]) == 1 for row in rebalances)
    return [row["causes"][0] for row in rebalances if row["causes"] != [HANDED_OVER]]


def by_end(rebalances: list[Row]) -> list[Row]:
    return sorted(rebalances, key=lambda row: (row["generation"], row["ended_at"]))


def written_ms(at: datetime) -> int:
    return milliseconds(at.timestamp())


def rows_of(rows: list[Row], group: str) -> list[Row]:
    return [row for row in rows if row["group"] == group]


def offsets_of(commits: list[Row], group: str) -> list[int | None]:
    return [row["offset"] for row in in_order(rows_of(commits, group))]


def groups_that_are_gone(generations: list[Row]) -> set[str]:
    """Returns the groups whose last record is a tombstone. An earlier tombstone is chance: a group that has only a
    member id yet is removed if offsets expire just then, on a broker too, and the member creates it again."""
    last = {row["group"]: row for row in in_order(generations)}
    return {group for group, row in last.items() if row["tombstone"]}


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["source_partition"], row["source_offset"]))
