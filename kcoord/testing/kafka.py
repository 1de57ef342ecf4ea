"""A Kafka cluster from Kafka's jars: brokers in KRaft mode, on free loopback ports."""

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from .cluster import Broker, Cluster, wait_for_metadata
from .errors import NotReadyError, PortTakenError, StartError
from .jars import kafka_jvm
from .jvm.java import QUICK_FLAGS, Jvm
from .node import Node, choose_broker_specs

START_ATTEMPTS = 3
RESTART_GRACE = 30.0
# Short, since the folder is deleted: the last leader of a quorum would wait 5 s for followers that have gone.
STOP_GRACE = 2.0


class KafkaCluster(Cluster):
    """A real Kafka cluster for tests, run from Kafka's jars on free loopback ports, as a context manager. The brokers
    are also the controllers.

    with KafkaCluster(brokers=3, properties={"group.max.size": "4"}) as kafka: ...
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        advertised: Mapping[int, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        scram_users: Sequence[str] = (),
        jvm_flags: Sequence[str] = QUICK_FLAGS,
        start_timeout: float = 120.0,
    ) -> None:
        """Server properties override the defaults; `advertised` is host:port by node, for a proxy in front.

        `listeners` are further listeners for clients: security protocols by name, such as {"SECURE": "SASL_SSL"};
        bootstrap_of returns their addresses. Users are written as kafka-storage's --add-scram takes them.
        """
        self.cluster_id = new_cluster_id()
        self._broker_count = brokers
        self._properties = dict(properties or {})
        self._advertised = dict(advertised or {})
        self._listeners = dict(listeners or {})
        self._scram_users = tuple(scram_users)
        self._jvm_flags = tuple(jvm_flags)
        self._start_timeout = start_timeout
        self._folder: Path | None = None
        self._nodes: list[Node] = []
        self._final_log = ""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients: host:port,host:port."""
        return ",".join(node.spec.client_address for node in self._nodes)

    def bootstrap_of(self, listener: str) -> str:
        """Returns the bootstrap servers, host:port,host:port, of one of the listeners that the cluster was given in
        addition to the default one."""
        return ",".join(f"{node.spec.host}:{node.spec.listeners[listener].port}" for node in self._nodes)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers with their process ids, ports, logs and data dirs."""
        return tuple(_broker(node) for node in self._nodes)

    @property
    def is_running(self) -> bool:
        """Whether start() was called and stop() was not."""
        return self._folder is not None

    def start(self) -> Self:
        """Starts the brokers and waits until they serve; does nothing if they run already."""
        if self.is_running:
            return self
        jvm = kafka_jvm()
        for _ in range(START_ATTEMPTS - 1):
            with contextlib.suppress(PortTakenError):
                return self._start_on_new_ports(jvm)
        return self._start_on_new_ports(jvm)

    def stop(self) -> None:
        """Stops the brokers and deletes their folder, unless KCOORD_TEST_KEEP=1; may be called again."""
        if not self._folder:
            return
        # All at once: a single broker would wait for the quorum to accept its shutdown.
        for node in self._nodes:
            node.terminate()
        deadline = time.monotonic() + STOP_GRACE
        for node in self._nodes:
            node.stop(grace=max(0.0, deadline - time.monotonic()))
        self._final_log = self.log_tail()
        if os.environ.get("KCOORD_TEST_KEEP") != "1":
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self, node: int) -> None:
        """Kills one broker by SIGKILL."""
        self._node(node).kill()

    def restart(self, node: int) -> None:
        """Starts a broker again, on the same port with the same data, and waits until it serves."""
        restarted = self._node(node)
        restarted.stop(grace=RESTART_GRACE)
        running = [each for each in self._nodes if each.pid]
        restarted.start()
        self._wait_until_ready([*running, restarted])

    def log_tail(self) -> str:
        """Returns the last lines of the brokers' logs."""
        if not self._folder:
            return self._final_log
        return "\n\n".join(node.log_tail() for node in self._nodes)

    def _start_on_new_ports(self, jvm: Jvm) -> Self:
        try:
            self._start_nodes(jvm)
        except BaseException:
            self.stop()
            raise
        return self

    def _start_nodes(self, jvm: Jvm) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kcoord-kafka-"))
        specs = choose_broker_specs(self._broker_count, self._advertised, self._listeners)
        self._nodes = [Node(jvm, spec, self._folder / f"node-{spec.node}", flags=self._jvm_flags) for spec in specs]
        for node in self._nodes:
            node.prepare(specs, self._properties)
            node.format(self.cluster_id, scram_users=self._scram_users)
        for node in self._nodes:
            node.formatted()
        for node in self._nodes:
            node.start()
        self._wait_until_ready(self._nodes)

    def _wait_until_ready(self, nodes: Sequence[Node]) -> None:
        """Asks each broker itself, over the internal listener, which needs no proxy and no password."""

        def check() -> None:
            for node in nodes:
                node.check()

        deadline = time.monotonic() + self._start_timeout
        for node in nodes:
            address = node.spec.internal_address
            try:
                wait_for_metadata(
                    address, brokers=len(nodes), cluster_id=self.cluster_id, deadline=deadline, check=check
                )
            except NotReadyError as error:
                raise StartError(f"{error}\n{self.log_tail()}") from error
        self._wait_until_started(nodes, deadline)

    def _wait_until_started(self, nodes: Sequence[Node], deadline: float) -> None:
        while starting := [node.name for node in nodes if not node.has_started]:
            for node in nodes:
                node.check()
            if time.monotonic() > deadline:
                raise StartError(f"{', '.join(starting)}: still starting when the time was up\n{self.log_tail()}")
            time.sleep(0.05)

    def _node(self, node: int) -> Node:
        assert self._folder, "the cluster is not running"
        assert 1 <= node <= len(self._nodes), f"there is no broker {node}: they are numbered 1 to {len(self._nodes)}"
        return self._nodes[node - 1]


def new_cluster_id() -> str:
    """Returns a fresh cluster id: 22 characters that Kafka reads as the base64 of a UUID."""
    return f"kcoord-{uuid.uuid4().hex[:14]}A"


def _broker(node: Node) -> Broker:
    return Broker(
        node=node.spec.node,
        port=node.spec.client_port,
        pid=node.pid,
        log_path=node.log_path,
        data_dir=node.data_dir,
    )
