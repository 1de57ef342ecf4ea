"""Progress of a job. On a terminal, one line is updated; elsewhere a line is printed for each finished stage, and
one each minute for a long stage that prints nothing."""

import os
import sys
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from ..output.output import echo_err

if TYPE_CHECKING:
    from kcoord.pipeline.progress import ProgressSampler
    from kcoord.pipeline.session import SparkSession

_POLL_INTERVAL: Final = 1.0  # seconds between two samples
_MAX_SILENCE: Final = 60.0  # seconds without a line, if stderr is no terminal
_CLEAR: Final = "\r\x1b[2K"
_DEFAULT_WIDTH: Final = 80
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


_Resource = TypeVar("_Resource")


class Stages:
    """A display on stderr of the stages of a pipeline job and of their progress. In `with Stages() as stages:` each
    stage begins with `stages.begin("reading")`."""

    def __init__(self) -> None:
        self._watch: ProgressSampler | None = None
        self._name: str | None = None
        self._begun = 0.0
        self._last_line_at = 0.0
        self._held = ExitStack()
        self._screen: int | None = None
        self._is_over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():  # a copy, since stderr leads to Spark's log while its JVM starts
            self._screen = os.dup(sys.stderr.fileno())
            self._held.callback(os.close, self._screen)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._held:
            self._is_over.set()
            self._thread.join()
            self._draw("")
            if error is None:
                self._end()

    def enter_context(self, resource: AbstractContextManager[_Resource]) -> _Resource:
        """Enters a context manager that is left after all stages, and Spark, have ended."""
        return self._held.enter_context(resource)

    def watch(self, spark: "SparkSession") -> None:
        """Shows from now on the progress of this Spark session's jobs within a stage."""
        from kcoord.pipeline.progress import ProgressSampler

        self._watch = ProgressSampler(spark)

    def begin(self, name: str) -> None:
        """Ends the current stage of the job, and begins a new one."""
        self._end()
        self._name, self._begun = name, time.monotonic()
        self._last_line_at = self._begun
        if self._watch is not None:
            self._watch.begin()

    def print_line(self, text: str) -> None:
        """Prints a line on stderr that the display does not overwrite."""
        self._draw("")
        self._last_line_at = time.monotonic()
        echo_err(text)

    def _end(self) -> None:
        if self._name is not None and self._screen is None:
            echo_err(self._line())

    def _run(self) -> None:
        while not self._is_over.wait(_POLL_INTERVAL):
            if self._name is None:
                continue
            if self._screen is not None:
                self._draw(self._line())
            elif time.monotonic() >= self._last_line_at + _MAX_SILENCE:
                with suppress(OSError):  # the pipe may be closed, while the job goes on
                    self.print_line(f"{clock_time()} {self._line()}")

    def _draw(self, line: str) -> None:
        """Replaces the line on the terminal. It is cut to the width, since a wrapped line could not be cleared."""
        if self._screen is None:
            return
        try:
            width = os.get_terminal_size(self._screen).columns or _DEFAULT_WIDTH
            os.write(self._screen, (_CLEAR + line[: width - 1]).encode())
        except OSError:  # the terminal may be closed, while the job goes on
            self._screen = None

    def _line(self) -> str:
        seconds = time.monotonic() - self._begun
        parts = [f"{self._name}: {seconds:.0f} s"]
        sample = self._watch.sample() if self._watch is not None else None
        if sample is not None:
            if sample.tasks_done < sample.tasks:
                parts.append(f"{sample.tasks_done}/{sample.tasks} tasks")
            if sample.rows:
                parts.append(f"{sample.rows:,} rows")
            if sample.bytes:
                parts.append(f"{size_text(sample.bytes)} written")
        return ", ".join(parts)


def clock_time() -> str:
    """Formats the current time, for lines of a job that runs for days: 2026-11-16T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def size_text(size: float) -> str:
    """Formats a size in bytes: 1,234,567 become 1.2 MB."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"
