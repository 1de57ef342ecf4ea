"""Runs Kafka's tools many times in one JVM: each start would take longer than the tool itself.

It is not for tools that end their work when the JVM ends, such as console-producer.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kcoord.testing.jars import LOG_CONFIG, kafka_jvm
from kcoord.testing.process import temporary_folder
from kcoord.testing.tools import ToolRun, main_class

SOURCE = Path(__file__).parent / "WarmTool.java"


class WarmTools:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run(self, tool: str, *arguments: str) -> ToolRun:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([main_class(tool), *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return ToolRun(stdout=answer["stdout"], stderr=answer["stderr"], exit_code=answer["code"])


@contextmanager
def warm_tools(log_level: str = "off") -> Iterator[WarmTools]:
    """Opens the JVM: `with warm_tools() as tools: tools.run("consumer-groups", "--list", …)`. Logs are in a run's
    stderr."""
    with temporary_folder() as folder:
        log_config = Path(folder, "log4j2.properties")
        log_config.write_text(f"{LOG_CONFIG}appender.stderr.follow = true\n")
        jvm = replace(kafka_jvm(), log_config=log_config)
        command = jvm.command(str(SOURCE), temp_folder=Path(folder), log_level=log_level)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            yield WarmTools(process)
            assert process.stdin
            process.stdin.close()
