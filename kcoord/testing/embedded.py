"""`kcoord serve` as a subprocess: a local cluster that is up in a moment and gone with the test."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .errors import StartError, TimedOutError, tail
from .process import CapturedProcess

READY = '"serve/v1"'

_IN_TESTS: Final = {"group.initial.rebalance.delay.ms": "0"}


class EmbeddedCluster:
    """kcoord's own coordinator and topics, as a context manager.

    with EmbeddedCluster(topics={"orders": 3}, settings={"num.partitions": "6"}) as cluster: ...
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        fsync: bool = False,
        start_timeout: float = 30.0,
    ) -> None:
        """Topics are partitions by name; settings are Kafka's broker properties. Groups do not wait for more members
        than there are, as with the real Kafka of a test, unless `group.initial.rebalance.delay.ms` says so. What is in
        the data dir is there again in the next cluster with the same; without one, everything ends with it."""
        self.bootstrap = ""
        self.cluster_id = ""
        self._command = serve_command(brokers, topics or {}, {**_IN_TESTS, **(settings or {})}, data_dir, fsync)
        self._start_timeout = start_timeout
        self._process: CapturedProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process, "the cluster has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def start(self) -> Self:
        """Start and wait until it serves; nothing if it was started already."""
        if self._process:
            return self
        self._process = CapturedProcess(self._command, name="kcoord serve")
        try:
            self._read_ready_line(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop it as an operator would; may be called again."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        if self._process:
            self._process.kill()

    def log(self) -> str:
        """What it has logged so far; kept after stop()."""
        return self._process.stderr() if self._process else ""

    def log_tail(self) -> str:
        return tail(self.log(), 100)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _read_ready_line(self, process: CapturedProcess) -> None:
        try:
            ready = json.loads(process.wait_for(READY, timeout=self._start_timeout))
        except TimedOutError as error:
            raise StartError(f"{error}\nthe command was: {shlex.join(self._command)}") from error
        self.bootstrap, self.cluster_id = ready["bootstrap"], ready["cluster_id"]


def serve_command(
    brokers: int,
    topics: Mapping[str, int],
    settings: Mapping[str, str],
    data_dir: Path | None = None,
    fsync: bool = False,
) -> list[str]:
    """The command line; it says on one line of stdout that it is ready, and where."""
    command = [sys.executable, "-m", "kcoord.commands", "serve", "--listen", "127.0.0.1:0", "--brokers", str(brokers)]
    for topic, partitions in topics.items():
        command += ["--topic", f"{topic}:{partitions}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    if fsync:
        command.append("--fsync")
    return [*command, "-o", "json"]
