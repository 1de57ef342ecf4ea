"""Whether anybody works on a job: a cluster without free workers lets it wait for ever and tells only its own log."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import SparkSession

PATIENCE: Final = 20.0
"""Seconds: executors are started after the job, and that takes a while."""
_AGAIN: Final = 1.0
_DRIVER: Final = 1  # is told among the executors


class Waiting:
    """When to say that nobody works; once, until somebody has worked again."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._has_said = self._had_workers = False

    def look(self, now: float, *, has_work: bool, executors: int) -> str | None:
        """What is to be said now."""
        if executors or not has_work:  # without work a cluster may take its executors back
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
    """Says while the block runs that a job waits for a cluster's workers. An embedded Spark has none."""
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
            except Exception:  # of a JVM that is about to end: the job itself tells what is wrong
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
