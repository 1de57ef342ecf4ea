"""Snapshots of groups at regular intervals for `kcoord groups watch`, also while the cluster does not respond."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Protocol

from kcoord.admin.cluster_client import Refused
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.snapshot_changes import GroupChange, WatchHistory

SnapshotFailure = ConnectionError | Refused
TakeSnapshot = Callable[[float], Snapshot]


def poll_snapshots(
    take_snapshot: TakeSnapshot, every: timedelta, limit: timedelta | None, *, sleep: Callable[[float], object]
) -> Iterator[tuple[float, Snapshot | SnapshotFailure]]:
    """Takes a snapshot of groups at regular intervals until the limit, and yields the time of each, with the snapshot
    or the error. Only the first one must succeed."""
    started = due = time.monotonic()
    is_first = True
    while limit is None or due - started <= limit.total_seconds():
        sleep(max(0.0, due - time.monotonic()))
        at = time.time()
        try:
            result: Snapshot | SnapshotFailure = take_snapshot(at)
        except (ConnectionError, Refused) as error:
            if is_first:
                raise
            result = error
        is_first = False
        yield at, result
        due = max(due + every.total_seconds(), time.monotonic())


def record_result(history: WatchHistory, at: float, result: Snapshot | SnapshotFailure) -> tuple[GroupChange, ...]:
    """Adds a snapshot, or the error of taking one, to the history, and returns the changes of groups since the snapshot
    before."""
    return history.add(result) if isinstance(result, Snapshot) else history.add_failure(at, str(result))


class SnapshotSource(Protocol):
    """The interface from which `kcoord groups watch` takes snapshots of groups. The reader closes it."""

    def snapshot(self, at: float) -> Snapshot:
        """Takes a snapshot of the groups at the time `at`, in seconds since 1970."""

    def close(self) -> None:
        """Closes the connections to the cluster."""


class BackgroundReader:
    """A thread that takes snapshots of groups at regular intervals, so that keys are handled while a broker does not
    respond.

    A byte can be read from the file descriptor `wakes` whenever there is a new result, or `wake` was called.
    """

    def __init__(self, source: SnapshotSource, every: timedelta, limit: timedelta | None) -> None:
        self._source = source
        self._snapshots = poll_snapshots(source.snapshot, every, limit, sleep=self._sleep)
        self._results: SimpleQueue[tuple[float, Snapshot | SnapshotFailure] | BaseException | None] = SimpleQueue()
        self._ends = threading.Event()
        self.wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self.wakes, False)
        self.is_over = False
        # A daemon thread, so that quitting does not wait for a broker that does not respond.
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stops taking snapshots, and waits at most `timeout` seconds for one in progress."""
        self._ends.set()
        self._thread.join(timeout)

    def wake(self) -> None:
        """Wakes the thread that waits for `wakes` to be readable; safe in a signal handler."""
        with suppress(BlockingIOError):  # the pipe is full, so the reader wakes anyway
            os.write(self._wake, b"\0")

    def drain_into(self, history: WatchHistory) -> None:
        """Moves all new snapshots and errors of the thread to the history, and raises an error that ended the
        thread."""
        _drain(self.wakes)
        while not self._results.empty():  # this thread is the only consumer
            result = self._results.get()
            if result is None:
                self.is_over = True
            elif isinstance(result, BaseException):
                raise result
            else:
                record_result(history, *result)

    def _run(self) -> None:
        try:
            for result in self._snapshots:
                self._put(result)
        except _Ended:
            pass
        except BaseException as error:  # raised again in the thread that drains the queue
            self._put(error)
        finally:
            self._source.close()
            self._put(None)

    def _put(self, result: tuple[float, Snapshot | SnapshotFailure] | BaseException | None) -> None:
        self._results.put(result)
        self.wake()

    def _sleep(self, seconds: float) -> None:
        if self._ends.wait(seconds):
            raise _Ended


class _Ended(Exception):
    """Raised in the thread when no further snapshots are needed."""


def _drain(descriptor: int) -> None:
    with suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
