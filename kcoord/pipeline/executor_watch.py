"""Reports a job that waits for executors: a cluster without free workers lets it wait for ever, and only its own log
shows it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import SparkSession

PATIENCE: Final = 20.0
"""Seconds before an idle job is reported: executors are started after the job, and that takes a while."""
_AGAIN: Final = 1.0
_DRIVER: Final = 1  # Spark lists the driver among the executors


class Waiting:
    """Decides when to report that no executor works: once, until an executor has worked again."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._has_said = self._had_workers = False

    def look(self, now: float, *, has_work: bool, executors: int) -> str | None:
        """Takes one observation of the job and returns the message that is due now, if there is one."""
        if executors or not has_work:  # a cluster may take back the executors of a job that is idle
            self._had_workers |= executors > 0
            self._since, self._has_said = None, False
            return None
        if self._since is None:
            self._since = now
        if self._has_said or now - self._since < self._patience:
            return None
        self._has_said = True
        return "all workers are gone" if self._had_workers else "no worker has taken the job yet"


@contextmanager
def workers_watched(
    spark: SparkSession, say: Callable[[str], None], *, patience: float = PATIENCE, again: float = _AGAIN
) -> Iterator[None]:
    """Notifies, while the block runs, of a job that waits for a cluster's executors. An embedded Spark has none to
    wait for."""
    java_session: Any = getattr(spark, "_jsparkSession", None)  # Spark Connect has none
    master = spark.conf.get("spark.master", "local") or "local"
    if java_session is None or master.startswith("local"):
        yield
        return
    tracker = java_session.sparkContext().statusTracker()
    needs = f"one with a free core and {spark.conf.get('spark.executor.memory', '1g')} of memory is needed"
    is_over = Event()

    def watch() -> None:
        waiting = Waiting(patience=patience)
        while not is_over.wait(again):
            try:
                has_work, executors = bool(len(tracker.getActiveStageIds())), len(tracker.getExecutorInfos()) - _DRIVER
            except Exception:  # the JVM is about to end: the job itself fails with the reason
                return
            if text := waiting.look(time.monotonic(), has_work=has_work, executors=executors):
                say(f"waiting: {text}; {needs} at {master}")

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
