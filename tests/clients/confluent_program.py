"""confluent-kafka (librdkafka) as a program."""

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.command_line import Consume, JoinGroup, Produce, run_program
from tests.clients.records import PartitionDigest


def produce(request: Produce) -> None:
    producer = Producer(
        {
            "bootstrap.servers": request.bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": request.codec,
            "linger.ms": 20,
            "queue.buffering.max.messages": len(request.records) + 1,
        }
    )
    failures: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for record in request.records:
        producer.produce(
            request.topic,
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
    left = producer.flush(60)
    assert not left, f"{left} records were not delivered"
    assert not failures, failures[:3]


def consume(request: Consume) -> list[PartitionDigest]:
    consumer = Consumer(
        {"bootstrap.servers": request.bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition(request.topic, index, 0) for index, count in enumerate(request.counts) if count])
    seen = request.fresh_digests()
    left = request.total
    while left > 0:
        messages = consumer.consume(min(left, 10_000), timeout=30)
        assert messages, f"{left} records did not come"
        for message in messages:
            _add(seen, message)
        left -= len(messages)
    consumer.close()
    return seen


def join_group(request: JoinGroup) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": request.bootstrap,
            "group.id": request.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe([request.topic])
    end = time.monotonic() + request.seconds
    while time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            consumer.commit(message=message, asynchronous=False)
    consumer.close()


def _add(seen: list[PartitionDigest], message: Any) -> None:
    """Adds a message. Its type is `Any`, because confluent-kafka types everything as optional, and headers as
    anything."""
    assert message.error() is None, message.error()
    _, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    seen[message.partition()].add(message.offset(), timestamp, message.key(), message.value(), headers)


if __name__ == "__main__":
    run_program(produce=produce, consume=consume, join_group=join_group)
