"""One broker process of a local cluster, with its folder and its log."""

import contextlib
import itertools
import random
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import process
from .errors import PortTakenError, StartError, tail
from .jvm.java import QUICK_FLAGS, Jvm
from .properties import BrokerSpec, Listener, server_properties, to_text

# Below the ports that Linux (32768–60999) and macOS (49152–65535) give to outgoing connections, so that none of these
# can occupy the port of a killed broker when it is restarted.
PORTS = range(15_000, 30_000)
HOST = "127.0.0.1"
STARTED = "Kafka Server started"  # the last line of a start that succeeded


class Node:
    """One broker process of a KafkaCluster, which can be started, killed and started again in the same folder."""

    def __init__(self, jvm: Jvm, spec: BrokerSpec, folder: Path, *, flags: Sequence[str] = QUICK_FLAGS) -> None:
        self.spec = spec
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = folder / "kafka.log"
        self._jvm = jvm
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The broker's process id; None while it is down."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def prepare(self, specs: Sequence[BrokerSpec], overrides: Mapping[str, str]) -> None:
        """Writes the broker's server properties and makes its folders. `specs` are all brokers of the cluster."""
        self.folder.joinpath("tmp").mkdir(parents=True)
        properties = server_properties(self.spec, specs, log_dirs=str(self.data_dir), overrides=overrides)
        self._properties_path.write_text(to_text(properties))

    def format(self, cluster_id: str, *, scram_users: Sequence[str] = ()) -> None:
        """Begins to format the broker's data dir with kafka-storage; formatted() waits for the end. Users are written
        as its --add-scram takes them."""
        users = [f"--add-scram={user}" for user in scram_users]
        where = ["-c", str(self._properties_path)]
        self._run("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", *users, *where)

    def formatted(self) -> None:
        """Waits for the end of format(). Raises StartError with its output, such as a property that Kafka refuses."""
        assert self._process, "format() comes first"
        if exit_code := self._process.wait():
            raise StartError(f"{self.name} could not format its data dir (exit code {exit_code})\n{self.log_tail()}")

    def start(self) -> None:
        """Starts the broker process, without waiting until it serves."""
        self._run("kafka.Kafka", str(self._properties_path))

    @property
    def has_started(self) -> bool:
        """Whether all listeners of the broker are open, by its log.

        An answer does not show that: a broker joins the cluster, and one listener serves, while another still fails to
        open.
        """
        return STARTED in self._log_since_start()

    def check(self) -> None:
        """Raises StartError, with the tail of the log, if the broker process has ended."""
        assert self._process, "start() comes first"
        exit_code = self._process.poll()
        if exit_code is None:
            return
        kind = PortTakenError if "Address already in use" in self._log_since_start() else StartError
        raise kind(f"{self.name} ended with exit code {exit_code} while it was starting\n{self.log_tail()}")

    def kill(self) -> None:
        """Kills the broker process by SIGKILL: it cannot shut down cleanly."""
        assert self._process, "start() comes first"
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Sends the broker process SIGTERM, without waiting."""
        if self._process and self._process.poll() is None:
            self._process.terminate()

    def stop(self, *, grace: float) -> None:
        """Shuts the broker process down, and kills it if it has not ended after `grace` seconds."""
        if self._process:
            process.stop(self._process, grace=grace)

    def log_tail(self) -> str:
        """Returns the last lines of the broker's log."""
        return f"the end of {self.log_path} (KCOORD_TEST_KEEP=1 keeps it):\n{tail(self._log_text())}"

    @property
    def name(self) -> str:
        """The broker's name in error messages."""
        return f"Kafka broker {self.spec.node}"

    @property
    def _properties_path(self) -> Path:
        return self.folder / "server.properties"

    def _log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _log_since_start(self) -> str:
        return self._log_text()[self._log_start :]

    def _run(self, main_class: str, *arguments: str) -> None:
        self._log_start = len(self._log_text())
        command = self._jvm.command(
            main_class, *arguments, temp_folder=self.folder / "tmp", flags=self._flags, log_level="info"
        )
        with self.log_path.open("ab") as log:
            self._process = process.spawn(command, folder=self.folder, stdout=log, stderr=log)


def choose_broker_specs(
    brokers: int, advertised: Mapping[int, str], listeners: Mapping[str, str] | None = None
) -> list[BrokerSpec]:
    """Chooses free loopback ports for so many brokers, numbered from 1, and returns their addresses. `advertised` is
    host:port by node, `listeners` are security protocols of further listeners by name."""
    more = listeners or {}
    ports = iter(free_ports((3 + len(more)) * brokers))
    specs = []
    for node in range(1, brokers + 1):
        client_port = next(ports)
        spec = BrokerSpec(
            node=node,
            bind=HOST,
            host=HOST,
            client_port=client_port,
            internal_port=next(ports),
            controller_port=next(ports),
            advertised=advertised.get(node, f"{HOST}:{client_port}"),
            listeners={name: Listener(protocol=protocol, port=next(ports)) for name, protocol in more.items()},
        )
        specs.append(spec)
    return specs


def free_ports(count: int) -> list[int]:
    """Returns so many loopback ports that nobody listens on now."""
    candidates = random.sample(PORTS, len(PORTS))
    free = (port for port in candidates if _is_free(port))
    return list(itertools.islice(free, count))


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        # Kafka sets it too: connections of a dead broker that linger in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
