"""Samples the progress of Spark's jobs: tasks, rows, bytes. It is for display only; nothing depends on it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

_FINISHED: Final = ("COMPLETE", "FAILED", "SKIPPED")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSample:
    """How far Spark's stages have come since `begin` of the sampler. Rows and bytes are those written by tasks that
    have ended."""

    tasks: int = 0
    tasks_done: int = 0
    rows: int = 0
    bytes: int = 0

    def plus(self, other: "ProgressSample") -> "ProgressSample":
        """Returns the sum of both."""
        return ProgressSample(
            tasks=self.tasks + other.tasks,
            tasks_done=self.tasks_done + other.tasks_done,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
        )


class ProgressSampler:
    """Samples how far the stages of a Spark session have come, for a progress bar. Spark Connect does not expose them:
    then every sample is None.

    Each number is a call to the JVM, and a job that follows a cluster has stages without end, so stages that have
    finished are read once and added to a sum.
    """

    def __init__(self, spark: SparkSession) -> None:
        java_session: Any = getattr(spark, "_jsparkSession", None)
        self._store: Any = None
        self._next = 0
        """All stages before it are over, and in the sum."""
        self._finished = ProgressSample()
        if java_session is not None:
            self._store = java_session.sparkContext().statusStore()
            from pyspark import SparkContext

            gateway: Any = SparkContext._gateway
            self._no_quantiles = gateway.new_array(gateway.jvm.double, 0)

    def begin(self) -> None:
        """Restarts the count: stages of Spark that exist now are not part of later samples."""
        self._finished = ProgressSample()
        with suppress(Exception):  # the JVM may be about to end
            self._next = next((stage.stageId() + 1 for stage in self._newest_first()), self._next)

    def sample(self) -> ProgressSample | None:
        """Returns how far all stages since begin() have come together, or None if there is none."""
        try:
            sum_of_all, all_are_over = self._finished, True
            for stage in reversed(list(self._newest_first())):
                sum_of_all = sum_of_all.plus(_sample_of(stage))
                all_are_over = all_are_over and stage.status().toString() in _FINISHED
                if all_are_over:
                    self._finished, self._next = sum_of_all, stage.stageId() + 1
        except Exception:  # the JVM may be about to end; the job itself fails with the reason
            return None
        return sum_of_all if sum_of_all.tasks else None

    def _newest_first(self) -> Iterator[Any]:
        """Yields the stages that are not known to have finished, the newest first."""
        if self._store is None:
            return
        found = self._store.stageList(None, False, False, self._no_quantiles, None)
        for index in range(found.size()):
            stage = found.apply(index)
            if stage.stageId() < self._next:
                return
            yield stage


def _sample_of(stage: Any) -> ProgressSample:
    if stage.status().toString() == "SKIPPED":  # its output exists already
        return ProgressSample()
    return ProgressSample(
        tasks=stage.numTasks(),
        tasks_done=stage.numCompleteTasks(),
        rows=stage.outputRecords(),
        bytes=stage.outputBytes(),
    )
