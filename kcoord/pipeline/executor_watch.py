"""Reports a job that waits for executors: a cluster without free workers lets it wait for ever, and only its own log
shows it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import SparkSession

GRACE_PERIOD: Final = 20.0
"""Seconds before an idle job is reported: executors are started after the job, and that takes a while."""
_POLL_INTERVAL: Final = 1.0
_DRIVER: Final = 1  # Spark lists the driver among the executors


class IdleJobDetector:
    """Decides when to report that a Spark job waits because no executor works for it: once per wait, after
    `grace_period` seconds."""

    def __init__(self, *, grace_period: float) -> None:
        self._grace_period = grace_period
        self._since: float | None = None
        self._has_reported = self._had_workers = False

    def observe(self, now: float, *, has_work: bool, executors: int) -> str | None:
        """Takes one observation of the job, `now` in monotonic seconds, and returns the message that is due, or
        None."""
        if executors or not has_work:  # a cluster may take back the executors of a job that is idle
            self._had_workers |= executors > 0
            self._since, self._has_reported = None, False
            return None
        if self._since is None:
            self._since = now
        if self._has_reported or now - self._since < self._grace_period:
            return None
        self._has_reported = True
        return "all workers are gone" if self._had_workers else "no worker has taken the job yet"


@contextmanager
def executors_watched(
    spark: SparkSession,
    notify: Callable[[str], None],
    *,
    grace_period: float = GRACE_PERIOD,
    interval: float = _POLL_INTERVAL,
) -> Iterator[None]:
    """Calls `notify` with a message, while the `with` block runs, when the job waits for a cluster's executors. An
    embedded Spark has none to wait for."""
    java_session: Any = getattr(spark, "_jsparkSession", None)  # Spark Connect has none
    master = spark.conf.get("spark.master", "local") or "local"
    if java_session is None or master.startswith("local"):
        yield
        return
    tracker = java_session.sparkContext().statusTracker()
    needs = f"one with a free core and {spark.conf.get('spark.executor.memory', '1g')} of memory is needed"
    is_over = Event()

    def watch() -> None:
        detector = IdleJobDetector(grace_period=grace_period)
        while not is_over.wait(interval):
            try:
                has_work, executors = bool(len(tracker.getActiveStageIds())), len(tracker.getExecutorInfos()) - _DRIVER
            except Exception:  # the JVM is about to end: the job itself fails with the reason
                return
            if text := detector.observe(time.monotonic(), has_work=has_work, executors=executors):
                notify(f"waiting: {text}; {needs} at {master}")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
