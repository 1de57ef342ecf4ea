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
"""The codec of the large sets."""
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "franz-go", "java")
# Each reads the records of its left neighbour.
RING = tuple(zip(CLIENTS, CLIENTS[1:] + CLIENTS[:1], strict=True))

Client = Program | JavaProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSet:
    """The records of a client, as a file to write and as the expected result."""

    path: Path
    digests: list[PartitionDigest]

    @property
    def counts(self) -> list[int]:
        return [digest.records for digest in self.digests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Writes record sets, once for each client and codec."""

    cluster: EmbeddedCluster
    client: Callable[[str], Client]
    record_set: Callable[[str, str], RecordSet]
    """Returns the records that a client writes with a codec."""
    written: Callable[[str, str], str]
    """Returns the topic with a client's set in a codec; it is written once, on demand."""


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
                request.getfixturevalue("java_tools")  # skips or fails without Java
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
    """Returns the ends of the partitions, which show a record that was written twice."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused"})
    marks = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30) for index in range(PARTITIONS)]
    consumer.close()
    return [high for _, high in marks]


def comparable(writer: str, summary: Summary) -> list[dict[str, Any]]:
    """Removes the times that Java's console producer chooses itself."""
    left_out = {"timestamps"} if writer == "java" else set()
    return [{name: value for name, value in each.items() if name not in left_out} for each in summary]
