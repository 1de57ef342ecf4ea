"""The job of the pipeline's benchmark, and how it and the other ways are timed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.decode_job import SegmentInput
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.pipeline.schemas import COMMITS
from tests.bench.support.processes import cpu_between, cpu_seconds, tree

ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Seconds by the clock, and of processor time of the JVM and all its Python workers."""

    wall: float
    cpu: float


def job(spark: SparkSession, ranges: Sequence[SegmentRange]) -> DataFrame:
    return SegmentInput(ranges=ranges).frame(spark, [COMMITS], RowSelection())


def best(ways: Mapping[str, Callable[[], DataFrame]]) -> dict[str, Took]:
    """Returns the best time of each way. They take turns; the first round warms up and does not count."""
    rounds = [{name: timed(make()) for name, make in ways.items()} for _ in range(ROUNDS + 1)][1:]
    return {
        name: Took(wall=min(each[name].wall for each in rounds), cpu=min(each[name].cpu for each in rounds))
        for name in ways
    }


def timed(frame: DataFrame) -> Took:
    """Times the computation of all rows, which are written nowhere."""
    cpu, wall = cpu_seconds(tree(jvm())), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return Took(wall=time.perf_counter() - wall, cpu=cpu_between(cpu, cpu_seconds(tree(jvm()))))


def jvm() -> int:
    """Returns the process id of Spark's JVM, whose children are the Python workers."""
    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
