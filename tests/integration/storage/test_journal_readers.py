"""Readers of `__consumer_offsets`: Burrow and kminion consume it as any topic, and any client can consume kcoord's.

Their result is compared with the coordinator's answers. Only the coordinator writes the topic.
"""

import contextlib
import json
import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record, write_batch
from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.tools import JavaTools
from tests.integration.storage.journal_answers import address_of
from tests.integration.storage.journal_groups import GroupsOfAllKinds, line_of
from tests.support.differential.pair import wait_until
from tests.support.logs.log_dump_scene import TOPIC

OFFSETS_TOPIC: Final = "__consumer_offsets"
PARTITIONS: Final = 4
SETTINGS: Final = {"offsets.topic.num.partitions": str(PARTITIONS)}
FORMATTER: Final = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
OF_THE_TOPIC: Final = 1  # the source of a setting

Committed = dict[tuple[str, str, int], int]


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[EmbeddedCluster]:
    with kcoord_cluster_factory(settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def groups(cluster: EmbeddedCluster) -> Iterator[GroupsOfAllKinds]:
    groups = GroupsOfAllKinds(cluster.bootstrap)
    groups.make_classic()
    yield groups
    groups.close()


@pytest.fixture
def client(cluster: EmbeddedCluster) -> Iterator[Client]:
    with Client(*address_of(cluster.bootstrap)) as client:
        yield client


def test_a_monitor_reads_all_commits_and_then_each_as_it_is_made(
    cluster: EmbeddedCluster, groups: GroupsOfAllKinds, client: Client
) -> None:
    monitor = Monitor(cluster.bootstrap)
    try:
        monitor.read_to_the_end()
        assert monitor.committed == _fetched(client, groups.group_ids)
        assert len(monitor.committed) > 150
        groups.commit_lines("watched", [line_of(1, 77)])
        wait_until(lambda: monitor.sees(("watched", TOPIC, 1), 77))
        groups.delete_group("watched")
        wait_until(lambda: monitor.sees(("watched", TOPIC, 1), None))
    finally:
        monitor.close()


def test_kafkas_own_consumer_reads_commits_with_kafkas_own_formatter(
    cluster: EmbeddedCluster, groups: GroupsOfAllKinds, client: Client, java_tools: JavaTools
) -> None:
    reading = java_tools.start(
        "console-consumer",
        *("--bootstrap-server", cluster.bootstrap),
        *("--topic", OFFSETS_TOPIC),
        *("--formatter", FORMATTER),
        "--from-beginning",
    )
    expected = _fetched(client, groups.group_ids)
    with reading as console:
        wait_until(lambda: _printed(console.stdout(), groups.group_ids) == expected, timeout=60)


@pytest.mark.fact("P-035")
def test_the_topic_is_set_up_as_kafkas_is(client: Client, groups: GroupsOfAllKinds, kafka_cluster: Cluster) -> None:
    resource = {"resource_type": 2, "resource_name": OFFSETS_TOPIC, "configuration_keys": None}
    settings = []
    with Client(*address_of(kafka_cluster.bootstrap)) as kafka:
        wait_until(lambda: not kafka.ask(ApiKey.FIND_COORDINATOR, 3, key="any", key_type=0).error_code)
        for side in (kafka, client):
            (result,) = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
            topic_settings = {line.name: line.value for line in result.configs if line.config_source == OF_THE_TOPIC}
            settings.append(topic_settings)
            (topic,) = side.ask(ApiKey.METADATA, 12, topics=[{"name": OFFSETS_TOPIC, "topic_id": None}]).topics
            assert topic.is_internal
    assert (
        settings[0]
        == settings[1]
        == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
    )


@pytest.mark.parametrize("client_id", ["anybody", "__admin_client"])
def test_nobody_but_the_coordinator_writes_it(
    cluster: EmbeddedCluster, groups: GroupsOfAllKinds, client_id: str
) -> None:
    batch = write_batch([Record(timestamp=0, key=b"\x00\x02\x00\x01g", value=None)])
    lines = [{"name": OFFSETS_TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
    with Client(*address_of(cluster.bootstrap), client_id=client_id) as writer:
        answer = writer.ask(ApiKey.PRODUCE, 9, acks=-1, timeout=timedelta(seconds=10), topic_data=lines)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.invalid_topic_exception


class Monitor:
    """Reads all partitions from their beginning, without a group, and decodes keys and values by hand."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: Committed = {}
        self._ended: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not used",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        known = self._consumer.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
        assert len(known) == PARTITIONS
        self._consumer.assign([TopicPartition(OFFSETS_TOPIC, index, OFFSET_BEGINNING) for index in known])

    def read_to_the_end(self) -> None:
        wait_until(lambda: self._has_read() and len(self._ended) == PARTITIONS)

    def sees(self, offset_key: tuple[str, str, int], offset: int | None) -> bool:
        return self._has_read() and self.committed.get(offset_key) == offset

    def close(self) -> None:
        self._consumer.close()

    def _has_read(self) -> bool:
        for message in self._consumer.consume(1000, timeout=0.1):
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                self._ended.add(message.partition() or 0)
            else:
                self._take(message)
        return True

    def _take(self, message: Message) -> None:
        key, value = message.key(), message.value()
        assert key is not None
        (kind,) = struct.unpack_from(">h", key)
        if kind != 1:
            return
        group_id, at = _text(key, 2)
        topic, at = _text(key, at)
        offset_key = group_id, topic, struct.unpack_from(">i", key, at)[0]
        if value is None:
            del self.committed[offset_key]
        else:
            (self.committed[offset_key],) = struct.unpack_from(">q", value, 2)  # after the version


def _text(content: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", content, at)
    return content[at + 2 : at + 2 + size].decode(), at + 2 + size


def _printed(stdout: str, group_ids: list[str]) -> Committed:
    """Reduces the formatter's objects to the offsets of these groups: the console consumer has a group of its own."""
    committed: Committed = {}
    for record in _objects(stdout):
        key = record["key"]["data"]
        offset_key = key["group"], key["topic"], key["partition"]
        if record["value"] is None:
            committed.pop(offset_key, None)
        else:
            committed[offset_key] = record["value"]["data"]["offset"]
    return {offset_key: offset for offset_key, offset in committed.items() if offset_key[0] in group_ids}


def _objects(printed: str) -> Iterator[Any]:
    """Parses concatenated JSON objects; the last may be incomplete."""
    decoder, at = json.JSONDecoder(), 0
    with contextlib.suppress(json.JSONDecodeError):
        while True:
            found, at = decoder.raw_decode(printed, at)
            yield found


def _fetched(client: Client, group_ids: list[str]) -> Committed:
    answer = client.ask(
        ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": group_id, "topics": None} for group_id in group_ids]
    )
    return {
        (group.group_id, topic.name, line.partition_index): line.committed_offset
        for group in answer.groups
        for topic in group.topics
        for line in topic.partitions
    }
