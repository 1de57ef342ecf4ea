"""The clusters for the rebalance scenarios, selected by KCOORD_TEST_TARGET.

kcoord   `kcoord serve`; the default
kafka    a real Kafka
proxy    a real Kafka of 3 brokers behind `kcoord proxy`
proxy-local
         the same, with groups coordinated by the proxy and persisted in a topic of that Kafka

rebalances/test_by_proxy.py always plays some of them through the proxy, too.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from kcoord.testing.kafka import KafkaCluster
from tests.clients.group_members.programs import Programs
from tests.integration.support.group_scene import GroupScene
from tests.integration.support.secure_kafka import SecureKafka
from tests.support.differential.pair import wait_for_coordinators

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}

COORDINATING: Final = {
    "upstream": (),
    "local": (
        *("--coordinate", "local", "--journal", "kafka", "--journal-replication", "3"),
        *(f"--set={name}={value}" for name, value in SETTINGS.items()),
    ),
}
"""The options of `kcoord proxy`, by the coordinator of groups."""


@pytest.fixture(scope="session")
def three_brokers(kafka_cluster_factory: Callable[..., KafkaCluster]) -> KafkaCluster:
    """A real Kafka for all tests through a proxy; its internal topics survive any one broker."""
    replicas = {"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3"}
    properties = {"offsets.topic.num.partitions": "12", "transaction.state.log.min.isr": "1"}
    return kafka_cluster_factory(brokers=3, properties={**SETTINGS, **replicas, **properties})


@pytest.fixture(scope="session")
def member_programs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Programs:
    return Programs(tmp_path_factory.mktemp("members"), lambda: request.getfixturevalue("java_tools"))


@pytest.fixture(scope="session")
def group_bootstrap(request: pytest.FixtureRequest) -> str:
    """The bootstrap endpoint of the cluster of all scenarios; each has its own topics and its own group."""
    match os.environ.get("KCOORD_TEST_TARGET", "kcoord"):
        case "kcoord":
            cluster = request.getfixturevalue("kcoord_cluster_factory")(settings=SETTINGS)
        case "kafka":
            cluster = request.getfixturevalue("kafka_cluster_factory")(properties=SETTINGS)
        case "proxy" | "proxy-local" as target:
            upstream = request.getfixturevalue("three_brokers")
            options = COORDINATING[target.removeprefix("proxy").removeprefix("-") or "upstream"]
            cluster = request.getfixturevalue("kcoord_proxy_factory")(upstream.bootstrap, *options)
        case unknown:
            pytest.fail(
                f"KCOORD_TEST_TARGET={unknown} is unknown: say kcoord, kafka, proxy or proxy-local", pytrace=False
            )
    host, _, port = cluster.bootstrap.rpartition(":")
    wait_for_coordinators((host, int(port)))
    return str(cluster.bootstrap)


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory, java_tools: object) -> Iterator[SecureKafka]:
    """A real broker with a listener for every kind of security, and client.properties for them."""
    with SecureKafka(tmp_path_factory.mktemp("secure")) as secure:
        yield secure


@pytest.fixture
def scene(group_bootstrap: str, member_programs: Programs, request: pytest.FixtureRequest) -> Iterator[GroupScene]:
    words = re.sub(r"[^a-z]+", "-", request.node.name.removeprefix("test_"))
    scene = GroupScene(group_bootstrap, member_programs, name=f"{words.strip('-')[:60]}-{secrets.token_hex(2)}")
    yield scene
    scene.close()
