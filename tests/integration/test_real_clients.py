"""Real clients write to `kcoord serve` with every codec and read back, byte for byte, what the seed says.

They write 100,000 records with one codec and fewer with the others; KCOORD_TEST_RECORDS=100000 is as many with each.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types do not export it

from kcoord.testing.embedded import EmbeddedCluster
from tests.clients.command_line import CODECS
from tests.clients.java_program import JavaProgram
from tests.clients.programs import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, Program, Summary, franz_go
from tests.clients.records import PARTITIONS, PartitionDigest, digests, write_records

SEED = 7
COUNT = 100_000
COUNT_OF_OTHERS = int(os.environ.get("KCOORD_TEST_RECORDS", "20000"))
CODEC = "zstd"
"""That of the large sets."""
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "franz-go", "java")
# Each reads what its left neighbour wrote.
RING = tuple(zip(CLIENTS, CLIENTS[1:] + CLIENTS[:1], strict=True))

Client = Program | JavaProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSet:
    """What a client writes, as a file and as what must be read."""

    path: Path
    digests: list[PartitionDigest]

    @property
    def counts(self) -> list[int]:
        return [digest.records for digest in self.digests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    cluster: EmbeddedCluster
    client: Callable[[str], Client]
    record_set: Callable[[str, str], RecordSet]
    """What a client writes with a codec."""
    written: Callable[[str, str], str]
    """The topic that a client has written its set to with a codec: once, whoever asks."""


@pytest.fixture(scope="module")
def scene(
    kcoord_cluster_factory: Callable[..., EmbeddedCluster],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("clients")

    @cache
    def client(name: str) -> Client:
        match name:
            case "java":
                request.getfixturevalue("java_tools")  # skips or fails where there is no Java
                from kcoord.testing.jars import kafka_jvm

                return JavaProgram(jvm=kafka_jvm())
            case "franz-go":
                return franz_go(folder)
            case _:
                return {program.name: program for program in (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)}[name]

    @cache
    def records_of(name: str, count: int) -> RecordSet:
        records = client(name).records(SEED, count)
        path = folder / f"{name}-{count}.records"
        write_records(path, records)
        return RecordSet(path=path, digests=digests(records))

    def record_set(name: str, codec: str) -> RecordSet:
        return records_of(name, COUNT if codec == CODEC else COUNT_OF_OTHERS)

    with kcoord_cluster_factory() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

        @cache
        def written(name: str, codec: str) -> str:
            topic = f"{name}-{codec}"
            # The records are from 2023: without this they may be deleted at any time.
            wanted = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})
            admin.create_topics([wanted])[topic].result(30)
            client(name).produce(cluster.bootstrap, topic, codec=codec, records=record_set(name, codec).path)
            return topic

        yield Scene(cluster=cluster, client=client, record_set=record_set, written=written)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_reads_back_what_it_wrote(scene: Scene, name: str, codec: str) -> None:
    topic = scene.written(name, codec)
    expected = scene.record_set(name, codec)

    assert end_offsets(scene.cluster, topic) == expected.counts
    read = scene.client(name).consume(scene.cluster.bootstrap, topic, counts=expected.counts)

    assert comparable(name, read) == comparable(name, [digest.summary() for digest in expected.digests])


@pytest.mark.parametrize(("writer", "reader"), RING)
def test_a_client_reads_what_another_wrote(scene: Scene, writer: str, reader: str) -> None:
    topic = scene.written(writer, CODEC)
    expected = scene.record_set(writer, CODEC)

    read = scene.client(reader).consume(scene.cluster.bootstrap, topic, counts=expected.counts)

    assert comparable(writer, read) == comparable(writer, [digest.summary() for digest in expected.digests])


def end_offsets(cluster: EmbeddedCluster, topic: str) -> list[int]:
    """Where the partitions end: a record that was written twice shows here."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    marks = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30) for index in range(PARTITIONS)]
    consumer.close()
    return [high for _, high in marks]


def comparable(writer: str, summary: Summary) -> list[dict[str, Any]]:
    """Java's console producer chooses the times itself."""
    left_out = {"timestamps"} if writer == "java" else set()
    return [{name: value for name, value in each.items() if name not in left_out} for each in summary]
