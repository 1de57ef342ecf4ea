"""Groups that the proxy coordinates, persisted in a topic of the cluster behind it: the process loses nothing.

All tests run in front of one real broker. tests/proxy/local covers every order of events between the coordinator and
its journal; here are the real journal, real clients and real processes.
"""

import asyncio
import queue
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kcoord.admin.connecting.connection import ConnectionOptions, resolve_connection
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.proxy.local import kafka_writer
from kcoord.proxy.local.coordination import LocalCoordination, LocalSetup
from kcoord.proxy.local.kafka_topic import KafkaJournal, ensure_topic
from kcoord.proxy.local.kafka_writer import Committed, KafkaWriter, Loaded, Lost, Report, Round
from kcoord.proxy.local.runtime import RuntimeSetup
from kcoord.settings import Settings
from kcoord.testing.cluster import Cluster
from kcoord.testing.node import free_ports
from kcoord.testing.proxy import ProxyProcess
from tests.clients.group_members.member import Join
from tests.clients.group_members.programs import Programs
from tests.integration.conftest import SETTINGS
from tests.integration.support.group_coordinator import CoordinatorView
from tests.integration.support.group_member import Member
from tests.support.guest import (
    Guest,
    commit_errors,
    commit_fields,
    join_alone,
    member_fields,
    offsets_of,
)
from tests.support.procs import stopped

T = TypeVar("T")

WAIT: Final = 90.0
LONG: Final = 180_000
LOADING: Final = {ErrorCode.coordinator_load_in_progress}
LOCAL: Final = ("--coordinate", "local", *(f"--set={name}={value}" for name, value in SETTINGS.items()))

Plan = Mapping[str, tuple[str, int]]
Offsets = Mapping[tuple[str, int], tuple[int, int, str]]


@pytest.fixture
def kafka(kafka_cluster: Cluster) -> Cluster:
    """The shared cluster; names are unique."""
    return kafka_cluster


@pytest.fixture
def name() -> str:
    """A unique name for what a test creates in the cluster: a group, topics."""
    return f"local-{secrets.token_hex(3)}"


@pytest.fixture
def topic(kafka: Cluster, name: str) -> str:
    """A topic of 6 partitions."""
    view = CoordinatorView(kafka.bootstrap)
    view.create_topic(name, 6)
    eventually(lambda: view.has_partitions(name, 6), "the topic")
    view.close()
    return name


def test_members_go_on_with_what_they_have_when_the_proxy_is_killed_and_another_takes_its_place(
    kafka: Cluster, topic: str, member_programs: Programs, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> None:
    port, port_of_broker = free_ports(2)
    options = (
        *LOCAL,
        "--journal",
        "kafka",
        "--journal-topic",
        f"journal-{topic}",
        "--port-base",
        str(port_of_broker - 1),
    )
    first = kcoord_proxy_factory(kafka.bootstrap, *options, listen=f"127.0.0.1:{port}")
    clients = {"j": "java", "c": "confluent-kafka", "f": "franz-go"}
    members = [
        Member(member_programs, client=client, name=name, config=join_config(first, topic, name))
        for name, client in clients.items()
    ]
    try:
        for member in members:
            member.join()
        before = eventually(lambda: agreed_plan(first, topic, members), "the members to settle", members)
        write(kafka, topic, range(20))
        eventually(lambda: committed(first, topic) == dict.fromkeys(before, 20), "the first records", members)

        first.kill()
        second = kcoord_proxy_factory(kafka.bootstrap, *options, listen=f"127.0.0.1:{port}")
        write(kafka, topic, range(20, 40))
        eventually(lambda: committed(second, topic) == dict.fromkeys(before, 40), "the other records", members)
        after = eventually(lambda: agreed_plan(second, topic, members), "the same members", members)

        assert owners(after) == owners(before), "members and their partitions are those that the journal has"
        assert generation_of(after) >= generation_of(before)
        assert "groups=1" in second.log()
        assert topic not in groups_of(kafka.bootstrap), "the cluster knows nothing of the group"
        assert topic in groups_of(second.bootstrap)
    finally:
        for member in members:
            member.stop()


def test_a_new_proxy_fences_the_old_one_which_goes_on_forwarding(
    kafka: Cluster, topic: str, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> None:
    options = (*LOCAL, "--journal", "kafka", "--journal-topic", f"journal-{topic}", "--port-base", "0")
    old = kcoord_proxy_factory(kafka.bootstrap, *options)
    commit_at(old.bootstrap, topic, topic, {0: 17})

    new = kcoord_proxy_factory(kafka.bootstrap, *options)
    commit_at(new.bootstrap, topic, topic, {1: 4})

    assert commit_errors(try_to_commit(old.bootstrap, topic, topic, {0: 99})) == {ErrorCode.not_coordinator}
    with client_of(old.bootstrap) as client:
        (found,) = client.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[topic]).coordinators
        assert found.error_code is ErrorCode.coordinator_not_available
        (described,) = client.ask(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": topic}]).topics
        assert len(described.partitions) == 6, "what is no group's passes as before"
    assert offsets_at(new.bootstrap, topic) == {(topic, 0): (17, 5, ""), (topic, 1): (4, 5, "")}
    assert old.log().count("fenced: another proxy writes the journal") == 1
    old.stop()
    new.stop()


def test_offsets_are_taken_over_from_the_cluster_and_written_back_on_request(
    kafka: Cluster, topic: str, kcoord_proxy_factory: Callable[..., ProxyProcess], tmp_path: Path
) -> None:
    write(kafka, topic, range(50))
    commit_at(kafka.bootstrap, topic, topic, {0: 17, 3: 4})
    proxy = kcoord_proxy_factory(kafka.bootstrap, *LOCAL, "--port-base", "0", "--seed", f"{topic}|other")
    assert offsets_at(proxy.bootstrap, topic) == {(topic, 0): (17, 5, ""), (topic, 3): (4, 5, "")}
    commit_at(proxy.bootstrap, topic, topic, {0: 30, 1: 8})
    here = offsets_at(proxy.bootstrap, topic)
    copy = ("--from", f"broker:{proxy.bootstrap}", "--to", f"broker:{kafka.bootstrap}", "--group", topic)

    planned = kcoord("offsets", "copy", *copy, cwd=tmp_path)
    assert "first commit" in planned.stdout
    assert offsets_at(kafka.bootstrap, topic) == {(topic, 0): (17, 5, ""), (topic, 3): (4, 5, "")}, "a plan, no more"
    done = kcoord("offsets", "copy", *copy, "--execute", cwd=tmp_path)

    assert offsets_at(kafka.bootstrap, topic) == here == {**here, (topic, 0): (30, 5, ""), (topic, 1): (8, 5, "")}
    (undo_file,) = tmp_path.glob("kcoord-undo-*.json")
    assert f"kcoord offsets undo {undo_file.name} --execute -b {kafka.bootstrap}" in done.stderr
    kcoord("offsets", "diff", copy[1], copy[3], "--group", topic, "--exact", cwd=tmp_path)
    proxy.stop()


def test_during_an_outage_commits_are_refused_for_now_and_what_was_acknowledged_stays(
    kafka: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_writer, "_CALL_TIMEOUT", 2.0)
    upstream = resolve_connection(ConnectionOptions(bootstrap=kafka.bootstrap), {})
    journal = KafkaJournal(upstream=upstream, topic=f"journal-{topic}")
    runtime = RuntimeSetup(settings=Settings(group_initial_rebalance_delay_ms=0))
    setup = LocalSetup(upstream=upstream, journal=journal, runtime=runtime)
    (broker,) = kafka.brokers
    assert broker.pid is not None
    pid = broker.pid

    async def scenario() -> None:
        async with LocalCoordination(setup) as coordination:
            guest = Guest(coordination)
            await commit_until_done(guest, topic, 1)
            member_id, generation = await join_alone(Guest(coordination), f"{topic}-members")
            with stopped(pid):
                assert await commit(guest, topic, 2) == LOADING, "it could not be kept, and nobody is told that it was"
            await commit_until_done(guest, topic, 3)
            assert await offsets_of(guest, topic) == {(topic, 0): (3, 5, "")}
        async with LocalCoordination(setup) as elsewhere:
            while elsewhere.why_not_ready():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.05)
            assert await offsets_of(Guest(elsewhere), topic) == {(topic, 0): (3, 5, "")}
            beat = await Guest(elsewhere).ask(
                ApiKey.HEARTBEAT, 3, **member_fields(f"{topic}-members", member_id, generation)
            )
            assert beat.error_code is ErrorCode.none, "a member goes on in its generation"

    asyncio.run(scenario())


def test_a_journal_that_is_deleted_meanwhile_is_not_made_anew_in_another_way(
    kafka: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka_writer, "_CALL_TIMEOUT", 2.0)
    upstream = resolve_connection(ConnectionOptions(bootstrap=kafka.bootstrap), {})
    journal = KafkaJournal(upstream=upstream, topic=f"journal-{topic}")
    reason = f"the journal's topic 'journal-{topic}' is gone"

    async def scenario() -> None:
        async with LocalCoordination(LocalSetup(upstream=upstream, journal=journal)) as coordination:
            guest = Guest(coordination)
            await commit_until_done(guest, topic, 1)
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
            await asyncio.to_thread(admin.delete_topics([journal.topic])[journal.topic].result, WAIT)

            async with asyncio.timeout(WAIT):
                # The broker learns a little later than the controller that it is deleted.
                while await commit(guest, topic, 2) != LOADING:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.05)
                while reason not in caplog.text:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.05)
            assert await commit(guest, topic, 3) == LOADING
            assert journal.topic not in admin.list_topics(timeout=WAIT).topics, "a broker would make one that forgets"

    asyncio.run(scenario())
    assert caplog.text.count(reason) == 1


def test_a_writer_sees_who_has_written_since_and_reads_all_again_when_asked(kafka: Cluster, name: str) -> None:
    journal = KafkaJournal(
        upstream=resolve_connection(ConnectionOptions(bootstrap=kafka.bootstrap), {}), topic=f"journal-{name}"
    )
    topic = ensure_topic(journal)
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    first = KafkaWriter(journal, topic, reports.put)
    first.start()
    begun = reports.get(timeout=WAIT)
    assert isinstance(begun, Loaded)
    first.submit(Round(1, begun.epoch, [(1, b"key", b"value")], 5))
    assert reports.get(timeout=WAIT) == Committed(1)
    first.reload(begun.epoch)
    assert isinstance(reports.get(timeout=WAIT), Lost)
    again = reports.get(timeout=WAIT)
    assert isinstance(again, Loaded)
    assert again.partitions == [{}, {b"key": b"value"}, *[{}] * 6]
    first._claim_or_give_way()

    second = KafkaWriter(journal, topic, reports.put)
    second.start()
    assert isinstance(reports.get(timeout=WAIT), Loaded)

    with pytest.raises(kafka_writer._Superseded):
        first._claim_or_give_way()
    for writer in (first, second):
        writer.stop()


# Helpers.


async def commit(guest: Guest, topic: str, offset: int) -> set[Any]:
    return commit_errors(await guest.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields(topic, topic, {0: offset})))


async def commit_until_done(guest: Guest, topic: str, offset: int) -> None:
    async with asyncio.timeout(WAIT):
        while (errors := await commit(guest, topic, offset)) != {ErrorCode.none}:
            assert errors == LOADING
            await asyncio.sleep(0.1)


def eventually(find: Callable[[], T | None], what: str, members: list[Member] | None = None) -> T:
    deadline = time.monotonic() + WAIT
    while not (found := find()):
        words = "\n".join(f"{member}: {member.last_output()[-1500:]}" for member in members or ())
        assert time.monotonic() < deadline, f"waited {WAIT:g} s for {what}\n{words}"
        time.sleep(0.05)
    return found


def join_config(proxy: ProxyProcess, topic: str, name: str) -> Join:
    return Join(
        bootstrap=proxy.bootstrap,
        group=topic,
        topics=[topic],
        client_id=name,
        assignor="range",
        instance_id=None,
        session_timeout_ms=LONG,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=LONG,
        metadata_max_age_ms=LONG,
        commits="each-poll",
    )


def agreed_plan(proxy: ProxyProcess, topic: str, members: list[Member]) -> Plan | None:
    """Returns the member id and generation of each partition, if the coordinator and all members report the same."""
    view = CoordinatorView(proxy.bootstrap)
    try:
        if not view.is_ready(topic):
            return None
        described = view.describe(topic)
        owned = {member.member_id: member.owned for member in members}
        generations = {member.generation for member in members}
        if described.state != "Stable" or owned != described.assignments or len(generations) != 1:
            return None
        (generation,) = generations
        if not view.is_at(topic, generation, members[0].member_id, None):
            return None
        return {partition: (owner, generation) for owner, parts in owned.items() for partition in sorted(parts)}
    finally:
        view.close()


def owners(plan: Plan) -> dict[str, str]:
    return {partition: member_id for partition, (member_id, _) in plan.items()}


def generation_of(plan: Plan) -> int:
    (generation,) = {generation for _, generation in plan.values()}
    return generation


def committed(proxy: ProxyProcess, group: str) -> dict[str, int]:
    view = CoordinatorView(proxy.bootstrap)
    try:
        return view.committed(group) if view.is_ready(group) else {}
    finally:
        view.close()


def write(kafka: Cluster, topic: str, offsets: range) -> None:
    """Writes records with these offsets to each partition; members expect the value to be the offset."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for partition in range(6):
        for offset in offsets:
            producer.produce(topic, str(offset).encode(), partition=partition)
    assert producer.flush(WAIT) == 0


def client_of(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client(host, int(port))


def groups_of(bootstrap: str) -> set[str]:
    with client_of(bootstrap) as client:
        return {group.group_id for group in client.ask(ApiKey.LIST_GROUPS, 4, states_filter=[]).groups}


def try_to_commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> Any:
    """Commits without a member. There is one broker, which coordinates."""
    with client_of(bootstrap) as client:
        return client.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields(group, topic, offsets))


def commit_at(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    eventually(lambda: commit_errors(try_to_commit(bootstrap, group, topic, offsets)) == {ErrorCode.none}, "the commit")


def offsets_at(bootstrap: str, group: str) -> Offsets:
    asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    with client_of(bootstrap) as client:
        (answered,) = client.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False).groups
    assert not answered.error_code, answered
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in answered.topics
        for each in topic.partitions
    }


def kcoord(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a command that must succeed."""
    command = [sys.executable, "-m", "kcoord.commands", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=WAIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
