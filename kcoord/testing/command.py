"""A `kcoord` command that runs until it is stopped, as a subprocess: a line on stdout announces that it is ready."""

import json
import shlex
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from .errors import StartError, TimedOutError, tail
from .process import CapturedProcess


class CommandProcess:
    """A running `kcoord serve` or `kcoord proxy` as a subprocess, as a context manager that starts and stops it.
    `bootstrap` is the address for clients, empty before it has started."""

    def __init__(self, command: Sequence[str], *, name: str, ready: str, start_timeout: float) -> None:
        """`ready` is a text in the line of JSON that announces that the command is ready."""
        self.bootstrap = ""
        self.ready: dict[str, Any] = {}
        """The values of the line that announced that it is ready."""
        self._command = command
        self._name = name
        self._ready_word = ready
        self._start_timeout = start_timeout
        self._process: CapturedProcess | None = None

    @property
    def pid(self) -> int:
        """The process id of the command; it must have been started."""
        assert self._process, f"{self._name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the command was started and has not ended."""
        return self._process is not None and self._process.exit_code is None

    def start(self) -> Self:
        """Starts the command and waits until it prints that it is ready; does nothing if it was started already."""
        if self._process:
            return self
        self._process = CapturedProcess(self._command, name=self._name)
        try:
            self._read_ready_line(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the command by SIGTERM, as an operator would; may be called again."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """Kills the command by SIGKILL: it cannot shut down cleanly."""
        if self._process:
            self._process.kill()

    def log(self) -> str:
        """Returns what the command has logged to stderr so far, also after stop()."""
        return self._process.stderr() if self._process else ""

    def log_tail(self) -> str:
        """Returns the last lines that the command logged to stderr."""
        return tail(self.log(), 100)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _read_ready_line(self, process: CapturedProcess) -> None:
        try:
            self.ready = json.loads(process.wait_for(self._ready_word, timeout=self._start_timeout))
        except TimedOutError as error:
            raise StartError(f"{error}\nthe command was: {shlex.join(self._command)}") from error
        self.bootstrap = self.ready["bootstrap"]
