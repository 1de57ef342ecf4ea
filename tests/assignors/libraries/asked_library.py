"""Asks the assignors of other libraries, in programs that take a case as a line and give plans as a line."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.assignors.cases import Case
from tests.assignors.libraries.library_cases import Sets, subscription_bytes
from tests.clients.programs import ROOT, build_go

HERE: Final = Path(__file__).parent


class AskedLibrary:
    """A program that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def plans(self, library: str, case: Case, *, times: int = 1) -> list[Sets] | str:
        """Returns the different plans of a case that the library makes when it is asked so often, or its error."""
        members = [
            {"id": member_id, "instance": instance_id, "subscription": b64encode(content).decode()}
            for member_id, instance_id, content in subscription_bytes(case)
        ]
        answer = self._ask(
            {"library": library, "strategy": case.strategy, "members": members, "topics": case.counts, "times": times}
        )
        if "error" in answer:
            return str(answer["error"])
        return [
            {
                member_id: {topic: set(numbers) for topic, numbers in held.items() if numbers}
                for member_id, held in plan.items()
            }
            for plan in answer["plans"]
        ]

    def refusal(self, strategies: list[str]) -> str | None:
        """Returns the error of a client with this list of strategies."""
        answer = self._ask({"library": "lists", "strategy": ",".join(strategies), "times": 1})
        return str(answer["error"]) if "error" in answer else None

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program has ended with exit code {self._process.wait()}"
        return json.loads(line)


@contextmanager
def go_libraries(folder: Path) -> Iterator[AskedLibrary]:
    """Builds the program for franz-go and sarama into a folder, and starts it."""
    with _started([str(build_go(HERE / "go_balancers", folder))]) as asked:
        yield asked


@contextmanager
def kafka_python(hash_seed: int) -> Iterator[AskedLibrary]:
    """Starts the program for kafka-python, with a seed for Python's hashes."""
    with _started([sys.executable, str(HERE / "kafka_python_program.py")], PYTHONHASHSEED=str(hash_seed)) as asked:
        yield asked


@contextmanager
def _started(command: Sequence[str], **environment: str) -> Iterator[AskedLibrary]:
    environ = {**os.environ, **environment}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environ) as process:
        try:
            yield AskedLibrary(process)
        finally:
            process.kill()  # kafka-python's consumers have threads that go on when there are no more questions.
            assert process.stdin
            with suppress(BrokenPipeError):
                process.stdin.close()  # which tries again to write what the program has not read.
