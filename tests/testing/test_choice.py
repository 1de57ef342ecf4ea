import pytest

from kcoord.testing.choice import choose_cluster
from kcoord.testing.cluster import Cluster, ExistingCluster
from kcoord.testing.containers import IMAGE, DockerCluster, container_environment, container_specs, docker_host
from kcoord.testing.errors import FixtureError, MissingProgramError, NotOurClusterError
from kcoord.testing.kafka import KafkaCluster


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KCOORD_TEST_KAFKA", raising=False)
    monkeypatch.delenv("KCOORD_TEST_BOOTSTRAP", raising=False)


def test_the_jars_are_chosen_unless_told_otherwise() -> None:
    assert isinstance(choose_cluster(), KafkaCluster)


def test_docker_is_chosen_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_TEST_KAFKA", "docker")
    assert isinstance(choose_cluster(brokers=3), DockerCluster)


def test_an_unknown_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_TEST_KAFKA", "podman")
    with pytest.raises(FixtureError, match="KCOORD_TEST_KAFKA=podman is unknown: say jars or docker"):
        choose_cluster()


def test_a_cluster_that_is_there_is_used_and_left_running(
    kafka_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCOORD_TEST_BOOTSTRAP", kafka_cluster.bootstrap)
    with choose_cluster() as cluster:
        assert cluster.bootstrap == kafka_cluster.bootstrap
    with choose_cluster() as again:
        assert isinstance(again, ExistingCluster)


def test_a_cluster_that_is_there_is_not_ours_to_harm_or_to_look_into() -> None:
    cluster = ExistingCluster("kafka.example:9092")
    for touch in (lambda: cluster.kill(1), lambda: cluster.restart(1), lambda: cluster.brokers):
        with pytest.raises(NotOurClusterError, match=r"KCOORD_TEST_BOOTSTRAP points at kafka\.example:9092"):
            touch()


def test_a_cluster_that_is_there_keeps_its_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_TEST_BOOTSTRAP", "kafka.example:9092")
    with pytest.raises(NotOurClusterError, match=r"cannot be given server properties \(group\.max\.size\)"):
        choose_cluster(properties={"group.max.size": "4"})


def test_brokers_in_containers_meet_by_name_and_their_clients_by_port() -> None:
    specs = container_specs(3, "docker.example", {})
    environment = container_environment(specs[1], specs, "id", {"group.max.size": "4"})
    port = specs[1].client_port
    assert IMAGE == "apache/kafka:4.3.1"
    assert environment["CLUSTER_ID"] == "id"
    assert environment["KAFKA_NODE_ID"] == "2"
    assert environment["KAFKA_GROUP_MAX_SIZE"] == "4"
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == "1@kafka-1:19093,2@kafka-2:19093,3@kafka-3:19093"
    assert environment["KAFKA_LISTENERS"] == f"CLIENT://:{port},INTERNAL://:19092,CONTROLLER://:19093"
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"CLIENT://docker.example:{port},INTERNAL://kafka-2:19092"


def test_a_missing_engine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(MissingProgramError, match=r"no Docker engine answers .* unset KCOORD_TEST_KAFKA"):
        docker_host()


def test_a_broker_in_a_container_is_killed_and_restarted() -> None:
    try:
        docker_host()
    except MissingProgramError as error:
        pytest.skip(str(error))
    with DockerCluster(properties={"group.max.size": "4"}) as kafka:
        kafka.kill(1)
        kafka.restart(1)
        assert "Kafka Server started" in kafka.log_tail()
