"""The load generator of load/, built when it is first needed, and its results.

It is a Go program with a connection and a goroutine for each member. Heartbeats and commits are encoded beforehand;
joins and syncs are not, and that is in the time of a rebalance.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Protocol, Self

from tests.clients.programs import build_go

SOURCE = Path(__file__).parent / "load"
TIMEOUT = 600.0


class Served(Protocol):
    """A server and its process."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """The result of one window of requests, as many as the server answers. CPU is in seconds; p50 and p99 are seconds
    of latency."""

    requests: int
    refused: int
    seconds: float
    server_cpu: float
    load_cpu: float
    p50: float
    p99: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def per_cpu_second(self) -> float:
        return self.requests / self.server_cpu

    @property
    def server_cores(self) -> float:
        """The average number of cores that the server used."""
        return self.server_cpu / self.seconds

    @property
    def load_cores(self) -> float:
        return self.load_cpu / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """The seconds of each rebalance: from when all members rejoin until the last has its assignment."""

    rounds: list[float]
    server_cpu: float
    load_cpu: float


class Generator:
    """`with Generator() as load: load.flood("heartbeat", server, members=200, inflight=8)`"""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="kcoord-load-")
        self._binary = build_go(SOURCE, Path(self._folder.name))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._folder.cleanup()

    def flood(self, verb: str, server: Served, **options: object) -> Flood:
        """Runs the verb heartbeat or commit; options are the program's, such as members, groups, inflight, window."""
        return Flood(**self._run(verb, server, options))

    def rebalance(self, server: Served, **options: object) -> Rebalances:
        return Rebalances(**self._run("rebalance", server, options))

    def _run(self, verb: str, server: Served, options: dict[str, object]) -> dict[str, Any]:
        command = [str(self._binary), verb, "-bootstrap", server.bootstrap, "-pid", str(server.pid)]
        for name, value in options.items():
            command += [f"-{name.replace('_', '-')}", str(value)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stderr}"
        result: dict[str, Any] = json.loads(ran.stdout)
        return result
