"""Tests of interrupted `kcoord pipeline` commands: they end without a traceback, and leave no process or file
behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.terminal import KCOORD, quiet_environment

SEGMENTS = Path(__file__).parent.parent.parent.parent / "fixtures" / "segments" / "plain"
PATIENCE = 180.0
LITTLE = ("--master", "local[1]", "--conf", "spark.driver.memory=600m")


def is_starting(pid: int, log: str, temporary: Path) -> bool:
    """Whether the JVM runs and pyspark waits for it."""
    return bool(children_of(pid)) and "starting Spark" not in log


def is_at_work(pid: int, log: str, temporary: Path) -> bool:
    """Whether Spark has begun to write the first table."""
    return bool(list(temporary.glob("kcoord-tables-*/tables/commits/_temporary")))


@pytest.mark.parametrize(
    ("verb", "number", "is_time", "exit_code"),
    [
        (("rebalances",), signal.SIGINT, is_starting, 130),
        (("report", "--out", "report.html"), signal.SIGINT, is_at_work, 130),
        (("rebalances",), signal.SIGTERM, is_at_work, 143),
    ],
)
def test_a_job_that_is_told_to_end_leaves_no_jvm_no_file_and_no_traceback(
    verb: tuple[str, ...],
    number: signal.Signals,
    is_time: Callable[[int, str, Path], bool],
    exit_code: int,
    tmp_path: Path,
) -> None:
    temporary, log = tmp_path / "temporary", tmp_path / "told"
    temporary.mkdir()
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [*KCOORD, "pipeline", *verb, str(SEGMENTS), *LITTLE],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=quiet_environment(TMPDIR=str(temporary)),
        ) as job,
    ):
        try:
            wait_until(lambda: job.poll() is not None or is_time(job.pid, log.read_text(), temporary))
            assert job.poll() is None, log.read_text()
            [jvm] = children_of(job.pid)
            job.send_signal(number)
            assert job.wait(PATIENCE) == exit_code, log.read_text()
        finally:
            job.kill()
    assert [line.partition(":")[0] for line in log.read_text().splitlines()] in (
        ["reading 5.9 kB of segments in 1 range"],
        ["reading 5.9 kB of segments in 1 range", "starting Spark"],
    )
    wait_until(lambda: not is_there(jvm))
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "report.html").exists()


def children_of(pid: int) -> list[int]:
    """Returns the child processes that start Spark or are Spark, without `java -version` and the shells of its
    scripts."""
    listed = subprocess.run(["ps", "-Aww", "-o", "ppid=,pid=,args="], capture_output=True, text=True, check=True)
    lines = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [int(line[1]) for line in lines if int(line[0]) == pid and "org.apache.spark.deploy" in line[-1]]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
