"""How far a job is: on a terminal one line that changes, elsewhere one line for each stage that has ended, and for one
that goes on and has nothing to say a line each minute."""

import os
import sys
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from ..output.output import talk

if TYPE_CHECKING:
    from kcoord.pipeline.progress import Watch
    from kcoord.pipeline.session import SparkSession

_AGAIN: Final = 1.0  # seconds between two looks
_MUTE: Final = 60.0  # seconds without a line, where nothing but lines is seen
_CLEAR: Final = "\r\x1b[2K"
_USUAL_WIDTH: Final = 80
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


_Resource = TypeVar("_Resource")


class Stages:
    """`with Stages() as stages: stages.begin("reading") …`"""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._name: str | None = None
        self._begun = 0.0
        self._said_at = 0.0
        self._held = ExitStack()
        self._screen: int | None = None
        self._is_over = Event()
        self._looking = Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():  # another way to it: while Spark's JVM is started, stderr leads to its log
            self._screen = os.dup(sys.stderr.fileno())
            self._held.callback(os.close, self._screen)
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._held:
            self._is_over.set()
            self._looking.join()
            self._draw("")
            if error is None:
                self._end()

    def hold(self, resource: AbstractContextManager[_Resource]) -> _Resource:
        """To be left when all stages have ended, and Spark has."""
        return self._held.enter_context(resource)

    def watch(self, spark: "SparkSession") -> None:
        from kcoord.pipeline.progress import Watch

        self._watch = Watch(spark)

    def begin(self, name: str) -> None:
        """The stage before has ended."""
        self._end()
        self._name, self._begun = name, time.monotonic()
        self._said_at = self._begun
        if self._watch is not None:
            self._watch.begin()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._draw("")
        self._said_at = time.monotonic()
        talk(text)

    def _end(self) -> None:
        if self._name is not None and self._screen is None:
            talk(self._line())

    def _look(self) -> None:
        while not self._is_over.wait(_AGAIN):
            if self._name is None:
                continue
            if self._screen is not None:
                self._draw(self._line())
            elif time.monotonic() >= self._said_at + _MUTE:
                with suppress(OSError):  # of a pipe that is gone; the job need not be
                    self.say(f"{clock_time()} {self._line()}")

    def _draw(self, line: str) -> None:
        """In place of the one that is there. One that is folded could not be cleared."""
        if self._screen is None:
            return
        try:
            width = os.get_terminal_size(self._screen).columns or _USUAL_WIDTH
            os.write(self._screen, (_CLEAR + line[: width - 1]).encode())
        except OSError:  # of a terminal that is gone; the job need not be
            self._screen = None

    def _line(self) -> str:
        seconds = time.monotonic() - self._begun
        parts = [f"{self._name}: {seconds:.0f} s"]
        look = self._watch.look() if self._watch is not None else None
        if look is not None:
            if look.tasks_done < look.tasks:
                parts.append(f"{look.tasks_done}/{look.tasks} tasks")
            if look.rows:
                parts.append(f"{look.rows:,} rows")
            if look.bytes:
                parts.append(f"{size_text(look.bytes)} written")
        return ", ".join(parts)


def clock_time() -> str:
    """What stands before a line of a job that runs for days: 2026-11-16T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def size_text(size: float) -> str:
    """1,234,567 bytes are 1.2 MB."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"
