"""Kafka's own tools and Java clients, run by class name or by the short name of their script."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .jars import kafka_jvm
from .jvm.java import QUICK_FLAGS, Jvm
from .process import CapturedProcess, temporary_folder

SHORT_NAMES = {
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """The output and the exit code of one of Kafka's Java tools. Some of these fail with exit code 0: check the text,
    too."""

    stdout: str
    stderr: str
    exit_code: int


class JavaTools:
    """Runs Kafka's own command-line tools and Java clients, by short name ("consumer-groups") or class name; the first
    use fetches Kafka's jars by Maven."""

    def __init__(self, jvm: Jvm | None = None) -> None:
        self._jvm = jvm or kafka_jvm()

    def run(
        self,
        tool: str,
        *arguments: str | Path,
        input: str = "",  # noqa: A002 as subprocess.run calls it
        timeout: float = 60.0,
        flags: Sequence[str] = QUICK_FLAGS,
    ) -> ToolRun:
        """Runs a tool to its end and returns its output; `input` is its standard input. Raises TimedOutError, with the
        output so far, if it takes longer than `timeout` seconds."""
        with self._start(tool, arguments, stdin=input, flags=flags) as running:
            exit_code = running.wait(timeout)
            return ToolRun(stdout=running.stdout(), stderr=running.stderr(), exit_code=exit_code)

    def start(self, tool: str, *arguments: str | Path, flags: Sequence[str] = QUICK_FLAGS) -> CapturedProcess:
        """Starts a tool that runs on, such as a consumer: use the returned process in a `with`, which stops it."""
        return self._start(tool, arguments, stdin=None, flags=flags)

    def _start(
        self, tool: str, arguments: Sequence[str | Path], *, stdin: str | None, flags: Sequence[str]
    ) -> CapturedProcess:
        folder = temporary_folder()
        command = self._jvm.command(main_class(tool), *map(str, arguments), temp_folder=Path(folder.name), flags=flags)
        return CapturedProcess(command, name=tool, folder=folder, stdin=stdin)


def main_class(tool: str) -> str:
    """Returns the Java class of a tool's short name, such as "topics"; a class name (it has a dot) is returned
    unchanged."""
    if "." in tool:
        return tool
    if tool not in SHORT_NAMES:
        raise ValueError(f"there is no tool {tool!r}: give a class name, or one of {', '.join(SHORT_NAMES)}")
    return SHORT_NAMES[tool]
