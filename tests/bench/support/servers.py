"""The servers that are measured: plain processes, each timed from its start to its first Metadata answer."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.testing.jars import kafka_jvm
from kcoord.testing.jvm.java import QUICK_FLAGS
from kcoord.testing.kafka import new_cluster_id
from kcoord.testing.node import HOST, Node, choose_broker_specs, free_ports

START_TIMEOUT = 120.0
STOP_TIMEOUT = 30.0  # a broker that is killed would check its logs at the next start
COOLDOWN = 4.0  # before the clock starts: the previous server, its files and its heap must be gone
# The flags of bin/kafka-server-start.sh and bin/kafka-run-class.sh.
SCRIPT_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


# Common to all servers. Retention is enforced at once, so that topics have their size while they are measured.
SETTINGS = {"log.retention.check.interval.ms": "500"}


class Prepared(Protocol):
    """Prepares what must exist before the clock starts, and returns the command that is then timed."""

    def prepare(self, folder: Path) -> tuple[list[str], int]: ...


class Kcoord:
    def __init__(self, settings: Mapping[str, str] = SETTINGS, *, has_data_dir: bool = False) -> None:
        """`has_data_dir` stores records in a data folder, as a broker does."""
        self._settings = settings
        self._has_data_dir = has_data_dir

    def prepare(self, folder: Path) -> tuple[list[str], int]:
        """Returns the command of `kcoord serve` on a free port."""
        port = free_ports(1)[0]
        options = [f"--set={name}={value}" for name, value in self._settings.items()]
        options += [f"--data-dir={folder / 'data'}"] if self._has_data_dir else []
        command = str(Path(sys.executable).parent / "kcoord")
        return [command, "serve", "--listen", f"{HOST}:{port}", *options], port


class Kafka:
    def __init__(self, flags: Sequence[str], *, uses_archive: bool, settings: Mapping[str, str] = SETTINGS) -> None:
        self._flags = flags
        self._uses_archive = uses_archive
        self._settings = settings

    def prepare(self, folder: Path) -> tuple[list[str], int]:
        """Formats a broker; the class archive of kcoord.testing lets a JVM start faster than Kafka's scripts do."""
        jvm = kafka_jvm()
        if not self._uses_archive:
            jvm = replace(jvm, archive_flags=())
        (spec,) = choose_broker_specs(1, {})
        node = Node(jvm, spec, folder / "node", flags=self._flags)
        node.prepare([spec], self._settings)
        node.format(new_cluster_id())
        node.formatted()
        arguments = ("kafka.Kafka", str(node.folder / "server.properties"))
        command = jvm.command(*arguments, temp_folder=folder / "node" / "tmp", flags=self._flags, log_level="info")
        return command, spec.client_port


class PreparedBefore:
    """A server that was prepared before, on the same folder."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self._command = command
        self._port = port

    def prepare(self, folder: Path) -> tuple[list[str], int]:
        return list(self._command), self._port


SERVERS: dict[str, Prepared] = {
    "kcoord": Kcoord(),
    "Kafka, quick flags": Kafka(QUICK_FLAGS, uses_archive=True),
    "Kafka, script's flags": Kafka(SCRIPT_FLAGS, uses_archive=False),
}


class Running:
    """`with Running(SERVERS["kcoord"]) as server:` has answered Metadata, `server.start_seconds` after its start."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="kcoord-bench-"))
        try:
            command, self.port = self._prepared.prepare(self._folder)
            time.sleep(COOLDOWN)
            with self._folder.joinpath("log").open("wb") as log:
                self.started = started = time.perf_counter()
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        try:
            self._wait_for_metadata()
        except BaseException:
            self._stop()
            raise
        self.start_seconds = time.perf_counter() - started
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def memory(self) -> tuple[float, float]:
        """Returns resident and proportional set size, in MiB."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        sizes = {line.split()[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
        return sizes["Rss:"], sizes["Pss:"]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait_for_metadata(self) -> None:
        """Waits for a Metadata answer with a broker: an open port alone serves nothing yet."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), Client(HOST, self.port, timeout=5) as client:
                while self._process.poll() is None and time.monotonic() < deadline:
                    if client.ask(ApiKey.METADATA, 12, topics=()).brokers:
                        return
                    time.sleep(0.005)
            time.sleep(0.005)
        raise RuntimeError(f"no Metadata answer; its last words:\n{self._folder.joinpath('log').read_text()[-3000:]}")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
