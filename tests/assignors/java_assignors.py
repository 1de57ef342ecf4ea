"""Asks Kafka's own assignors, in one JVM."""

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kcoord.protocol.uuids import format_uuid
from kcoord.testing.jars import kafka_jvm
from kcoord.testing.process import temporary_folder
from tests.assignors.cases import Case

SOURCE: Final = Path(__file__).parent / "java" / "JavaAssignors.java"


class JavaAssignors:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def plan(self, case: Case) -> dict[str, dict[str, set[int]]] | str:
        """Returns the plan of Kafka's assignor, or the exception that it throws."""
        answer = self._ask(_question(case))
        if "error" in answer:
            return str(answer["error"])
        return {
            member_id: {topic: set(numbers) for topic, numbers in held.items()}
            for member_id, held in answer["plan"].items()
        }

    def encode_again(self, subscription: bytes, version: int) -> bytes:
        """Has Java decode a subscription and encode it again, in a version."""
        question = {"subscription": b64encode(subscription).decode(), "version": version}
        return b64decode(self._ask(question)["subscription"])

    def in_map_order(self, keys: Sequence[str]) -> list[str]:
        """Returns texts in the order of a HashMap that they are put into."""
        order: list[str] = self._ask({"keys": list(keys)})["keys"]
        return order

    def firsts(self, topic: str, changes: Sequence[int]) -> list[int]:
        """Returns the first element of a HashSet of partitions after each change, -1 if there is none. A number is
        added if it is new, and removed if it is not."""
        firsts: list[int] = self._ask({"topic": topic, "changes": list(changes)})["firsts"]
        return firsts

    def _ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the JVM has ended with exit code {self._process.wait()}"
        return json.loads(line)


@contextmanager
def java_assignors() -> Iterator[JavaAssignors]:
    with temporary_folder() as folder:
        command = kafka_jvm().command(str(SOURCE), temp_folder=Path(folder), log_level="off")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                yield JavaAssignors(process)
            finally:
                process.kill()
                assert process.stdin
                with suppress(BrokenPipeError):
                    process.stdin.close()  # which tries again to write what the JVM has not read.


def _question(case: Case) -> dict[str, Any]:
    return {
        "strategy": case.strategy,
        "topics": {
            topic: {
                "partitions": count,
                "racks": [sorted(racks) for racks in case.racks.get(topic, ())],
            }
            for topic, count in case.counts.items()
        },
        "ids": {topic: format_uuid(topic_id.bytes) for topic, topic_id in case.topic_ids.items()},
        "members": [
            {
                "id": member.member_id,
                "instance": member.instance_id,
                "subscription": b64encode(member.content).decode(),
                "topics": list(member.subscription.topics),
                "owned": {topic: list(numbers) for topic, numbers in member.target.items()},
                "rack": member.subscription.rack,
            }
            for member in case.members
        ],
    }
