"""Brokers from the image apache/kafka, started by testcontainers where a Docker engine answers."""

import gc
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from .cluster import Broker, Cluster, wait_for_metadata
from .errors import MissingProgramError, NotOurClusterError, NotReadyError, StartError, tail
from .jars import KAFKA_VERSION
from .kafka import new_cluster_id
from .node import free_ports
from .properties import BrokerSpec, server_properties, to_environment

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
DATA_DIR = "/var/lib/kafka/data"
INTERNAL_PORT = 19092
CONTROLLER_PORT = 19093


class DockerCluster(Cluster):
    """A real Kafka cluster for tests in Docker containers on their own network; each broker's client port is the same
    inside and outside."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        advertised: Mapping[int, str] | None = None,
        start_timeout: float = 180.0,
    ) -> None:
        self.cluster_id = new_cluster_id()
        self._broker_count = brokers
        self._properties = dict(properties or {})
        self._advertised = dict(advertised or {})
        self._start_timeout = start_timeout
        self._docker_host = ""
        self._specs: list[BrokerSpec] = []
        self._network: Network | None = None
        self._containers: dict[int, DockerContainer] = {}
        self._final_log = ""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients: host:port,host:port."""
        return ",".join(f"{self._docker_host}:{spec.client_port}" for spec in self._specs)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Raises NotOurClusterError: what is in containers cannot be seen."""
        raise NotOurClusterError(
            "the process ids, logs and data dirs of brokers in containers are out of reach: "
            "unset KCOORD_TEST_KAFKA to run Kafka from its jars"
        )

    @property
    def is_running(self) -> bool:
        """Whether the containers were started and not stopped."""
        return bool(self._containers)

    def start(self) -> Self:
        """Starts the containers and waits until the brokers serve; does nothing if they run already."""
        if self.is_running:
            return self
        self._docker_host = docker_host()
        self._specs = container_specs(self._broker_count, self._docker_host, self._advertised)
        try:
            self._start_containers()
            self._wait_until_ready(self._specs)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the containers and removes their network."""
        if self._containers:
            self._final_log = self.log_tail()
        for container in self._containers.values():
            container.stop()
        self._containers = {}
        if self._network:
            self._network.remove()
            self._network = None

    def kill(self, node: int) -> None:
        """Kills the broker's container by SIGKILL."""
        self._containers[node].get_wrapped_container().kill()

    def restart(self, node: int) -> None:
        """Restarts the broker's container, and waits until all brokers that run serve."""
        self._containers[node].get_wrapped_container().restart()
        self._wait_until_ready([spec for spec in self._specs if self._is_up(spec.node)])

    def log_tail(self) -> str:
        """Returns the last lines of the containers' logs."""
        if not self._containers:
            return self._final_log
        return "\n\n".join(_log_tail(node, container) for node, container in self._containers.items())

    def _start_containers(self) -> None:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.network import Network

        self._network = Network().create()
        for spec in self._specs:
            container = DockerContainer(IMAGE)
            container.with_network(self._network).with_network_aliases(spec.host)
            container.with_bind_ports(spec.client_port, spec.client_port)
            for key, value in container_environment(spec, self._specs, self.cluster_id, self._properties).items():
                container.with_env(key, value)
            self._containers[spec.node] = container
            container.start()

    def _wait_until_ready(self, specs: Sequence[BrokerSpec]) -> None:
        deadline = time.monotonic() + self._start_timeout
        for spec in specs:
            address = f"{self._docker_host}:{spec.client_port}"
            try:
                wait_for_metadata(address, brokers=len(specs), cluster_id=self.cluster_id, deadline=deadline)
            except NotReadyError as error:
                raise StartError(f"{error}\n{self.log_tail()}") from error

    def _is_up(self, node: int) -> bool:
        container = self._containers[node]
        container.reload()
        return bool(container.status == "running")


def container_specs(brokers: int, docker_host: str, advertised: Mapping[int, str]) -> list[BrokerSpec]:
    """Returns the addresses and ports of so many brokers in containers, which reach each other by name, and which
    clients reach by the Docker host's ports. `advertised` is host:port by node."""
    return [
        BrokerSpec(
            node=node,
            bind="",  # every interface of the container; no other container shares them
            host=f"kafka-{node}",
            client_port=port,
            internal_port=INTERNAL_PORT,
            controller_port=CONTROLLER_PORT,
            advertised=advertised.get(node, f"{docker_host}:{port}"),
        )
        for node, port in enumerate(free_ports(brokers), start=1)
    ]


def container_environment(
    spec: BrokerSpec, specs: Sequence[BrokerSpec], cluster_id: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Returns the environment variables of a broker's container, with all its server properties: given any property,
    the image ignores its own defaults."""
    properties = server_properties(spec, specs, log_dirs=DATA_DIR, overrides=overrides)
    return {"CLUSTER_ID": cluster_id, **to_environment(properties)}


def docker_host() -> str:
    """Returns the host at which clients reach the published ports of containers. Raises MissingProgramError if no
    Docker engine answers."""
    # Without an engine its client leaves a socket open: collecting it here keeps the warning out of later tests.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            return _ask_engine()
        except ImportError:
            why = "the package is missing: pip install testcontainers"
        # Any error of the client's many layers (no socket, no permission, a bad DOCKER_HOST) means the same here.
        except Exception as error:
            why = str(error)
        gc.collect()
    raise MissingProgramError(f"no Docker engine answers ({why}): start one, or unset KCOORD_TEST_KAFKA")


def _ask_engine() -> str:
    from testcontainers.core.docker_client import DockerClient

    engine = DockerClient()
    try:
        engine.client.ping()
        return str(engine.host())
    finally:
        engine.client.close()


def _log_tail(node: int, container: "DockerContainer") -> str:
    log: bytes = container.get_wrapped_container().logs(tail=40)
    return f"the end of the log of container kafka-{node}:\n{tail(log.decode(errors='replace'))}"
