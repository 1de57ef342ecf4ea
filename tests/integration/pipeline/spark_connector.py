"""Spark's Kafka connector for tests: its jars, fetched once by Maven, and a process with a Spark that has them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from kcoord.pipeline.sources.connector import JARS
from kcoord.testing.errors import ResolveError, tail
from kcoord.testing.jvm.cache import cache_folder, locked
from kcoord.testing.jvm.java import find_maven
from kcoord.testing.process import CapturedProcess
from tests.integration.pipeline import spark_connector_program

PATIENCE: Final = 300.0
_DEPENDENCY: Final = """
<dependency>
  <groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
  <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>"""
_POM: Final = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>kcoord</groupId><artifactId>spark-connector</artifactId><version>1</version>
<dependencies>{0}
</dependencies>
</project>
""".strip().format("".join(_DEPENDENCY.format(*each.split(":")) for each in JARS))


def connector_jars() -> str:
    """Returns the jars in the format of spark.jars."""
    folder = _folder()
    with locked(folder.parent):
        if not folder.exists():
            _fetch(folder)
    return ",".join(sorted(map(str, folder.joinpath("libs").glob("*.jar"))))


def _folder() -> Path:
    return cache_folder().with_name("spark-connector") / hashlib.sha256(_POM.encode()).hexdigest()[:12]


def _fetch(folder: Path) -> None:
    """Fetches the jars all or none: the folder gets its name when it is complete."""
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    unfinished.joinpath("pom.xml").write_text(_POM)
    command = [str(find_maven()), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
    done = subprocess.run(command, cwd=unfinished, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ResolveError(f"Maven could not fetch Spark's Kafka connector:\n{tail(done.stdout, 20)}")
    unfinished.rename(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The exit code and output of a command."""

    exit_code: int
    stdout: str
    stderr: str
    error: str
    """The error line that the command would print."""


class ConnectorSpark:
    """A process that runs commands of kcoord, one after the other, in one Spark with the connector."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Starts the process. Spark writes its own files and its event log to the folder."""
        program = [sys.executable, "-m", spark_connector_program.__name__, str(folder), json.dumps(dict(settings))]
        self._process = CapturedProcess(program, name="Spark with the connector")
        self._runs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close_input()
        self._process.wait(PATIENCE)
        self._process.stop()

    def kcoord(self, *arguments: str) -> Done:
        self._process.send(json.dumps(arguments) + "\n")
        self._runs += 1
        deadline = time.monotonic() + PATIENCE
        while len(lines := self._process.stdout().splitlines(keepends=True)) < self._runs or lines[-1][-1] != "\n":
            assert self._process.exit_code is None, self._process.output_tail()
            assert time.monotonic() < deadline, self._process.output_tail()
            time.sleep(0.02)
        result: dict[str, Any] = json.loads(lines[-1])
        return Done(**result)
