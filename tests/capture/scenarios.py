"""What each client does while its frames are recorded."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from kcoord.testing.jars import KAFKA_VERSION, kafka_jvm
from kcoord.testing.jvm.java import find_maven
from tests.clients.java_program import JavaProgram
from tests.clients.programs import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Program, build_go, franz_go
from tests.clients.records import PARTITIONS, digests, write_records

HERE = Path(__file__).parent
# Clients that are only captured, besides those of tests/clients.
NEWER_JAVA_CLIENT = "4.4.0"
KAFKAJS = "2.2.4"
GO_CLIENTS = {"sarama": "github.com/IBM/sarama", "kafka-go": "github.com/segmentio/kafka-go"}

RECORDS = 8
# The broker waits up to 3 s for further members; then there is time for heartbeats.
GROUP_SECONDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A client, and its script: (bootstrap, topic, folder). The topic exists and has two partitions."""

    client: str
    version: str
    play: Callable[[str, str, Path], None]

    @property
    def name(self) -> str:
        return f"{self.client}-{self.version}"


def scenarios(folder: Path) -> list[Scenario]:
    """All of them; programs that have to be built are built into the folder."""
    go = franz_go(folder)
    return [
        Scenario(client="confluent-kafka", version=version("confluent-kafka"), play=_confluent),
        Scenario(client="kafka-python", version=version("kafka-python"), play=_kafka_python),
        Scenario(client="aiokafka", version=version("aiokafka"), play=_aiokafka),
        Scenario(
            client="franz-go",
            version=_go_module_version(HERE.parent / "clients" / "franz_go", "github.com/twmb/franz-go"),
            play=lambda bootstrap, topic, where: _write_read_join(go, bootstrap, topic, where),
        ),
        Scenario(client="java", version=KAFKA_VERSION, play=_java),
        Scenario(
            client="java",
            version=NEWER_JAVA_CLIENT,
            play=_newer_java,
        ),
        *(_go_client(name, module, folder) for name, module in GO_CLIENTS.items()),
        Scenario(client="kafkajs", version=KAFKAJS, play=_kafkajs),
    ]


def _confluent(bootstrap: str, topic: str, folder: Path) -> None:
    _write_read_join(CONFLUENT, bootstrap, topic, folder)
    _run(sys.executable, str(HERE / "confluent_admin.py"), bootstrap, topic)


def _kafka_python(bootstrap: str, topic: str, folder: Path) -> None:
    _write_read_join(KAFKA_PYTHON, bootstrap, topic, folder)
    _run(sys.executable, str(HERE / "kafka_python_admin.py"), bootstrap, topic, _group(topic))


def _aiokafka(bootstrap: str, topic: str, folder: Path) -> None:
    _write_read_join(AIOKAFKA, bootstrap, topic, folder)
    _run(sys.executable, str(HERE / "aiokafka_admin.py"), bootstrap, topic, _group(topic))


def _java(bootstrap: str, topic: str, folder: Path) -> None:
    java = JavaProgram(jvm=kafka_jvm())
    _write_read_join(java, bootstrap, topic, folder)
    java.join_group(bootstrap, topic, group=f"{topic}-consumer-protocol", seconds=GROUP_SECONDS, protocol="consumer")
    other = f"{topic}-admin"
    group = ("--group", _group(topic))
    deletion = folder / "delete-records.json"
    deletion.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 1}]}))
    for tool, *arguments in (
        ("topics", "--create", "--topic", other, "--partitions", "1", "--config", "retention.ms=-1"),
        ("topics", "--list"),
        ("topics", "--describe", "--topic", other),
        ("topics", "--alter", "--topic", other, "--partitions", "2"),
        ("configs", "--alter", "--entity-type", "topics", "--entity-name", other, "--add-config", "retention.ms=1"),
        ("configs", "--describe", "--entity-type", "topics", "--entity-name", other),
        ("topics", "--delete", "--topic", other),
        ("get-offsets", "--topic", topic, "--time", "-1"),
        ("get-offsets", "--topic", topic, "--time", "-3"),
        ("get-offsets", "--topic", topic, "--time", "1"),
        ("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(deletion)),
        ("org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status"),
        ("org.apache.kafka.tools.TransactionsCommand", "list"),
        ("broker-api-versions",),
        ("console-share-consumer", "--topic", topic, "--group", f"{topic}-share", "--timeout-ms", "6000"),
        ("groups", "--list"),
        ("consumer-groups", "--list", "--state"),
        ("consumer-groups", "--describe", *group),
        ("consumer-groups", "--describe", "--members", *group),
        ("consumer-groups", "--describe", "--state", "--all-groups"),
        ("consumer-groups", "--reset-offsets", "--to-earliest", "--topic", topic, "--execute", *group),
        ("consumer-groups", "--delete-offsets", "--topic", topic, *group),
        ("consumer-groups", "--delete", *group),
    ):
        java.run(tool, "--bootstrap-server", bootstrap, *arguments)
    java.run("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", bootstrap)


def _newer_java(bootstrap: str, topic: str, folder: Path) -> None:
    """The client has no tools of its own release, and those of the release before do not run with it."""
    artifact = f"org.apache.kafka:kafka-clients:{NEWER_JAVA_CLIENT}"
    _run(str(find_maven()), "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    jvm = kafka_jvm()
    others = tuple(jar for jar in jvm.jars if not jar.name.startswith("kafka-clients-"))
    newer = replace(jvm, jars=(folder / f"kafka-clients-{NEWER_JAVA_CLIENT}.jar", *others), archive_flags=())
    program = str(HERE / "NewerClient.java")
    _run(*newer.command(program, bootstrap, topic, _group(topic), str(GROUP_SECONDS), temp_folder=folder))


def _go_client(name: str, module: str, folder: Path) -> Scenario:
    source = HERE / "go_clients"

    def play(bootstrap: str, topic: str, where: Path) -> None:
        _run(str(build_go(source, folder)), name, bootstrap, topic, _group(topic), str(GROUP_SECONDS))

    return Scenario(client=name, version=_go_module_version(source, module), play=play)


def _kafkajs(bootstrap: str, topic: str, folder: Path) -> None:
    _run("npm", "install", "--silent", "--prefix", str(folder), f"kafkajs@{KAFKAJS}")
    script = folder / "kafkajs_client.js"
    shutil.copy(HERE / script.name, script)
    _run("node", str(script), bootstrap, topic, _group(topic), str(GROUP_SECONDS))


def _write_read_join(program: Program | JavaProgram, bootstrap: str, topic: str, folder: Path) -> None:
    """Writes a few records, plain and compressed, reads them by partition, then as two members of a group."""
    records = program.records(seed=1, count=RECORDS)
    path = folder / f"{topic}.records"
    write_records(path, records)
    for codec in ("none", "gzip"):
        program.produce(bootstrap, topic, codec=codec, records=path)
    program.consume(bootstrap, topic, counts=[2 * digest.records for digest in digests(records)])
    with ThreadPoolExecutor(PARTITIONS) as members:
        joined = [
            members.submit(program.join_group, bootstrap, topic, group=_group(topic), seconds=GROUP_SECONDS)
            for _ in range(PARTITIONS)
        ]
        for member in joined:
            member.result()


def _group(topic: str) -> str:
    return f"{topic}-group"


def _run(*command: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, f"{' '.join(command)}\n{finished.stdout}\n{finished.stderr}"


def _go_module_version(folder: Path, module: str) -> str:
    found = re.search(rf"{re.escape(module)} v(\S+)", folder.joinpath("go.mod").read_text())
    assert found, f"{module} is not in the go.mod"
    return found[1]
