"""A cluster that is followed: the program is killed at the worst moments and restarted, and no row is lost or
duplicated."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kcoord.admin.connecting.connection import Connection
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.follow_folder import DECODED, locked, prepare
from kcoord.pipeline.following import FollowSchedule, OnBatch, WriteTotals, follow
from kcoord.pipeline.schemas import TABLES
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.tables import BadFolder, TablesFolder
from kcoord.testing.embedded import EmbeddedCluster
from tests.integration.pipeline import follow_program
from tests.integration.support.secure_kafka import PASSWORDS, SecureKafka
from tests.support.pipeline.expected_rows import Rows
from tests.support.pipeline.live_logs import LogScene, assert_same_rows, of_segments

pytestmark = pytest.mark.timeout(1500)  # four JVMs are started, one after the other

DEADLINE: Final = 400.0
TOPIC: Final = "followed"
ONE_TOPIC: Final = TopicSelection(topics=(TOPIC,))
TO_THE_END: Final = FollowSchedule(stops_at_end=True)


@pytest.fixture(scope="module")
def scene(secure_kafka: SecureKafka) -> LogScene:
    scene = LogScene(secure_kafka.bootstrap("CLIENT"))
    scene.make(TOPIC)
    scene.commit("follow-first", TOPIC, times=5)
    return scene


class Commits:
    """Groups that commit all the time, some of them in transactions that are aborted."""

    def __init__(self, scene: LogScene) -> None:
        self._scene = scene
        self._is_over = threading.Event()
        self._failures: list[Exception] = []
        self._thread = threading.Thread(target=self._commit, daemon=True)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()
        assert not self._failures, self._failures

    def _commit(self) -> None:
        number = 0
        try:
            while not self._is_over.wait(0.05):
                self._scene.commit(f"follow-{number % 5}", TOPIC, times=3)
                self._scene.pay("follow-paid", TOPIC, is_aborted=number % 2 == 1, name="follower")
                self._scene.produce(TOPIC, records=3)
                number += 1
        except Exception as error:
            self._failures.append(error)


class Following:
    """The program, its JVM and its workers: a process group."""

    def __init__(self, properties: Path, out: Path, events: Path) -> None:
        self.out = out
        self.log = events / f"{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", follow_program.__name__, str(properties), str(out), str(events)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def events(self, what: str) -> list[dict[str, object]]:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{")]
        return [facts for line in lines if (facts := json.loads(line))["what"] == what]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert self.process.poll() is None, f"it has ended:\n{self.log.read_text(errors='replace')[-5000:]}"
            assert time.monotonic() < deadline, f"it did not come:\n{self.log.read_text(errors='replace')[-5000:]}"
            time.sleep(0.01)

    def unfinished(self) -> set[int]:
        """Returns the micro-batches that have begun and are not recorded as done."""
        return _numbers(self.out / "_checkpoint" / "offsets") - _numbers(self.out / "_checkpoint" / "commits")

    def has_rows_of_unfinished(self) -> bool:
        """Whether there are rows of an unfinished micro-batch that is not the first."""
        folders = [self.out / "commits" / f"batch={number}" for number in self.unfinished() if number > 0]
        return any(any(folder.glob("date=*/*.parquet")) for folder in folders)

    def signal(self, number: int) -> None:
        """Signals all processes, as a terminal or a machine that shuts down does."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()


def _numbers(folder: Path) -> set[int]:
    return {int(each.name) for each in folder.iterdir() if each.name.isdecimal()} if folder.is_dir() else set()


def rows_in(out: Path) -> Rows:
    """Reads the files without Spark: any reader must see each row once."""
    rows: Rows = {}
    for name, table in TABLES.items():
        if table.is_decoded:
            found = ds.dataset(out / name, schema=table.schema, format="parquet", partitioning="hive").to_table()
            rows[name] = found.to_pylist()
    return rows


def follow_to_the_end(
    spark: SparkSession,
    connection: Connection,
    out: Path,
    choice: TopicSelection = ONE_TOPIC,
    on_batch: OnBatch = lambda _: None,
) -> WriteTotals:
    tables = TablesFolder(str(out))
    with locked(tables):
        return follow(
            spark,
            connection,
            tables,
            wanted=RowSelection(),
            choice=choice,
            schedule=TO_THE_END,
            on_batch=on_batch,
            warn=lambda _: None,
        )


def test_killed_and_started_again_no_row_is_lost_or_there_twice_and_no_file_holds_the_password(
    scene: LogScene, secure_kafka: SecureKafka, spark: SparkSession, tmp_path: Path
) -> None:
    out, events = tmp_path / "tables", tmp_path / "events"
    events.mkdir()
    properties = secure_kafka.properties("plain")

    def start() -> Following:
        return Following(properties, out, events)

    with Commits(scene).going_on():
        beginning = start()
        beginning.wait_for(lambda: bool(beginning.unfinished()))
        beginning.kill()
        assert beginning.unfinished() == {0}

        writing = start()
        writing.wait_for(lambda: bool(writing.events("batch")))
        with pytest.raises(BadFolder, match="another --follow writes there"):
            follow_to_the_end(spark, Connection(bootstrap=(secure_kafka.bootstrap("CLIENT"),)), out, TopicSelection())
        writing.wait_for(writing.has_rows_of_unfinished)
        writing.kill()
        assert writing.has_rows_of_unfinished(), "it was killed too late"

        stopped = start()
        stopped.wait_for(lambda: len(stopped.events("batch")) > 1)
        stopped.signal(signal.SIGINT)
        assert stopped.process.wait(DEADLINE) == 0, stopped.log.read_text(errors="replace")[-5000:]
        [summary] = stopped.events("summary")
        assert summary["balanced"] is True
        assert summary["records"] == sum(int(str(each["records"])) for each in stopped.events("batch"))

    connection = Connection(bootstrap=(secure_kafka.bootstrap("CLIENT"),))
    assert follow_to_the_end(spark, connection, out, TopicSelection()).summary.is_balanced
    rows = rows_in(out)
    data_dir = secure_kafka.kafka.brokers[0].data_dir
    topics = {row["topic"] for row in rows["log_ends"]}
    assert_same_rows(rows, of_segments(data_dir, tmp_path / "copy", topics))
    assert TOPIC in topics
    assert not rows["rejected"]
    assert sum(row["aborted"] for row in rows["scanned"]) > 0
    assert TablesFolder(str(out)).read(spark, "commits").count() == len(rows["commits"])

    files = [path for folder in (out, events) for path in folder.rglob("*") if path.is_file()]
    assert any("local-" in path.name for path in files), "Spark's log of events"
    assert [path for path in files if PASSWORDS["bob"].encode() in path.read_bytes()] == []


def test_a_micro_batch_that_is_not_written_down_as_done_is_written_again_and_is_there_once(
    scene: LogScene, secure_kafka: SecureKafka, spark: SparkSession, tmp_path: Path
) -> None:
    connection = Connection(bootstrap=(secure_kafka.bootstrap("CLIENT"),))
    out = tmp_path / "tables"

    def fail(_: WriteTotals) -> None:
        raise RuntimeError("all is written but the end of it")

    with pytest.raises(StreamingQueryException, match="all is written but the end of it"):
        follow_to_the_end(spark, connection, out, on_batch=fail)
    before = rows_in(out)["commits"]
    scene.commit("follow-later", TOPIC)
    follow_to_the_end(spark, connection, out)
    rows = rows_in(out)
    assert len(rows["commits"]) == len(before) + 3
    assert_same_rows(rows, of_segments(secure_kafka.kafka.brokers[0].data_dir, tmp_path / "copy", {TOPIC}))
    assert follow_to_the_end(spark, connection, out) == WriteTotals(), "nothing is new"
    with pytest.raises(StreamingQueryException, match="begun with --topic followed, and this is without --topic: say"):
        follow_to_the_end(spark, connection, out, TopicSelection())


def test_a_stream_goes_on_only_with_the_cluster_that_its_tables_are_of(spark: SparkSession, tmp_path: Path) -> None:
    for attempt in ("first", "other"):
        with EmbeddedCluster(topics={TOPIC: 3}) as cluster:
            LogScene(cluster.bootstrap).commit(attempt, TOPIC)
            connection = Connection(bootstrap=(cluster.bootstrap,))
            if attempt == "first":
                assert follow_to_the_end(spark, connection, tmp_path / "tables").rows["commits"] == 3
                continue
            with pytest.raises(StreamingQueryException, match=r"and this is .*: name another folder"):
                follow_to_the_end(spark, connection, tmp_path / "tables")
    assert len(rows_in(tmp_path / "tables")["commits"]) == 3


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_tables_that_have_rows_and_no_checkpoint_are_left_alone(
    scheme: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark checks folders with a scheme, such as hdfs:."""
    new, decoded, lost = (TablesFolder(f"{scheme}{tmp_path}/{name}") for name in ("new", "decoded", "lost"))
    prepare(spark, new)
    prepare(spark, new)  # as after a job that was killed before its first checkpoint
    assert {each.name for each in (tmp_path / "new").iterdir()} == {*DECODED}
    assert new.read(spark, "commits").isEmpty()

    write_row(tmp_path / "decoded" / "scanned" / "part.parquet")
    with pytest.raises(BadFolder, match=r"not made by --follow \(scanned.*\): name another folder"):
        prepare(spark, decoded)

    write_row(tmp_path / "lost" / "scanned" / "batch=0" / "part.parquet")
    with pytest.raises(BadFolder, match=r"their checkpoint \(_checkpoint\) is missing"):
        prepare(spark, lost)
    (tmp_path / "lost" / "_checkpoint").mkdir()
    (tmp_path / "lost" / "_checkpoint" / "metadata").write_text("{}")
    prepare(spark, lost)


def write_row(path: Path) -> None:
    scanned = TABLES["scanned"].schema
    row = {name: "t" if name == "topic" else 0 for name in scanned.names}
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row], scanned), path)
