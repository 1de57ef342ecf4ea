"""kcoord starts on a copy of a real broker's folder, and its groups continue without interruption.

Two brokers, which have compacted a part of it, answer all requests about a hundred groups; then their folders are
copied: while they run, after one was stopped, and after the other was killed. kcoord's answers about the groups in a
copy are compared with that, field by field.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import split_batches
from kcoord.protocol.records.compression import Codec
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.integration.storage.journal_answers import address_of, answers, compare, wait_for_groups
from tests.integration.storage.journal_groups import (
    OTHER_TOPIC,
    SETTINGS,
    GroupsOfAllKinds,
    Seat,
    as_member,
    joining_as,
)
from tests.integration.support.journal_folders import OFFSETS_FOLDERS, copy_offsets_topic, give_to_broker, stop_cleanly
from tests.support.differential.pair import wait_until
from tests.support.differential.plain import Plain
from tests.support.logs.log_dump_scene import TOPIC, consumer_assignment

COMPACTING: Final = {
    "offsets.topic.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.001",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """A broker that is down now, its earlier answers, and copies of its folder."""

    kafka: KafkaCluster
    groups: GroupsOfAllKinds
    topics: Mapping[str, UUID]
    reported: Mapping[str, Plain]
    copies: Mapping[str, Path]


@pytest.fixture(scope="module")
def plain(java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    """One partition, and a broker that was stopped."""
    with KafkaCluster(properties=SETTINGS | COMPACTING | {"offsets.topic.num.partitions": "1"}) as kafka:
        yield produced(kafka, stop_cleanly, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def compressed(java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    """Fifty partitions in compressed batches, and a broker that was killed."""
    properties = {"offsets.topic.num.partitions": "50", "offsets.topic.compression.codec": "4"}
    with KafkaCluster(properties=SETTINGS | COMPACTING | properties) as kafka:
        yield produced(kafka, lambda kafka: kafka.kill(1), tmp_path_factory.mktemp("compressed"))


@pytest.fixture(params=["plain", "compressed"])
def production(request: pytest.FixtureRequest) -> Production:
    found: Production = request.getfixturevalue(request.param)
    return found


def produced(kafka: KafkaCluster, end: Callable[[KafkaCluster], None], folder: Path) -> Production:
    data_dir = kafka.brokers[0].data_dir
    with closing(GroupsOfAllKinds(kafka.bootstrap)) as groups:
        groups.make_classic()
        groups.make_others()
        groups.fill_a_segment()
        wait_until(lambda: _is_compacted(data_dir), timeout=60)
        groups.make_open()
    topics = {TOPIC: groups.topic_id, OTHER_TOPIC: groups.other_topic_id}
    reported = answers(kafka.bootstrap, groups.group_ids, topics)
    copies = {"running": folder / "running", "down": folder / "down"}
    vanishing = shutil.ignore_patterns("*.deleted")
    shutil.copytree(data_dir, copies["running"], ignore=vanishing)
    end(kafka)
    shutil.copytree(data_dir, copies["down"], ignore=vanishing)
    return Production(kafka=kafka, groups=groups, topics=topics, reported=reported, copies=copies)


@pytest.fixture
def taken_over(plain: Production, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Starts kcoord on a new copy."""
    shutil.copytree(plain.copies["down"], tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster:
        wait_for_groups(cluster.bootstrap, plain.groups.group_ids)
        yield cluster


@pytest.fixture
def client(taken_over: EmbeddedCluster) -> Iterator[Client]:
    with Client(*address_of(taken_over.bootstrap)) as client:
        yield client


@pytest.mark.fact("P-004", "P-005", "P-007", "P-013", "P-015", "P-019", "P-021", "P-024", "P-048")
@pytest.mark.parametrize("copy", ["running", "down"])
def test_groups_and_offsets_are_told_as_the_broker_told_them(production: Production, copy: str, tmp_path: Path) -> None:
    shutil.copytree(production.copies[copy], tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster:
        compare(
            kafka=production.reported, kcoord=answers(cluster.bootstrap, production.groups.group_ids, production.topics)
        )
        cluster.kill()
    with EmbeddedCluster(data_dir=tmp_path / "data") as again:
        compare(
            kafka=production.reported, kcoord=answers(again.bootstrap, production.groups.group_ids, production.topics)
        )


def test_the_broker_told_of_all_there_is(production: Production, plain: Production) -> None:
    """This ensures that the comparison covers every kind of group."""
    listed = production.reported["ListGroups 5 {'states_filter': [], 'types_filter': []}"]["groups"]
    assert len(listed) == len(production.groups.group_ids) - len(production.groups.deleted_ids) >= 100
    kinds = {(group["group_type"], group["group_state"]) for group in listed}
    assert kinds == {
        ("classic", "Stable"),
        ("classic", "Empty"),
        ("consumer", "Stable"),
        ("consumer", "Empty"),
        ("consumer", "Reconciling"),
        ("share", "Empty"),
        ("streams", "Empty"),
    }
    fetched = production.reported["OffsetFetch 9 all"]["groups"]
    lines = [line for group in fetched for topic in group["topics"] for line in topic["partitions"]]
    assert len(lines) > 200
    segments = production.copies["running"].glob(f"{OFFSETS_FOLDERS}/*.log")
    logs = [[batch.header for batch in split_batches(segment.read_bytes())] for segment in segments]
    codecs = {header.attributes & 7 for headers in logs for header in headers}
    assert codecs == ({Codec.NONE} if production is plain else {Codec.NONE, Codec.ZSTD}), "markers are plain"
    steps = [after.base_offset - before.last_offset for headers in logs for before, after in pairwise(headers)]
    assert max(steps) > 1, "what compaction took away leaves gaps"


def test_the_folders_of_the_offsets_topic_are_enough(production: Production, tmp_path: Path) -> None:
    """Only requests by topic id find no offsets: the ids are unknown without the topics' folders."""
    copy_offsets_topic(production.copies["down"], tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster:
        reported = answers(cluster.bootstrap, production.groups.group_ids, production.topics)
    by_id = {question for question in reported if question.startswith("OffsetFetch 10")}
    compare(kafka=_without(production.reported, by_id), kcoord=_without(reported, by_id))


def test_topics_keep_their_ids(plain: Production, client: Client) -> None:
    asked = [{"name": name, "topic_id": None} for name in plain.topics]
    answer = client.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False)
    assert {topic.name: topic.topic_id for topic in answer.topics} == plain.topics


@pytest.mark.fact("P-010", "P-046")
def test_members_go_on_with_their_generation_and_their_assignment(plain: Production, client: Client) -> None:
    for seat in plain.groups.seats:
        assert client.ask(ApiKey.HEARTBEAT, 4, **as_member(seat)).error_code is ErrorCode.none
        synced = client.ask(ApiKey.SYNC_GROUP, 3, **as_member(seat), assignments=[])
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, consumer_assignment(TOPIC))
    seat = plain.groups.seats[0]
    assert _commit(client, seat.group_id, seat.member_id, seat.generation) is ErrorCode.none
    assert _commit(client, seat.group_id, seat.member_id, seat.generation - 1) is ErrorCode.illegal_generation


@pytest.mark.fact("P-045")
def test_a_static_member_comes_back_without_a_rebalance(plain: Production, client: Client) -> None:
    statics = [seat for seat in plain.groups.seats if seat.instance_id and not seat.is_leader]
    leaders = {seat.group_id: seat for seat in plain.groups.seats if seat.is_leader}
    assert statics
    for seat in statics:
        answer = client.ask(ApiKey.JOIN_GROUP, 5, **joining_as(seat, member_id=""))
        assert (answer.error_code, answer.generation_id) == (ErrorCode.none, seat.generation)
        assert answer.member_id != seat.member_id
        assert client.ask(ApiKey.HEARTBEAT, 4, **as_member(seat)).error_code is ErrorCode.fenced_instance_id
        assert client.ask(ApiKey.HEARTBEAT, 4, **as_member(leaders[seat.group_id])).error_code is ErrorCode.none


@pytest.mark.fact("P-044")
def test_the_leader_of_old_begins_a_rebalance_and_a_follower_does_not(
    plain: Production, taken_over: EmbeddedCluster, client: Client
) -> None:
    leader, follower = _pair(plain, "stable-1")
    answer = client.ask(ApiKey.JOIN_GROUP, 5, **joining_as(follower))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, follower.generation)
    assert answer.leader == leader.member_id
    client.send(ApiKey.JOIN_GROUP, 5, **joining_as(leader))  # parked until the other joins
    with Client(*address_of(taken_over.bootstrap)) as other:
        asked = as_member(follower)
        wait_until(lambda: other.ask(ApiKey.HEARTBEAT, 4, **asked).error_code is ErrorCode.rebalance_in_progress)
        rejoined = other.ask(ApiKey.JOIN_GROUP, 5, **joining_as(follower))
    assert rejoined.generation_id == client.receive(ApiKey.JOIN_GROUP, 5).generation_id == leader.generation + 1


@pytest.mark.fact("P-032")
def test_the_generations_of_an_empty_group_go_on(client: Client) -> None:
    """The first was its member's; with the second it became empty."""
    seat = Seat(group_id="empty-0", member_id="", instance_id="new", generation=-1, is_leader=True)
    assert client.ask(ApiKey.JOIN_GROUP, 5, **joining_as(seat)).generation_id == 3


@pytest.mark.fact("P-004")
def test_what_was_deleted_stays_deleted(plain: Production, client: Client) -> None:
    deleted = plain.groups.deleted_ids
    listed = client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
    assert not set(deleted) & {group.group_id for group in listed}
    results = client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=deleted).results
    assert {result.error_code for result in results} == {ErrorCode.group_id_not_found}
    asked = [{"group_id": group_id, "topics": None} for group_id in deleted]
    assert [group.topics for group in client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked).groups] == [()] * len(deleted)


@pytest.mark.parametrize("group_id", ["consumers-0", "moving-1", "upgraded-0"])
def test_a_group_of_the_consumer_protocol_with_members_is_left_alone(client: Client, group_id: str) -> None:
    seat = Seat(group_id=group_id, member_id="", instance_id=None, generation=-1, is_leader=True)
    assert client.ask(ApiKey.JOIN_GROUP, 3, **joining_as(seat)).error_code is ErrorCode.inconsistent_group_protocol
    assert _commit(client, group_id, "", -1) is ErrorCode.unknown_member_id
    (result,) = client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[group_id]).results
    assert result.error_code is ErrorCode.non_empty_group


def test_a_broker_takes_its_groups_back_with_all_that_was_done_meanwhile(
    compressed: Production, tmp_path: Path
) -> None:
    """This includes groups of the consumer protocol: kcoord preserves records that it does not coordinate."""
    seat = compressed.groups.seats[0]
    group_ids = [*compressed.groups.group_ids, "newcomer"]
    shutil.copytree(compressed.copies["down"], tmp_path / "data")
    with EmbeddedCluster(data_dir=tmp_path / "data") as cluster, Client(*address_of(cluster.bootstrap)) as client:
        wait_for_groups(cluster.bootstrap, group_ids)
        assert _commit(client, seat.group_id, seat.member_id, seat.generation) is ErrorCode.none
        assert _commit(client, "newcomer", "", -1) is ErrorCode.none
        doomed = ["simple-0", "empty-1", "left-0", "sharing-0", "streaming-0"]
        results = client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=doomed).results
        assert {result.error_code for result in results} == {ErrorCode.none}
        reported = answers(cluster.bootstrap, group_ids, compressed.topics)

    give_to_broker(tmp_path / "data", compressed.kafka.brokers[0].data_dir)
    compressed.kafka.restart(1)
    compare(kafka=answers(compressed.kafka.bootstrap, group_ids, compressed.topics), kcoord=reported)
    with Client(*address_of(compressed.kafka.bootstrap)) as broker:
        assert broker.ask(ApiKey.HEARTBEAT, 4, **as_member(seat)).error_code is ErrorCode.none
        (group,) = broker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["consumers-0"]).groups
        (member,) = group.members
        asked = {"group_id": "consumers-0", "member_id": member.member_id, "member_epoch": member.member_epoch}
        answer = broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **asked, topic_partitions=None)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, member.member_epoch)


def _is_compacted(data_dir: Path) -> bool:
    checkpoint = data_dir / "cleaner-offset-checkpoint"
    return checkpoint.exists() and "__consumer_offsets" in checkpoint.read_text()


def _pair(plain: Production, group_id: str) -> tuple[Seat, Seat]:
    leader, follower = (seat for seat in plain.groups.seats if seat.group_id == group_id)
    assert leader.is_leader
    return leader, follower


def _commit(client: Client, group_id: str, member_id: str, generation: int) -> ErrorCode:
    lines = [{"partition_index": 0, "committed_offset": 5000, "committed_metadata": "since"}]
    asked = {"group_id": group_id, "member_id": member_id, "generation_id_or_member_epoch": generation}
    answer = client.ask(ApiKey.OFFSET_COMMIT, 9, **asked, topics=[{"name": TOPIC, "partitions": lines}])
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


def _without(reported: Mapping[str, Plain], questions: set[str]) -> dict[str, Any]:
    return {question: answer for question, answer in reported.items() if question not in questions}
