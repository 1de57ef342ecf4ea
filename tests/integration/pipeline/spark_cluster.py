"""A real standalone Spark cluster on this machine, from the pyspark package: a master, and workers on demand.

Its folders are removed with it; its processes are ended by process id. All of it listens on loopback only, on ports
that the system chooses. Each worker has one core, so that two of them work together or not at all.
"""

import contextlib
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark

from kcoord.testing.errors import TimedOutError
from kcoord.testing.process import CapturedProcess

PATIENCE = 300.0
"""Seconds for a JVM to start on a busy machine."""
SPARK_HOME = Path(pyspark.__file__).parent
_MEMORY = "1g"  # the default memory of an executor


class SparkCluster:
    """Use it as a context: `with SparkCluster(folder) as cluster: cluster.start_worker(); … cluster.master`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = contextlib.ExitStack()
        self.workers: list[CapturedProcess] = []
        self.master = ""
        """The URL for --master."""

    def __enter__(self) -> "SparkCluster":
        self._master = self._start("master", "deploy.master.Master", "--port", "0")
        self.master = _wait_for_log(self._master, r"Starting Spark master at (spark://\S+)")
        self._page = _wait_for_log(self._master, r"'MasterUI' on port (\d+)")
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def start_workers(self, count: int) -> None:
        """Starts workers, and returns when all are registered with the master."""
        first = len(self.workers)
        for number in range(first, first + count):
            work = self._folder / f"work-{number}"
            resources = ("--cores", "1", "--memory", _MEMORY, "--work-dir", str(work))
            self.workers.append(self._start(f"worker-{number}", "deploy.worker.Worker", *resources, self.master))
        deadline = time.monotonic() + PATIENCE
        while self.state()["aliveworkers"] < len(self.workers):
            if time.monotonic() > deadline:
                raise TimedOutError(f"the master does not know all workers\n{self.workers[-1].output_tail()}")
            time.sleep(0.2)

    def state(self) -> dict[str, Any]:
        """Returns the master's status of workers and jobs."""
        with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=PATIENCE) as page:
            status: dict[str, Any] = json.load(page)
        return status

    def tasks_done(self) -> list[int]:
        """Returns how many tasks ended in each worker's executors, by their own logs."""
        folders = [self._folder / f"work-{number}" for number in range(len(self.workers))]
        return [sum(_tasks(path) for path in folder.glob("app-*/*/stderr")) for folder in folders]

    def _start(self, name: str, kind: str, *arguments: str) -> CapturedProcess:
        command = (str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{kind}")
        options = ("--host", "127.0.0.1", "--webui-port", "0", *arguments)
        process = CapturedProcess([*self._environment(name), *command, *options], name=f"Spark's {name}")
        return self._processes.enter_context(process)

    def _environment(self, name: str) -> list[str]:
        local = self._folder / f"local-{name}"
        values: Mapping[str, str] = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        return ["/usr/bin/env", *(f"{key}={value}" for key, value in values.items())]


def _wait_for_log(process: CapturedProcess, pattern: str) -> str:
    """Waits for a match in the log of a Spark process, and returns it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := re.search(pattern, process.stderr())):
        if process.exit_code is not None or time.monotonic() > deadline:
            raise TimedOutError(f"{process.name} has not started\n{process.output_tail()}")
        time.sleep(0.1)
    return found[1]


def _tasks(log: Path) -> int:
    return len(re.findall(r"Finished task \S+ in stage", log.read_text(errors="replace")))
