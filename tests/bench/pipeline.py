"""How fast commits in segments become rows of Spark: python -m tests.bench.pipeline [MILLIONS]

Segments of a million synthetic commits each (91 MB, as `tests.bench.decode` makes them; a broker's have 100 MB) are
read in one embedded Spark on two cores, and all rows go nowhere (Spark's own `noop`), so that reading is what is timed:

| way    | what is done                                                                                          |
|--------|-------------------------------------------------------------------------------------------------------|
| job    | the source of `kcoord pipeline decode`: decoded in Python's workers, one crossing to the JVM           |
| scan   | the same files read, batches found, checksums held; nothing is decoded and no rows cross                |
| sql    | expressions of Spark SQL on a Parquet file of keys and values, which gives the same rows (it is checked) |
| naive  | a Python loop, record by record (of a part of it, in one process: there is no Spark in it)              |

Each way runs once to warm up; then they take turns and the best round counts, by the clock and by processor time of the
JVM and all its Python workers, which other work on the machine disturbs less.

Then: one core against two; how time and memory grow with the rows; and the whole command, tables on disk and all.
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from kcoord.pipeline.decoding.segments import SegmentRange, find_segments, plan_ranges
from kcoord.pipeline.session import SparkConfig, open_session
from tests.bench.decode import Shape, naive_rate, segment_of
from tests.bench.support.machine import machine, table
from tests.bench.support.pipeline_job import ROUNDS, best, job, jvm, timed
from tests.bench.support.pipeline_ways import decoded_by_sql, raw_parquet, scanned
from tests.bench.support.processes import forget_most_memory, most_memory, tree

MILLIONS = 5
GROWTH = (1, 5, 20)
SEGMENT_RECORDS = 1_000_000
SAMPLE = 20_000
ENOUGH = 2.0  # times as fast as sql
CORES = (1, 2)
TURNS = 2  # measured alternately, since other work on the machine varies


def main(millions: int = MILLIONS) -> None:
    print(f"{millions:,} million commits in segments to rows of Spark, the best of {ROUNDS} rounds\n{machine()}\n")
    with tempfile.TemporaryDirectory(prefix="kcoord-bench-") as folder:
        segments = Segments(Path(folder))
        with open_session(SparkConfig(master=f"local[{CORES[-1]}]")) as spark:
            check_sql(spark, segments)
            compare(spark, segments, millions)
            grow(spark, segments)
        compare_cores(segments, millions)
        whole_command(segments, millions)


class Segments:
    """Folders of so many million commits: links to one segment, which is made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one = segment_of(Shape(name="one", batch=500), SEGMENT_RECORDS, folder / "one")[0].segment.path

    def path(self, millions: int) -> Path:
        folder = self._folder / f"segments-{millions}"
        if not folder.exists():
            for number in range(millions):
                partition = folder / f"__consumer_offsets-{number}"
                partition.mkdir(parents=True)
                (partition / self._one.name).hardlink_to(self._one)
        return folder

    def ranges(self, millions: int) -> list[SegmentRange]:
        return plan_ranges(find_segments(self.path(millions)))

    def raw(self, millions: int) -> Path:
        """Returns the same data as Parquet files of keys and values."""
        folder = self._folder / f"raw-{millions}"
        if not folder.exists():
            raw_parquet(self.ranges(millions), folder)
        return folder


def check_sql(spark: SparkSession, segments: Segments) -> None:
    """Checks that both ways give the same rows, or they could not be compared."""
    ours, theirs = (
        sorted(map(tuple, frame.where(f"source_offset < {SAMPLE}").collect()), key=repr)
        for frame in (job(spark, segments.ranges(1)), decoded_by_sql(spark, segments.raw(1)))
    )
    assert len(ours) == SAMPLE
    assert ours == theirs


def compare(spark: SparkSession, segments: Segments, millions: int) -> None:
    ranges, raw = segments.ranges(millions), segments.raw(millions)
    took = best(
        {
            "job": lambda: job(spark, ranges),
            "scan": lambda: scanned(spark, ranges),
            "sql": lambda: decoded_by_sql(spark, raw),
        }
    )
    rows = [["way", "seconds", "rows/s", "CPU s", "rows/CPU s", "the job is"]]
    for name, each in took.items():
        rates = (f"{each.wall:.1f}", _rate(millions, each.wall), f"{each.cpu:.1f}", _rate(millions, each.cpu))
        rows.append([name, *rates, f"{each.wall / took['job'].wall:.1f} x" if name != "job" else ""])
    naive = naive_rate(ranges, SEGMENT_RECORDS // 20)
    rate = millions * 1e6 / took["job"].wall
    rows.append(["naive", "", f"{naive / 1e6:.2f} M", "", f"{naive / 1e6:.2f} M", f"{rate / naive:.1f} x"])
    print(table(rows), "\n")
    faster = took["sql"].wall / took["job"].wall
    print(
        f"wanted: {ENOUGH:.0f} x sql: {faster:.1f} x, {'reached' if faster >= ENOUGH else 'not reached'}\n", flush=True
    )


def grow(spark: SparkSession, segments: Segments) -> None:
    rows = [["rows", "seconds", "rows/s", "CPU s", "JVM, at most", "Python's workers, at most"]]
    for millions in GROWTH:
        frame = job(spark, segments.ranges(millions))
        forget_most_memory(tree(jvm()))
        took = timed(frame)
        memory = most_memory(tree(jvm()))
        java = memory.pop("java")
        rates = (f"{took.wall:.1f}", _rate(millions, took.wall), f"{took.cpu:.1f}")
        rows.append([f"{millions} M", *rates, f"{java:,.0f} MB", f"{sum(memory.values()):,.0f} MB"])
    print(table(rows), "\n", flush=True)


def compare_cores(segments: Segments, millions: int) -> None:
    turns = [[_on_cores(cores, segments.path(millions)) for cores in CORES] for _ in range(TURNS)]
    took = [min(each) for each in zip(*turns, strict=True)]
    rows = [["cores", "seconds", "rows/s"]]
    rows += [[str(cores), f"{each:.1f}", _rate(millions, each)] for cores, each in zip(CORES, took, strict=True)]
    print(table(rows), "\n")
    print(f"two cores are {took[0] / took[1]:.2f} x as fast as one\n", flush=True)


def _on_cores(cores: int, folder: Path) -> float:
    command = [sys.executable, "-m", "tests.bench.pipeline_cores", str(cores), str(folder)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def whole_command(segments: Segments, millions: int) -> None:
    """Runs `kcoord pipeline decode`, and prints the time of each stage that it reports."""
    with tempfile.TemporaryDirectory(prefix="kcoord-bench-out-") as out:
        command = [sys.executable, "-m", "kcoord.commands", "pipeline", "decode", str(segments.path(millions))]
        command += ["--out", f"{out}/tables", "--master", f"local[{CORES[-1]}]"]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        whole = time.perf_counter() - start
        size = sum(path.stat().st_size for path in Path(out).rglob("*.parquet"))
    stages = re.findall(r"^(\w[\w ]*): (\d+(?:\.\d+)?) s", done.stderr, re.M)
    rows = [["kcoord pipeline decode", "seconds"], *([name, seconds] for name, seconds in stages)]
    rows.append(["all of it", f"{whole:.1f}"])
    print(table(rows), "\n")
    print(
        f"{millions} million commits: {_rate(millions, whole)} rows/s with all that, {size / 1e6:,.0f} MB of Parquet\n"
    )


def _rate(millions: int, seconds: float) -> str:
    return f"{millions / seconds:.2f} M"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLIONS)
