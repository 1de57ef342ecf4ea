"""The members of groups as command lines, by client."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kcoord.testing.jars import kafka_jvm
from kcoord.testing.jvm.java import QUICK_FLAGS, Jvm
from tests.clients.programs import ROOT, build_go

HERE = Path(__file__).parent

PYTHON_CLIENTS = {
    "confluent-kafka": "confluent_member.py",
    "confluent-kafka-848": "confluent_848_member.py",
    "kafka-python": "kafka_python_member.py",
    "aiokafka": "aiokafka_member.py",
}
CLIENTS = ("java", "confluent-kafka", "kafka-python", "aiokafka", "franz-go")
COOPERATIVE_CLIENTS = tuple(client for client in CLIENTS if client != "aiokafka")


@dataclass(frozen=True)
class Programs:
    """Builds the member program of a client, once, and returns how to start it: `programs.launcher("franz-go")`."""

    build_folder: Path
    require_java: Callable[[], object]
    """Skips or fails if there is no Java."""

    def launcher(self, client: str) -> Callable[[Path], list[str]]:
        """Returns the command line as a function of a folder in which the program may unpack files; builds the program
        now."""
        match client:
            case "java":
                jvm = self._jvm
                return lambda folder: jvm.command("GroupMember", temp_folder=folder)
            case "franz-go":
                command = [str(self._go_binary)]
            case _:
                command = [_env(), f"PYTHONPATH={ROOT}", sys.executable, str(HERE / PYTHON_CLIENTS[client])]
        return lambda _: command

    @cached_property
    def _go_binary(self) -> Path:
        return build_go(HERE / "franz_go", self.build_folder)

    @cached_property
    def _jvm(self) -> Jvm:
        """Returns a JVM with the member's class after Kafka's jars on the class path, so that their class archive
        still fits."""
        self.require_java()
        jvm = kafka_jvm()
        classes = self.build_folder / "classes"
        compiled = subprocess.run(
            [
                *(jvm.java.path, *QUICK_FLAGS, "-m", "jdk.compiler/com.sun.tools.javac.Main"),
                *("-proc:none", "-Xlint:all", "-Werror", "-d", classes),
                *("-cp", os.pathsep.join(map(str, jvm.jars)), HERE / "GroupMember.java"),
            ],
            capture_output=True,
            text=True,
        )
        assert compiled.returncode == 0, compiled.stdout + compiled.stderr
        return replace(jvm, jars=(*jvm.jars, classes))


def _env() -> str:
    found = shutil.which("env")
    assert found, "no env on the PATH"
    return found
