"""Attacks on the journal of groups that the proxy coordinates: through the proxy, where no client may reach it, and
directly at the broker, where the proxy recovers by itself. The proxy is in front of one real broker."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.errors import ErrorCode
from kcoord.testing.cluster import Cluster
from kcoord.testing.proxy import ProxyProcess
from kcoord.testing.tools import JavaTools
from tests.integration.conftest import SETTINGS
from tests.integration.proxy.journal_attacks import ATTACKS, UNKNOWN, Target, forged_commit, outcome
from tests.support.guest import commit_errors, commit_fields

WAIT: Final = 90.0
LOCAL: Final = ("--coordinate", "local", *(f"--set={name}={value}" for name, value in SETTINGS.items()))


class Scene(NamedTuple):
    proxy: ProxyProcess
    target: Target
    options: tuple[str, ...]


@pytest.fixture(scope="module")
def scene(kafka_cluster: Cluster, kcoord_proxy_factory: Callable[..., ProxyProcess]) -> Iterator[Scene]:
    """A proxy whose journal has a commit of the group `g` at offset 17."""
    yield from _scene(kafka_cluster, kcoord_proxy_factory)


@pytest.fixture
def separate_scene(kafka_cluster: Cluster, kcoord_proxy_factory: Callable[..., ProxyProcess]) -> Iterator[Scene]:
    """A separate scene for a test that stops its journal."""
    yield from _scene(kafka_cluster, kcoord_proxy_factory)


def _scene(kafka: Cluster, start: Callable[..., ProxyProcess]) -> Iterator[Scene]:
    name = f"hidden-{secrets.token_hex(3)}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])[name].result(WAIT)
    journal = f"journal-{name}"
    options = (*LOCAL, "--journal", "kafka", "--journal-topic", journal, "--journal-partitions", "1")
    proxy = start(kafka.bootstrap, *options)
    commit_when_ready(proxy, name, 17)
    with client_of(kafka.bootstrap) as client:
        asked = [{"name": each, "topic_id": None} for each in (journal, name)]
        ids = {each.name: each.topic_id for each in client.ask(ApiKey.METADATA, 12, topics=asked).topics}
    forged = forged_commit("g", name, ids[name], 99)
    target = Target(
        topic=journal,
        topic_id=ids[journal],
        transactional_id=f"kcoord-journal-{journal}",
        other_topic=name,
        forged=forged,
    )
    yield Scene(proxy, target, options)
    proxy.stop()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_request_through_the_proxy_reaches_the_journal(scene: Scene, kafka_cluster: Cluster, name: str) -> None:
    attack = ATTACKS[name]
    with client_of(scene.proxy.bootstrap) as client:
        errors, is_shown = outcome(client, attack, scene.target)

    assert errors == ({attack.error} if attack.error else set())
    assert not is_shown or attack.error, "errors repeat what was asked for; nothing else tells of it"
    assert offset_of(scene.proxy, scene.target.other_topic) == 17
    commit(scene.proxy, scene.target.other_topic, 17)
    assert scene.target.topic in AdminClient({"bootstrap.servers": kafka_cluster.bootstrap}).list_topics().topics


def test_nothing_of_the_attacks_is_left_when_another_proxy_reads_the_journal(
    separate_scene: Scene, kafka_cluster: Cluster, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> None:
    with client_of(separate_scene.proxy.bootstrap) as client:
        for attack in ATTACKS.values():
            outcome(client, attack, separate_scene.target)
    separate_scene.proxy.stop()

    successor = kcoord_proxy_factory(kafka_cluster.bootstrap, *separate_scene.options)

    eventually(lambda: offset_of(successor, separate_scene.target.other_topic) == 17, "the group as it was")
    successor.stop()


def test_other_topics_of_the_same_request_are_served(scene: Scene) -> None:
    target = scene.target
    both = [target.topic, target.other_topic]
    with client_of(scene.proxy.bootstrap) as client:
        partition = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        offsets = client.ask(
            ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": each, "partitions": [partition]} for each in both]
        ).topics
        metadata = client.ask(ApiKey.METADATA, 12, topics=[{"name": each, "topic_id": None} for each in both]).topics
        from_start = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
        asked = [{"topic": each, "partitions": [from_start]} for each in both]
        fetched = client.ask(ApiKey.FETCH, 12, max_bytes=1 << 20, topics=asked).responses

    assert {each.name: each.partitions[0].error_code for each in offsets} == {
        target.topic: UNKNOWN,
        target.other_topic: ErrorCode.none,
    }
    assert {each.name: (each.error_code, len(each.partitions)) for each in metadata} == {
        target.topic: (UNKNOWN, 0),
        target.other_topic: (ErrorCode.none, 1),
    }
    assert {each.topic: each.partitions[0].error_code for each in fetched} == {
        target.topic: UNKNOWN,
        target.other_topic: ErrorCode.none,
    }


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.ENVELOPE, 0),
        (ApiKey.ALLOCATE_PRODUCER_IDS, 0),
        (93, 0),
        (999, 0),
        (ApiKey.FETCH, 99),
        (ApiKey.DELETE_TOPICS, 99),
    ],
)
def test_what_the_proxy_cannot_read_is_neither_offered_nor_passed(scene: Scene, api_key: int, version: int) -> None:
    with client_of(scene.proxy.bootstrap) as client:
        offered = {
            each.api_key: range(each.min_version, each.max_version + 1)
            for each in client.ask(ApiKey.API_VERSIONS, 3).api_keys
        }
        assert version not in offered.get(api_key, range(0))
        header = api_key.to_bytes(2) + version.to_bytes(2) + (5).to_bytes(4) + b"\xff\xff"
        body = header + scene.target.topic.encode()
        client.send_bytes(len(body).to_bytes(4) + body)
        with pytest.raises(Disconnected):
            client.receive_frame()


def test_real_clients_neither_see_nor_delete_nor_fence_it(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.proxy.bootstrap})
    seen = admin.list_topics(timeout=WAIT).topics
    assert scene.target.other_topic in seen
    assert scene.target.topic not in seen
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics([scene.target.topic])[scene.target.topic].result(WAIT)
    impostor = Producer({"bootstrap.servers": scene.proxy.bootstrap, "transactional.id": scene.target.transactional_id})
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        impostor.init_transactions(WAIT)
    commit(scene.proxy, scene.target.other_topic, 17)


def test_kafkas_own_tools_find_no_such_topic(scene: Scene, java_tools: JavaTools) -> None:
    output = java_tools.run("topics", "--bootstrap-server", scene.proxy.bootstrap, "--list")
    assert scene.target.other_topic in output.stdout
    assert scene.target.topic not in output.stdout


def test_who_is_fenced_from_behind_the_proxy_takes_the_journal_back(
    separate_scene: Scene, kafka_cluster: Cluster
) -> None:
    fence_directly(kafka_cluster, separate_scene.target)

    commit_when_ready(separate_scene.proxy, separate_scene.target.other_topic, 18)

    assert offset_of(separate_scene.proxy, separate_scene.target.other_topic) == 18
    assert separate_scene.proxy.log().count("no proxy has taken over") == 1
    fence_directly(kafka_cluster, separate_scene.target)
    commit_when_ready(separate_scene.proxy, separate_scene.target.other_topic, 19)
    assert "fenced: another proxy" not in separate_scene.proxy.log()


def test_a_second_proxy_takes_over_for_good_also_if_an_outsider_fences_both(
    separate_scene: Scene, kafka_cluster: Cluster, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> None:
    topic = separate_scene.target.other_topic
    second = kcoord_proxy_factory(kafka_cluster.bootstrap, *separate_scene.options)
    commit_when_ready(second, topic, 20)
    assert try_to_commit(separate_scene.proxy, topic, 5) == {ErrorCode.not_coordinator}

    fence_directly(kafka_cluster, separate_scene.target)
    commit_when_ready(second, topic, 21)

    assert try_to_commit(separate_scene.proxy, topic, 5) == {ErrorCode.not_coordinator}, "it gave way, and stays so"
    assert offset_of(second, topic) == 21
    second.stop()


# Helpers.


def client_of(bootstrap: str) -> Client:
    host, _, port = bootstrap.rpartition(":")
    return Client(host, int(port), timeout=WAIT)


def try_to_commit(proxy: ProxyProcess, topic: str, offset: int) -> set[Any]:
    with client_of(proxy.bootstrap) as client:
        return commit_errors(client.ask(ApiKey.OFFSET_COMMIT, 8, **commit_fields("g", topic, {0: offset})))


def commit(proxy: ProxyProcess, topic: str, offset: int) -> None:
    assert try_to_commit(proxy, topic, offset) == {ErrorCode.none}


def commit_when_ready(proxy: ProxyProcess, topic: str, offset: int) -> None:
    eventually(lambda: try_to_commit(proxy, topic, offset) == {ErrorCode.none}, "a commit that is kept")


def offset_of(proxy: ProxyProcess, topic: str) -> int | None:
    with client_of(proxy.bootstrap) as client:
        asked = [{"group_id": "g", "member_id": None, "member_epoch": -1, "topics": None}]
        (group,) = client.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False).groups
        found = {each.name: each.partitions[0].committed_offset for each in group.topics}
        return found.get(topic)


def fence_directly(kafka: Cluster, target: Target) -> None:
    """Fences the journal's producer, as anybody with access to the cluster itself may do."""
    outsider = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": target.transactional_id})
    outsider.init_transactions(WAIT)


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline, pause = time.monotonic() + WAIT, threading.Event()
    while not is_so():
        assert time.monotonic() < deadline, f"waited {WAIT:g} s for {what}"
        pause.wait(0.1)
