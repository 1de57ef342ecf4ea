"""Chooses the real Kafka that the environment asks for: Kafka's jars, the Docker image, or a cluster that already
runs."""

import os
from collections.abc import Mapping

from .cluster import Cluster, ExistingCluster
from .containers import DockerCluster
from .errors import FixtureError
from .kafka import KafkaCluster


def choose_cluster(
    brokers: int = 1,
    *,
    properties: Mapping[str, str] | None = None,
    advertised: Mapping[int, str] | None = None,
) -> Cluster:
    """Returns a real Kafka cluster for tests, not started yet, of the kind that KCOORD_TEST_BOOTSTRAP and
    KCOORD_TEST_KAFKA name: an existing one, one from jars or one in Docker. `advertised` is host:port by node, for a
    proxy in front."""
    if bootstrap := os.environ.get("KCOORD_TEST_BOOTSTRAP"):
        return ExistingCluster(bootstrap, brokers=brokers, properties=properties, advertised=advertised)
    match os.environ.get("KCOORD_TEST_KAFKA", "jars"):
        case "jars":
            return KafkaCluster(brokers, properties=properties, advertised=advertised)
        case "docker":
            return DockerCluster(brokers, properties=properties, advertised=advertised)
        case unknown:
            raise FixtureError(f"KCOORD_TEST_KAFKA={unknown} is unknown: say jars or docker")
