"""A `kcoord` command that goes on until it is stopped, as a subprocess: a line of its stdout says that it is ready."""

import json
import shlex
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from .errors import StartError, TimedOutError, tail
from .process import CapturedProcess


class CommandProcess:
    """As a context manager it has started, and `bootstrap` is where clients begin."""

    def __init__(self, command: Sequence[str], *, name: str, ready: str, start_timeout: float) -> None:
        """`ready` is in the line, of JSON, that says so."""
        self.bootstrap = ""
        self.ready: dict[str, Any] = {}
        """What it said when it was ready."""
        self._command = command
        self._name = name
        self._ready_word = ready
        self._start_timeout = start_timeout
        self._process: CapturedProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process, f"{self._name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def start(self) -> Self:
        """Start and wait until it is ready; nothing if it was started already."""
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
            self.ready = json.loads(process.wait_for(self._ready_word, timeout=self._start_timeout))
        except TimedOutError as error:
            raise StartError(f"{error}\nthe command was: {shlex.join(self._command)}") from error
        self.bootstrap = self.ready["bootstrap"]
