"""Topics, commits and members for tests of offset changes: made and read independently of the code under test."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode

main: Any = import_module("kcoord.commands.main").main  # by name: mypy sees the folder, commands/

DEADLINE = 60.0
COMMIT_VERSION, FETCH_VERSION = 8, 8

Commit = tuple[int, int, str]  # offset, leader epoch, metadata
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    exit_code: int
    stdout: str
    stderr: str


def kcoord(*arguments: str) -> Run:
    """Runs the command line in this process, from its arguments to its exit code."""
    with CliRunner().isolation() as (out, err, _):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code
        stdout, stderr = out.getvalue().decode(), err.getvalue().decode()
    assert isinstance(code, int)
    assert "Traceback" not in stderr
    return Run(exit_code=code, stdout=stdout, stderr=stderr)


class OffsetsScene:
    """One broker, which coordinates every group."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def kcoord(self, *arguments: str) -> Run:
        return kcoord("offsets", *arguments, "-b", self.bootstrap)

    # Topics

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic that retains records however old they are."""
        topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[name].result(DEADLINE)
        self.wait_for_topic(name)

    def wait_for_topic(self, name: str) -> None:
        self._wait(lambda: name in self._admin.list_topics(timeout=DEADLINE).topics)

    def wait_for_end(self, topic: str, partition: int, end: int) -> None:
        """Waits for a transaction's marker, which comes after the client has got the response to EndTxn."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends", "log_level": 0})
        tp = KafkaPartition(topic, partition)
        try:
            self._wait(lambda: consumer.get_watermark_offsets(tp, DEADLINE) == (0, end))
        finally:
            consumer.close()

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(DEADLINE)
        self._wait(lambda: name not in self._admin.list_topics(timeout=DEADLINE).topics)

    def produce(self, topic: str, partition: int, times: list[int]) -> None:
        """Writes a record for each of these times, in ms."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0})
        for timestamp in times:
            producer.produce(topic, b"x", partition=partition, timestamp=timestamp)
        assert producer.flush(DEADLINE) == 0

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = KafkaPartition(topic, partition, before)
        for future in self._admin.delete_records([wanted]).values():
            future.result(DEADLINE)

    # Groups

    def commit(self, group: str, commits: Mapping[Partition, int | Commit]) -> None:
        """Commits without a member."""
        full = {tp: (commit, -1, "") if isinstance(commit, int) else commit for tp, commit in commits.items()}
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": epoch,
                        "committed_metadata": metadata,
                    }
                ],
            }
            for (topic, partition), (offset, epoch, metadata) in full.items()
        ]
        fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        answer = self._retry_until_ready(
            lambda client: client.ask(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, **fields), self._commit_error
        )
        errors = {each.error_code for topic in answer.topics for each in topic.partitions}
        assert errors == {ErrorCode.none}

    def committed(self, group: str) -> dict[Partition, Commit]:
        fields = {"groups": [{"group_id": group, "topics": None}], "require_stable": False}
        answer = self._retry_until_ready(
            lambda client: client.ask(ApiKey.OFFSET_FETCH, FETCH_VERSION, **fields),
            lambda answer: answer.groups[0].error_code,
        )
        (answered,) = answer.groups
        assert answered.error_code is ErrorCode.none
        return {
            (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata)
            for topic in answered.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def offsets(self, group: str) -> dict[Partition, int]:
        return {tp: offset for tp, (offset, _, _) in self.committed(group).items()}

    @contextmanager
    def member(self, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
        """A real consumer that has joined, and that does not commit by itself."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([topic])
            deadline = time.monotonic() + DEADLINE
            while not consumer.assignment():
                consumer.poll(0.05)
                assert time.monotonic() < deadline, "the consumer has not joined"
            yield consumer
        finally:
            consumer.close()

    # Queries

    @staticmethod
    def _commit_error(answer: Any) -> ErrorCode:
        error: ErrorCode = answer.topics[0].partitions[0].error_code
        return error

    def _retry_until_ready(self, ask: Any, error_of: Any) -> Any:
        """Retries a request until the coordinator of the group is ready."""
        early = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available)
        deadline = time.monotonic() + DEADLINE
        with Client(*self._address) as client:
            client.ask(
                ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=("any",)
            )  # this creates __consumer_offsets
            while error_of(answer := ask(client)) in early and time.monotonic() < deadline:
                time.sleep(0.05)
        return answer

    def _wait(self, is_so: Any) -> None:
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)
