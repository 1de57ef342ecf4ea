"""Kafka's own tool reads what kcoord wrote to `__consumer_offsets`, and a real broker serves it.

kcoord is killed in the end, as a journal must be valid at any time.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from click.testing import CliRunner

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.protocol.uuids import format_uuid
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.integration.storage.journal_answers import address_of, answers, compare, wait_for_groups
from tests.integration.storage.journal_groups import OTHER_TOPIC, GroupsOfAllKinds, line_of
from tests.integration.support.journal_folders import OFFSETS_FOLDERS, copy_offsets_topic, give_to_broker, stop_cleanly
from tests.support.differential.pair import wait_until
from tests.support.differential.plain import Plain
from tests.support.logs.kafka_dump import Batch, dumped_batches, printed_batches
from tests.support.logs.log_dump_scene import TOPIC

SETTINGS: Final = {"offsets.topic.num.partitions": "4"}
FREQUENT_CHECKS: Final = {"offsets.retention.check.interval.ms": "200"}

cli: Any = import_module("kcoord.commands.main").cli


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A folder that kcoord wrote, and its answers about the groups in it."""

    folder: Path
    groups: GroupsOfAllKinds
    reported: Mapping[str, Plain]

    @property
    def segments(self) -> list[Path]:
        return sorted(self.folder.glob(f"{OFFSETS_FOLDERS}/*.log"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("written")
    with EmbeddedCluster(data_dir=folder, settings={**SETTINGS, **FREQUENT_CHECKS}) as cluster:
        with closing(GroupsOfAllKinds(cluster.bootstrap)) as groups:
            groups.make_classic()
            groups.commit_lines("expired-0", [line_of(0, 45)], version=2, retention_time=timedelta(milliseconds=1))
        wait_until(lambda: "expired-0" not in _listed(cluster.bootstrap))
        reported = answers(cluster.bootstrap, groups.group_ids, topics_of(groups))
        cluster.kill()
    return Written(folder=folder, groups=groups, reported=reported)


@pytest.fixture(scope="module")
def dumped(written: Written, java_tools: JavaTools) -> list[Batch]:
    """All records as kafka-dump-log prints them."""
    files = ",".join(map(str, written.segments))
    done = java_tools.run("dump-log", "--offsets-decoder", "--print-data-log", "--files", files)
    assert (done.exit_code, done.stderr) == (0, "")
    return printed_batches(done.stdout)


@pytest.fixture(scope="module")
def given(written: Written, java_tools: JavaTools) -> Iterator[tuple[KafkaCluster, Mapping[str, UUID]]]:
    """A new broker with topics of the same names, started on kcoord's groups."""
    with KafkaCluster(properties=SETTINGS) as kafka:
        with closing(GroupsOfAllKinds(kafka.bootstrap)) as made:
            wait_for_groups(kafka.bootstrap, written.groups.group_ids)
        stop_cleanly(kafka)
        give_to_broker(written.folder, kafka.brokers[0].data_dir)
        kafka.restart(1)
        yield kafka, topics_of(made)


def test_kafkas_own_tool_reads_what_we_do(written: Written, dumped: list[Batch]) -> None:
    assert len(written.segments) == int(SETTINGS["offsets.topic.num.partitions"])
    done = CliRunner().invoke(cli, ["log", "dump", "-o", "json", *map(str, written.segments)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert dumped == dumped_batches(json.loads(done.stdout))
    assert all(batch["isvalid"] for batch in dumped)


def test_the_last_word_on_every_offset_is_what_kcoord_answered(written: Written, dumped: list[Batch]) -> None:
    latest = {
        (key["group"], key["topic"], key["partition"]): (
            value["offset"],
            value.get("leaderEpoch", -1),
            value["metadata"],
        )
        for key, value in _latest_records(dumped, "1")
    }
    fetched = {
        (group["group_id"], topic["name"], line["partition_index"]): (
            line["committed_offset"],
            line["committed_leader_epoch"],
            line["metadata"],
        )
        for group in written.reported["OffsetFetch 9 all"]["groups"]
        for topic in group["topics"]
        for line in topic["partitions"]
    }
    assert latest == fetched
    assert len(latest) > 150


def test_the_last_word_on_every_group_is_what_kcoord_answered(written: Written, dumped: list[Batch]) -> None:
    latest = {
        key["group"]: (
            value["protocolType"],
            value["protocol"],
            {(member["memberId"], member["groupInstanceId"], member["clientHost"]) for member in value["members"]},
        )
        for key, value in _latest_records(dumped, "2")
    }
    described = {group["group_id"]: group for group in written.reported["DescribeGroups 6"]["groups"]}
    assert latest == {
        group_id: (
            described[group_id]["protocol_type"],
            described[group_id]["protocol_data"] or None,
            {
                (member["member_id"], member["group_instance_id"], member["client_host"])
                for member in described[group_id]["members"]
            },
        )
        for group_id in latest
    }
    with_members = {group_id for group_id, group in described.items() if group["members"]}
    assert with_members == {seat.group_id for seat in written.groups.seats} <= latest.keys()


@pytest.mark.fact("P-002", "P-003", "P-030")
def test_records_are_of_the_versions_that_kafka_writes(dumped: list[Batch]) -> None:
    records = [record for batch in dumped for record in batch["records"]]
    latest = [record for record in records if record["value"]]
    versions = {(record["key"]["type"], record["value"]["version"]) for record in latest}
    assert versions == {("1", "4"), ("1", "1"), ("2", "3")}, "version 1 has an end that a client of old asked for"
    first = next(record for record in latest if record["key"]["data"]["group"] == "stable-0")["value"]["data"]
    assert (first["generation"], first["protocolType"], first["members"]) == (0, "", [])


def test_offsets_carry_the_ids_of_their_topics(written: Written, dumped: list[Batch]) -> None:
    """Commits with an expiry, by an old client's version, have no field for the id."""
    ids = {name: format_uuid(id_.bytes) for name, id_ in topics_of(written.groups).items()}
    latest = [(key["topic"], value) for key, value in _latest_records(dumped, "1") if "expireTimestamp" not in value]
    assert [value["topicId"] for _, value in latest] == [ids[topic] for topic, _ in latest]


@pytest.mark.fact("P-004")
def test_what_was_deleted_or_has_expired_has_a_tombstone(written: Written, dumped: list[Batch]) -> None:
    records = [record for batch in dumped for record in batch["records"]]
    deleted = {record["key"]["data"]["group"] for record in records if record["value"] is None}
    assert deleted >= {*written.groups.deleted_ids, "thinned-0", "expired-0"}


@pytest.mark.fact("P-034")
def test_a_broker_serves_the_groups_that_it_is_given(
    written: Written, given: tuple[KafkaCluster, Mapping[str, UUID]]
) -> None:
    kafka, topics = given
    reported = answers(kafka.bootstrap, written.groups.group_ids, topics)
    others = "OffsetFetch 10 named"  # the topics have other ids, and a request by id finds no offsets
    compare(kafka=_without(reported, others), kcoord=_without(written.reported, others))


def test_offsets_of_a_topic_that_was_made_anew_are_told_as_kafka_tells_them(
    written: Written, given: tuple[KafkaCluster, Mapping[str, UUID]], tmp_path: Path
) -> None:
    kafka, topics = given
    copy_offsets_topic(written.folder, tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, closing(GroupsOfAllKinds(cluster.bootstrap)) as made:
        reported = answers(cluster.bootstrap, written.groups.group_ids, topics_of(made))
    compare(kafka=answers(kafka.bootstrap, written.groups.group_ids, topics), kcoord=reported)


def topics_of(groups: GroupsOfAllKinds) -> dict[str, UUID]:
    return {TOPIC: groups.topic_id, OTHER_TOPIC: groups.other_topic_id}


def _latest_records(batches: list[Batch], key_type: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns the newest key and value of each record of a type that is not deleted."""
    last: dict[str, tuple[dict[str, Any], Any]] = {}
    for batch in batches:
        for record in batch["records"]:
            if record["key"]["type"] == key_type:
                last[repr(record["key"])] = record["key"]["data"], record["value"]
    return [(key, value["data"]) for key, value in last.values() if value]


def _listed(bootstrap: str) -> set[str]:
    with Client(*address_of(bootstrap)) as client:
        groups = client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
        return {group.group_id for group in groups}


def _without(reported: Mapping[str, Plain], question: str) -> dict[str, Plain]:
    assert question in reported
    return {each: answer for each, answer in reported.items() if each != question}
