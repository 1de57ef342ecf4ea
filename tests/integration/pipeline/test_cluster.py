"""The pipeline on a real Spark cluster, and under spark-submit: the same tables as embedded."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset
import pytest

from kcoord.pipeline import submit
from kcoord.pipeline.decode_job import SegmentInput, decode
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.decoding.segments import find_segments, plan_ranges
from kcoord.pipeline.schemas import TABLES
from kcoord.pipeline.tables import TablesFolder
from kcoord.testing.process import CapturedProcess
from tests.integration.pipeline import submitted_settings
from tests.integration.pipeline.log_of_all_kinds import write_log_of_all_kinds
from tests.integration.pipeline.spark_cluster import PATIENCE, SPARK_HOME, SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1200)  # seven JVMs are started, one after the other

Tables = dict[str, list[dict[str, Any]]]

DECODED = [name for name, table in TABLES.items() if table.is_decoded]
# No task before both workers are registered: otherwise one may do all before the other has started.
BOTH_WORKERS = {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster without workers: the first test that needs them starts them."""
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log_of_all_kinds(folder)
    return folder


@pytest.fixture(scope="module")
def embedded(log: Path, spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables that an embedded Spark derives from the log."""
    out = TablesFolder(str(tmp_path_factory.mktemp("embedded")))
    summary = decode(spark, SegmentInput(ranges=plan_ranges(find_segments(log))), out, RowSelection(), lambda _: None)
    assert summary.is_balanced
    assert summary.rejected
    assert summary.skipped["aborted"]
    assert all(summary.rows.values()), summary.rows
    return _tables(Path(out.uri))


def test_a_job_that_waits_for_workers_says_so_and_with_them_gives_the_same_tables(
    cluster: SparkCluster, log: Path, embedded: Tables, tmp_path: Path
) -> None:
    job = [*_job(log, tmp_path / "tables"), "--master", cluster.master]
    with CapturedProcess([sys.executable, "-m", "kcoord.commands", *job], name="the job") as running:
        _wait_for(running, "waiting: no worker has taken the job yet; one with a free core and 1g of memory is needed")
        cluster.start_workers(2)
        assert running.wait(PATIENCE) == 0, running.output_tail()
    assert _tables(tmp_path / "tables") == embedded


def test_what_spark_submit_runs_on_both_workers_gives_the_same_tables(
    cluster: SparkCluster, log: Path, embedded: Tables, tmp_path: Path
) -> None:
    cluster.start_workers(2 - len(cluster.workers))
    before = cluster.tasks_done()
    where = ["--master", cluster.master, *_conf({"spark.driver.host": "127.0.0.1", **BOTH_WORKERS})]
    with CapturedProcess(
        _spark_submit(*where, submit.__file__, *_job(log, tmp_path / "tables")), name="job"
    ) as running:
        assert running.wait(PATIENCE) == 0, running.output_tail()
    assert _tables(tmp_path / "tables") == embedded
    done = [after - at_first for after, at_first in zip(cluster.tasks_done(), before, strict=True)]
    assert all(done), done


def test_what_is_set_by_spark_submit_counts_and_the_rest_is_ours() -> None:
    theirs = {
        "spark.master": "local[1]",
        "spark.driver.memory": "600m",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.maxConcurrentOutputFileWriters": "7",
    }
    ours = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.maxRecordsPerBatch": "20000"}
    overruled = {"spark.sql.session.timeZone": "America/New_York"}
    command = _spark_submit(*_conf(theirs | overruled), submitted_settings.__file__, *theirs, *ours)
    with CapturedProcess(command, name="spark-submit") as running:
        assert running.wait(PATIENCE) == 0, running.output_tail()
    assert json.loads(running.stdout().splitlines()[-1]) == theirs | ours


def _job(log: Path, out: Path) -> list[str]:
    return ["pipeline", "decode", str(log), "--out", str(out)]


def _spark_submit(*arguments: str) -> list[str]:
    """Runs spark-submit, which finds Python by PYSPARK_PYTHON."""
    environment = [f"PYSPARK_PYTHON={sys.executable}", f"SPARK_HOME={SPARK_HOME}", "SPARK_LOCAL_IP=127.0.0.1"]
    return ["/usr/bin/env", *environment, str(SPARK_HOME / "bin" / "spark-submit"), *arguments]


def _conf(settings: Mapping[str, str]) -> list[str]:
    return [argument for key, value in settings.items() for argument in ("--conf", f"{key}={value}")]


def _wait_for(running: CapturedProcess, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in running.stderr():
        assert running.exit_code is None, running.output_tail()
        assert time.monotonic() < deadline, running.output_tail()
        time.sleep(0.2)


def _tables(folder: Path) -> Tables:
    """Returns all rows of each table, in an order that does not depend on files."""
    tables: Tables = {}
    for name in DECODED:
        files = [str(path) for path in (folder / name).rglob("*.parquet")]
        rows = pyarrow.dataset.dataset(files, partitioning="hive", partition_base_dir=str(folder / name)).to_table()
        tables[name] = sorted(rows.to_pylist(), key=repr)
    return tables
