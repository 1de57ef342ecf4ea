"""Local coordination in front of a `kcoord serve` cluster: handled requests, known topics, and offsets taken over."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import PASS, Request
from kcoord.proxy.guards.hidden_names import HiddenNames
from kcoord.proxy.local import topic_refresher
from kcoord.proxy.local.answering import BrokerEndpoint
from kcoord.proxy.local.coordination import LocalCoordination, LocalSetup
from kcoord.proxy.local.runtime import LocalJournal, RuntimeSetup
from kcoord.settings import Settings
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.guest import (
    Guest,
    HungUp,
    commit_errors,
    commit_fields,
    join_fields,
    offsets_of,
)

HERE = BrokerEndpoint(1, "proxy.example", 9099)
TIMEOUT = timedelta(seconds=10)


@pytest.fixture(scope="module")
def upstream() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(topics={"orders": 3}) as cluster:
        yield cluster


@pytest.fixture
def broker(upstream: EmbeddedCluster) -> Iterator[Client]:
    """Connects to the upstream directly."""
    host, _, port = upstream.bootstrap.rpartition(":")
    with Client(host, int(port)) as client:
        yield client


def connection_to(cluster: EmbeddedCluster) -> Connection:
    return Connection(bootstrap=(cluster.bootstrap,), request_timeout=5.0)


def played(setup: LocalSetup, scenario: Callable[[LocalCoordination], Awaitable[None]]) -> None:
    async def play() -> None:
        async with LocalCoordination(setup) as coordination:
            coordination.coordinator_endpoint = lambda: HERE
            await until(lambda: not coordination.why_not_ready())
            await scenario(coordination)

    asyncio.run(play())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)


async def commit(guest: Guest, group: str, offsets: dict[int, int], topic: str = "orders") -> set[Any]:
    return commit_errors(await guest.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields(group, topic, offsets)))


def commit_upstream(broker: Client, group: str, topic: str, lines: list[tuple[int, int, int, str]]) -> None:
    """Commits upstream; each offset is partition, offset, leader epoch and metadata."""
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": epoch,
            "committed_metadata": text,
        }
        for partition, offset, epoch, text in lines
    ]
    fields = {**commit_fields(group, topic, {}), "topics": [{"name": topic, "partitions": partitions}]}
    assert commit_errors(broker.ask(ApiKey.OFFSET_COMMIT, 8, **fields)) == {ErrorCode.none}


def test_a_group_lives_here_and_the_upstream_never_hears_of_it(upstream: EmbeddedCluster, broker: Client) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)

        assert await commit(guest, "local-only", {0: 17, 2: 4}) == {ErrorCode.none}

        assert await offsets_of(guest, "local-only") == {("orders", 0): (17, 5, ""), ("orders", 2): (4, 5, "")}
        listed = await guest.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])
        assert [group.group_id for group in listed.groups] == ["local-only"]
        assert "local-only" not in {
            group.group_id for group in broker.ask(ApiKey.LIST_GROUPS, 4, states_filter=[]).groups
        }

    played(LocalSetup(upstream=connection_to(upstream)), scenario)


def test_the_members_of_a_large_group_are_answered_together(upstream: EmbeddedCluster) -> None:
    fields = {name: value for name, value in join_fields("large").items() if name != "group_instance_id"}  # of later

    async def scenario(coordination: LocalCoordination) -> None:
        guests = [Guest(coordination, peer=f"10.0.0.7:{40_000 + number}") for number in range(50)]
        joined = await asyncio.gather(*(guest.ask(ApiKey.JOIN_GROUP, 3, **fields) for guest in guests))
        assert [(each.error_code, each.generation_id) for each in joined] == [(ErrorCode.none, 1)] * 50

    settings = Settings.from_properties({"group.initial.rebalance.delay.ms": "100"})
    played(LocalSetup(upstream=connection_to(upstream), runtime=RuntimeSetup(settings=settings)), scenario)


def test_what_is_no_partition_upstream_cannot_be_committed_to(upstream: EmbeddedCluster) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)

        assert await commit(guest, "g", {3: 1}) == {ErrorCode.unknown_topic_or_partition}
        assert await commit(guest, "g", {0: 1}, topic="nowhere") == {ErrorCode.unknown_topic_or_partition}

    played(LocalSetup(upstream=connection_to(upstream)), scenario)


def test_a_topic_is_known_as_soon_as_an_answer_that_passes_tells_of_it(
    upstream: EmbeddedCluster, broker: Client
) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        broker.ask(ApiKey.CREATE_TOPICS, 5, topics=[{"name": "new", "num_partitions": 2, "replication_factor": 1}])
        broker.send(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": "new"}])
        frame = broker.receive_frame()

        request = Request(frame=b"", api_key=ApiKey.METADATA, api_version=12, correlation_id=1)
        coordination.response(guest, request, frame)

        assert await commit(guest, "g", {1: 1}, topic="new") == {ErrorCode.none}

    played(LocalSetup(upstream=connection_to(upstream)), scenario)


def test_ids_of_hidden_topics_are_learned_from_the_first_list_and_from_answers_that_pass(
    upstream: EmbeddedCluster, broker: Client
) -> None:
    there, later = HiddenNames(topic="orders"), HiddenNames(topic="later")

    async def scenario(coordination: LocalCoordination) -> None:
        assert len(there.topic_ids) == 1
        broker.ask(ApiKey.CREATE_TOPICS, 5, topics=[{"name": "later", "num_partitions": 1, "replication_factor": 1}])
        broker.send(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": "later"}])
        request = Request(frame=b"", api_key=ApiKey.METADATA, api_version=12, correlation_id=1)
        coordination.response(Guest(coordination), request, broker.receive_frame())
        assert len(later.topic_ids) == 1

    played(LocalSetup(upstream=connection_to(upstream), hidden=(there, later)), scenario)


def test_all_groups_have_one_coordinator_and_it_alone_lists_them(upstream: EmbeddedCluster) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest, at_another = Guest(coordination), Guest(coordination, node_id=2)
        await commit(guest, "payments", {0: 1})

        found = await at_another.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["payments"])
        listed = await at_another.ask(ApiKey.LIST_GROUPS, 4, states_filter=[])

        assert [(each.node_id, each.host, each.port) for each in found.coordinators] == [HERE]
        assert listed.groups == ()
        assert await offsets_of(at_another, "payments") == {("orders", 0): (1, 5, "")}, "any port does"
        transaction = guest.begin(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
        assert transaction.decision is PASS

    played(LocalSetup(upstream=connection_to(upstream)), scenario)


def test_members_of_other_kinds_of_groups_are_hung_up_on(upstream: EmbeddedCluster) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        with pytest.raises(CorruptMessage, match="not served with --coordinate local"):
            Guest(coordination).begin(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id="g", member_id="m", member_epoch=0, instance_id=None
            )

    played(LocalSetup(upstream=connection_to(upstream)), scenario)


def test_who_comes_when_the_coordinator_has_enough_connections_is_hung_up_on(upstream: EmbeddedCluster) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        first, second = Guest(coordination), Guest(coordination)
        assert await commit(first, "g", {0: 1}) == {ErrorCode.none}

        with pytest.raises(HungUp):
            await commit(second, "g", {0: 2})
        first.leave()

        assert await commit(second, "g", {0: 3}) == {ErrorCode.none}, "there is room again"

    runtime = RuntimeSetup(settings=Settings(max_connections=1))
    played(LocalSetup(upstream=connection_to(upstream), runtime=runtime), scenario)


def test_groups_in_a_data_dir_are_there_again(upstream: EmbeddedCluster, tmp_path: Path) -> None:
    runtime = RuntimeSetup(local_journal=LocalJournal(data_dir=tmp_path / "data"))
    setup = LocalSetup(upstream=connection_to(upstream), runtime=runtime)

    async def first(coordination: LocalCoordination) -> None:
        assert await commit(Guest(coordination), "payments", {0: 17}) == {ErrorCode.none}

    async def second(coordination: LocalCoordination) -> None:
        assert await offsets_of(Guest(coordination), "payments") == {("orders", 0): (17, 5, "")}

    played(setup, first)
    played(setup, second)


def test_who_asks_when_the_coordination_ends_is_hung_up_on_and_nothing_is_decided(
    upstream: EmbeddedCluster, tmp_path: Path
) -> None:
    runtime = RuntimeSetup(local_journal=LocalJournal(data_dir=tmp_path / "data"))
    setup = LocalSetup(upstream=connection_to(upstream), runtime=runtime)

    async def first() -> None:
        async with LocalCoordination(setup) as coordination:
            coordination.coordinator_endpoint = lambda: HERE
            await until(lambda: not coordination.why_not_ready())
            known = Guest(coordination)
            assert await commit(known, "payments", {0: 17}) == {ErrorCode.none}
        for guest in (known, Guest(coordination)):
            with pytest.raises(HungUp):
                await commit(guest, "payments", {0: 99})
            found = await guest.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["payments"])
            assert found.coordinators[0].error_code is ErrorCode.coordinator_not_available

    async def second(coordination: LocalCoordination) -> None:
        assert await offsets_of(Guest(coordination), "payments") == {("orders", 0): (17, 5, "")}

    asyncio.run(first())
    played(setup, second)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists the upstream's topics without a pause."""
    monkeypatch.setattr(topic_refresher, "_MIN_PAUSE", 0.01)
    monkeypatch.setattr(topic_refresher, "_SHORT_PAUSE", 0.02)
    monkeypatch.setattr(topic_refresher, "_DEFAULT_PAUSE", 0.05)


def create_topic(broker: Client, topic: str) -> None:
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    (made,) = broker.ask(ApiKey.CREATE_TOPICS, 5, topics=[new], timeout=TIMEOUT).topics
    assert made.error_code is ErrorCode.none


def delete_topic(broker: Client, topic: str) -> None:
    (deleted,) = broker.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=TIMEOUT).responses
    assert deleted.error_code is ErrorCode.none


async def until_forgotten(guest: Guest, group: str, topic: str) -> None:
    async with asyncio.timeout(60):
        while (topic, 0) in await offsets_of(guest, group):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("hasty")
def test_a_topic_that_is_deleted_upstream_takes_its_offsets_along(upstream: EmbeddedCluster, broker: Client) -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        await commit(guest, "payments", {0: 17})
        assert await commit(guest, "payments", {0: 4}, topic="passing") == {ErrorCode.none}
        delete_topic(broker, "passing")

        await until_forgotten(guest, "payments", "passing")

        assert await offsets_of(guest, "payments") == {("orders", 0): (17, 5, "")}

    create_topic(broker, "passing")
    played(LocalSetup(upstream=connection_to(upstream)), scenario)


@pytest.mark.usefixtures("hasty")
def test_a_topic_that_was_made_anew_while_no_proxy_was_there_has_no_offsets(
    upstream: EmbeddedCluster, broker: Client, tmp_path: Path
) -> None:
    async def first(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        assert await commit(guest, "payments", {0: 17}) == {ErrorCode.none}
        assert await commit(guest, "payments", {0: 4}, topic="anew") == {ErrorCode.none}

    async def second(coordination: LocalCoordination) -> None:
        await until_forgotten(Guest(coordination), "payments", "anew")
        assert await offsets_of(Guest(coordination), "payments") == {("orders", 0): (17, 5, "")}

    runtime = RuntimeSetup(local_journal=LocalJournal(data_dir=tmp_path / "data"))
    setup = LocalSetup(upstream=connection_to(upstream), runtime=runtime)
    create_topic(broker, "anew")
    played(setup, first)
    delete_topic(broker, "anew")
    create_topic(broker, "anew")
    played(setup, second)


def test_a_group_begins_with_what_it_has_upstream_to_the_letter(
    upstream: EmbeddedCluster, broker: Client, caplog: pytest.LogCaptureFixture
) -> None:
    commit_upstream(broker, "moving", "orders", [(0, 17, 3, "half way"), (2, 2**40, -1, "")])
    caplog.set_level(logging.INFO, "kcoord.groups")

    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        expected = {("orders", 0): (17, 3, "half way"), ("orders", 2): (2**40, -1, "")}

        assert await offsets_of(guest, "moving") == expected
        assert "seeded group='moving' topics=1 offsets=2" in caplog.text
        assert await commit(guest, "moving", {0: 18}) == {ErrorCode.none}
        commit_upstream(broker, "moving", "orders", [(0, 99, 3, "")])
        assert await offsets_of(guest, "moving") == {**expected, ("orders", 0): (18, 5, "")}, "from now on it is here"

    played(LocalSetup(upstream=connection_to(upstream), seed=re.compile("mov.*")), scenario)


def test_a_commit_to_one_partition_does_not_hide_what_the_group_has_of_others_upstream(
    upstream: EmbeddedCluster, broker: Client
) -> None:
    commit_upstream(broker, "careful", "orders", [(0, 17, -1, ""), (1, 5, -1, "")])

    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        assert await commit(guest, "careful", {0: 18}) == {ErrorCode.none}
        assert await offsets_of(guest, "careful") == {("orders", 0): (18, 5, ""), ("orders", 1): (5, -1, "")}

    played(LocalSetup(upstream=connection_to(upstream), seed=re.compile(".*")), scenario)


def test_only_groups_whose_whole_name_matches_are_taken_over(upstream: EmbeddedCluster, broker: Client) -> None:
    commit_upstream(broker, "team-a", "orders", [(0, 17, -1, "")])
    commit_upstream(broker, "team-a-old", "orders", [(0, 17, -1, "")])

    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        assert await offsets_of(guest, "team-a") == {("orders", 0): (17, -1, "")}
        assert await offsets_of(guest, "team-a-old") == {}

    played(LocalSetup(upstream=connection_to(upstream), seed=re.compile("team-a")), scenario)


def test_who_only_looks_takes_nothing_over(upstream: EmbeddedCluster, broker: Client) -> None:
    commit_upstream(broker, "later", "orders", [(0, 17, -1, "")])

    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        described = await guest.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["later"], include_authorized_operations=False)
        assert [group.group_state for group in described.groups] == ["Dead"]
        commit_upstream(broker, "later", "orders", [(0, 20, -1, "")])
        assert await offsets_of(guest, "later") == {("orders", 0): (20, -1, "")}

    played(LocalSetup(upstream=connection_to(upstream), seed=re.compile(".*")), scenario)


def test_many_that_ask_at_once_wait_for_one_taking_over(
    upstream: EmbeddedCluster, broker: Client, caplog: pytest.LogCaptureFixture
) -> None:
    commit_upstream(broker, "popular", "orders", [(0, 17, -1, "")])
    caplog.set_level(logging.INFO, "kcoord.groups")

    async def scenario(coordination: LocalCoordination) -> None:
        guests = [Guest(coordination) for _ in range(5)]
        gone = Guest(coordination)
        gone.begin(ApiKey.OFFSET_COMMIT, 8, **commit_fields("popular", "orders", {0: 1}))
        reading = [offsets_of(guest, "popular") for guest in guests]
        gone.leave()

        assert await asyncio.gather(*reading) == [{("orders", 0): (17, -1, "")}] * 5
        assert caplog.text.count("seeded group='popular'") == 1

    played(LocalSetup(upstream=connection_to(upstream), seed=re.compile(".*")), scenario)


def test_without_the_upstream_nobody_is_told_what_a_group_has_committed() -> None:
    async def scenario(coordination: LocalCoordination) -> None:
        guest = Guest(coordination)
        assert await commit(guest, "known", {0: 1}) == {ErrorCode.none}
        cluster.stop()

        assert await commit(guest, "unknown", {0: 1}) == {ErrorCode.coordinator_not_available}
        assert await commit(guest, "known", {0: 2}) == {ErrorCode.none}

    with EmbeddedCluster(topics={"orders": 1}) as cluster:
        played(LocalSetup(upstream=connection_to(cluster), seed=re.compile(".*")), scenario)
