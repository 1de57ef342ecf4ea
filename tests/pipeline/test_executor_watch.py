"""When a job that waits for a cluster's executors is reported."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kcoord.pipeline.executor_watch import IdleJobDetector, executors_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def waiting() -> IdleJobDetector:
    return IdleJobDetector(grace_period=20)


def _observations(waiting: IdleJobDetector, *samples: tuple[float, bool, int]) -> Iterator[str | None]:
    for now, has_work, executors in samples:
        yield waiting.observe(now, has_work=has_work, executors=executors)


def test_a_job_that_nobody_works_on_is_told_of_once_and_not_before_its_time(waiting: IdleJobDetector) -> None:
    reported = [*_observations(waiting, (0, True, 0), (19, True, 0), (20, True, 0), (21, True, 0), (500, True, 0))]
    assert reported == [None, None, "no worker has taken the job yet", None, None]


def test_as_long_as_somebody_works_nothing_is_said(waiting: IdleJobDetector) -> None:
    assert not any(_observations(waiting, (0, True, 0), (19, True, 1), (40, True, 2), (100, True, 1)))


def test_executors_that_a_cluster_takes_back_from_a_job_without_work_are_not_missed(waiting: IdleJobDetector) -> None:
    assert not any(
        _observations(waiting, (0, True, 2), (10, False, 0), (500, False, 0), (501, True, 0), (510, True, 1))
    )


def test_workers_that_came_and_went_are_told_of_again(waiting: IdleJobDetector) -> None:
    reported = [
        *_observations(waiting, (0, True, 0), (20, True, 0), (30, True, 2), (40, True, 0), (59, True, 0), (60, True, 0))
    ]
    assert reported == [None, "no worker has taken the job yet", None, None, None, "all workers are gone"]


def test_an_embedded_spark_has_no_workers_to_wait_for(spark: "SparkSession") -> None:
    reported: list[str] = []
    with executors_watched(spark, reported.append, grace_period=0, interval=0.001):
        assert spark.range(1000).count() == 1000
    assert reported == []
