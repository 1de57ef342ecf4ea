"""The looks of `kcoord groups watch`, one after the other at even times, also where the cluster does not answer."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Protocol

from kcoord.admin.cluster_client import Refused
from kcoord.admin.groups.group_snapshot import Look
from kcoord.admin.groups.snapshot_changes import Change, Watch

Trouble = ConnectionError | Refused
LookAt = Callable[[float], Look]


def looks(
    look: LookAt, every: timedelta, limit: timedelta | None, *, sleep: Callable[[float], object]
) -> Iterator[tuple[float, Look | Trouble]]:
    """When each look was taken, and what was seen or why nothing was. Only the first must succeed."""
    started = due = time.monotonic()
    is_first = True
    while limit is None or due - started <= limit.total_seconds():
        sleep(max(0.0, due - time.monotonic()))
        at = time.time()
        try:
            result: Look | Trouble = look(at)
        except (ConnectionError, Refused) as error:
            if is_first:
                raise
            result = error
        is_first = False
        yield at, result
        due = max(due + every.total_seconds(), time.monotonic())


def take(memory: Watch, at: float, result: Look | Trouble) -> tuple[Change, ...]:
    """The changes that the snapshot shows since the one before it."""
    return memory.see(result) if isinstance(result, Look) else memory.miss(at, str(result))


class Source(Protocol):
    """The cluster that snapshots are read from, which is closed at the end."""

    def look(self, at: float) -> Look: ...
    def close(self) -> None: ...


class BackgroundLooks:
    """Looks taken by a thread, so that keys are answered also while a broker is not.

    A byte can be read from `wakes` whenever there is something new to take, or somebody called `wake`.
    """

    def __init__(self, source: Source, every: timedelta, limit: timedelta | None) -> None:
        self._source = source
        self._looks = looks(source.look, every, limit, sleep=self._sleep)
        self._results: SimpleQueue[tuple[float, Look | Trouble] | BaseException | None] = SimpleQueue()
        self._ends = threading.Event()
        self.wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self.wakes, False)
        self.is_over = False
        # A daemon: who quits does not wait for a broker that does not answer.
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Wait that long at most for the look that is under way."""
        self._ends.set()
        self._thread.join(timeout)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # there is enough to read already
            os.write(self._wake, b"\0")

    def take(self, memory: Watch) -> None:
        """All that is new; errors that end it are raised here."""
        _drain(self.wakes)
        while not self._results.empty():  # nobody else takes from it
            result = self._results.get()
            if result is None:
                self.is_over = True
            elif isinstance(result, BaseException):
                raise result
            else:
                take(memory, *result)

    def _run(self) -> None:
        try:
            for result in self._looks:
                self._put(result)
        except _Ended:
            pass
        except BaseException as error:  # raised again by who takes it
            self._put(error)
        finally:
            self._source.close()
            self._put(None)

    def _put(self, result: tuple[float, Look | Trouble] | BaseException | None) -> None:
        self._results.put(result)
        self.wake()

    def _sleep(self, seconds: float) -> None:
        if self._ends.wait(seconds):
            raise _Ended


class _Ended(Exception):
    """Nobody waits for further looks."""


def _drain(descriptor: int) -> None:
    with suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
