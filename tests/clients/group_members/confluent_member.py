"""confluent-kafka (librdkafka) as a member of a group."""

import struct
from collections import defaultdict
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.group_members.member import POLL_SECONDS, Join, Membership, run_member


class ConfluentMember:
    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    def join(self, request: Join) -> None:
        settings = {
            "bootstrap.servers": request.bootstrap,
            "client.id": request.client_id,
            "group.id": request.group,
            "group.protocol": "classic",
            "partition.assignment.strategy": request.assignor,
            "session.timeout.ms": request.session_timeout_ms,
            "heartbeat.interval.ms": request.heartbeat_interval_ms,
            "max.poll.interval.ms": request.max_poll_interval_ms,
            "topic.metadata.refresh.interval.ms": request.metadata_max_age_ms,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
        }
        if request.instance_id is not None:
            settings["group.instance.id"] = request.instance_id
        self._consumer = Consumer(settings)
        self._consumer.subscribe(request.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def poll(self) -> None:
        batches: dict[str, list[Any]] = defaultdict(list)
        for message in self._consumer.consume(500, timeout=POLL_SECONDS):
            if error := message.error():
                self._membership.emit("error", error=error.name())
            else:
                batches[f"{message.topic()}-{message.partition()}"].append(message)
        for partition, messages in batches.items():
            offsets, values = [each.offset() for each in messages], [each.value() for each in messages]
            self._membership.read(partition, offsets, values)

    def commit(self, offsets: dict[str, int]) -> None:
        wanted = [TopicPartition(*_topic_and_partition(name), offset) for name, offset in offsets.items()]
        for line in self._consumer.commit(offsets=wanted, asynchronous=False) or []:
            if line.error:
                raise KafkaException(line.error)

    def generation_without_callback(self) -> None:
        """Returns nothing: librdkafka calls back in every generation."""

    def close(self) -> None:
        self._consumer.close()

    def _identity(self) -> tuple[int, str]:
        """Parses librdkafka's metadata for transactions: a tag, the generation, then zero-terminated texts."""
        (generation,) = struct.unpack_from("=i", self._consumer.consumer_group_metadata(), len("CGMDv2:"))
        return generation, self._consumer.memberid() or ""

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._membership.assigned(_names(partitions), self._identity())

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if offsets := self._membership.to_commit_before(_names(partitions)):
            with self._membership.committing(offsets):
                self.commit(offsets)
        self._membership.revoked(_names(partitions), self._identity())

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._membership.lost(_names(partitions), self._identity())


def _names(partitions: list[TopicPartition]) -> list[str]:
    return [f"{each.topic}-{each.partition}" for each in partitions]


def _topic_and_partition(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


if __name__ == "__main__":
    membership = Membership()
    run_member(ConfluentMember(membership), membership)
