"""Kafka's own tools against `kcoord serve` print what they print against a real broker.

The steps run in order against both clusters, in parallel, and are compared one by one. The comparison ignores what
differs between any two brokers (topic ids, times), and what the settings of the real one explain. Console tools run in
processes of their own; the others in one JVM, since most of their time is its start.
"""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.tools import JavaTools, ToolRun
from tests.integration.support.warm_tool import warm_tools

TOPIC = "java-tools-orders"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
CONFIGS = ("--entity-type", "topics", "--entity-name", TOPIC)


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a tool; the bootstrap server is added to its arguments."""

    name: str
    arguments: tuple[str, ...]
    input: str = ""
    is_refused: bool = False


def refused(name: str, *arguments: str) -> Step:
    return Step(name, arguments, is_refused=True)


def reading(partition: int, count: int) -> tuple[str, ...]:
    return (
        *("console-consumer", "--topic", TOPIC, "--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(count), "--timeout-ms", "20000", "--formatter-property", "print.key=true"),
        *("--formatter-property", "print.offset=true", "--formatter-property", "print.headers=true"),
    )


# With three partitions, "a" goes to partition 1 and "b" to partition 2.
LINES = "h:1,i:2\ta\tone\nh:1\ta\ttwo\nh:1\tb\tthree\n"
DELETIONS = "a file of deletions"

STEPS = (
    Step(
        "create a topic",
        ("topics", "--create", "--topic", TOPIC, "--partitions", "2", "--config", "retention.ms=3600000"),
    ),
    refused("create it again", "topics", "--create", "--topic", TOPIC),
    Step("create it if it is not there", ("topics", "--create", "--if-not-exists", "--topic", TOPIC)),
    refused("create one with a bad name", "topics", "--create", "--topic", "java tools"),
    refused(
        "create one with too many replicas",
        "topics",
        "--create",
        "--topic",
        "java-tools-9",
        "--replication-factor",
        "9",
    ),
    Step("list it", ("topics", "--list", "--topic", "java-tools-.*")),
    Step("describe it", ("topics", "--describe", "--topic", TOPIC)),
    refused("describe one that is not there", "topics", "--describe", "--topic", "java-tools-missing"),
    Step("add a partition", ("topics", "--alter", "--topic", TOPIC, "--partitions", "3")),
    refused("take a partition away", "topics", "--alter", "--topic", TOPIC, "--partitions", "2"),
    Step("describe it with three partitions", ("topics", "--describe", "--topic", TOPIC)),
    Step("describe its configs", ("configs", "--describe", *CONFIGS)),
    Step("describe all its configs", ("configs", "--describe", "--all", *CONFIGS)),
    Step(
        "set configs",
        ("configs", "--alter", *CONFIGS, "--add-config", "max.message.bytes=900000,segment.bytes=1048576"),
    ),
    refused("set a config that does not exist", "configs", "--alter", *CONFIGS, "--add-config", "no.such=1"),
    refused("set a config to a bad value", "configs", "--alter", *CONFIGS, "--add-config", "retention.ms=long"),
    Step("describe the set configs", ("configs", "--describe", *CONFIGS)),
    Step("delete a config", ("configs", "--alter", *CONFIGS, "--delete-config", "max.message.bytes,segment.bytes")),
    Step("describe what is left", ("configs", "--describe", *CONFIGS)),
    Step("get the offsets of an empty topic", ("get-offsets", "--topic", TOPIC, "--time", "max-timestamp")),
    Step(
        "write lines",
        (
            *("console-producer", "--topic", TOPIC, "--reader-property", "parse.key=true"),
            *("--reader-property", "parse.headers=true"),
        ),
        input=LINES,
    ),
    Step("get the earliest offsets", ("get-offsets", "--topic", TOPIC, "--time", "earliest")),
    Step("get the latest offsets", ("get-offsets", "--topic", TOPIC, "--time", "latest")),
    Step("get the offsets of the largest time", ("get-offsets", "--topic", TOPIC, "--time", "max-timestamp")),
    Step("get the offsets of a time before all", ("get-offsets", "--topic", TOPIC, "--time", "1")),
    Step("get the offsets of a time after all", ("get-offsets", "--topic", TOPIC, "--time", "99999999999999")),
    refused("get the offsets of no topic", "get-offsets", "--topic", "java-tools-missing"),
    Step("read partition 1", reading(1, 2)),
    Step("read partition 2", reading(2, 1)),
    Step("delete records", (DELETE_RECORDS, "--offset-json-file", DELETIONS)),
    Step("get the earliest offsets after it", ("get-offsets", "--topic", TOPIC, "--time", "earliest")),
    Step("read what is left", reading(1, 1)),
    Step("delete the topic", ("topics", "--delete", "--topic", TOPIC)),
    refused("delete it again", "topics", "--delete", "--topic", TOPIC),
    Step("list nothing", ("topics", "--list", "--topic", "java-tools-.*")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The output of each step, by its name."""

    kafka: Mapping[str, ToolRun]
    kcoord: Mapping[str, ToolRun]


@pytest.fixture(scope="module")
def played(
    kafka_cluster: Cluster,
    kcoord_cluster_factory: Callable[..., EmbeddedCluster],
    java_tools: JavaTools,
    tmp_path_factory: pytest.TempPathFactory,
) -> Played:
    deletions = tmp_path_factory.mktemp("java-tools") / "deletions.json"
    wanted = [{"topic": TOPIC, "partition": 1, "offset": 1}, {"topic": TOPIC, "partition": 2, "offset": 99}]
    deletions.write_text(json.dumps({"version": 1, "partitions": wanted}))
    with kcoord_cluster_factory() as kcoord_cluster, ThreadPoolExecutor(2) as players:
        runs = players.map(
            lambda bootstrap: play(java_tools, bootstrap, deletions),
            (kafka_cluster.bootstrap, kcoord_cluster.bootstrap),
        )
        kafka, kcoord = runs
    return Played(kafka=kafka, kcoord=kcoord)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name.replace(" ", "-"))
def test_a_tool_gives_the_same_as_against_kafka(played: Played, step: Step) -> None:
    kafka, kcoord = played.kafka[step.name], played.kcoord[step.name]

    assert kafka.exit_code == (1 if step.is_refused else 0), f"{kafka.stdout}\n{kafka.stderr}"
    assert kcoord.exit_code == kafka.exit_code, f"{kcoord.stdout}\n{kcoord.stderr}"
    assert exceptions(kcoord) == exceptions(kafka)
    if not step.is_refused:  # a refusal is compared by its exception: the message may differ
        assert comparable(kcoord.stdout) == comparable(kafka.stdout)


def play(tools: JavaTools, bootstrap: str, deletions: Path) -> dict[str, ToolRun]:
    def run(step: Step) -> ToolRun:
        tool, *arguments = (str(deletions) if argument == DELETIONS else argument for argument in step.arguments)
        if tool.startswith("console-"):
            return tools.run(tool, "--bootstrap-server", bootstrap, *arguments, input=step.input)
        return warm.run(tool, "--bootstrap-server", bootstrap, *arguments)

    with warm_tools(log_level="warn") as warm:
        return {step.name: run(step) for step in STEPS}


def exceptions(run: ToolRun) -> set[str]:
    """Returns the Java exceptions that a tool prints."""
    return set(re.findall(r"[\w.]+Exception", run.stdout + run.stderr))


# Kafka describes a topic's partitions with DescribeTopicPartitions, which has eligible leaders (KIP-966); that
# feature also gives every broker a dynamic min.insync.replicas. The other setting is the test cluster's.
ELIGIBLE_LEADERS = re.compile(r"\tElr: .*\tLastKnownElr: .*")
OTHERS_SETTINGS = re.compile(r"(min\.insync\.replicas|segment\.index\.bytes)=\d+( sensitive=.*|,|$)")
TOPIC_ID = re.compile(r"TopicId: \S+")


def comparable(printed: str) -> list[str]:
    """Removes what differs between any two brokers, and sorts lines that come from a hash map."""
    for pattern in (ELIGIBLE_LEADERS, OTHERS_SETTINGS, TOPIC_ID):
        printed = "\n".join(pattern.sub("", line) for line in printed.splitlines())
    return sorted(line.rstrip(", ") for line in printed.splitlines())
