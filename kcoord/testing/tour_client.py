"""The tour's client, a process of its own: confluent-kafka, as any application would use it.

    python -m kcoord.testing.tour_client produce BOOTSTRAP TOPIC COUNT FROM TO
    python -m kcoord.testing.tour_client join BOOTSTRAP TOPIC GROUP
    python -m kcoord.testing.tour_client mirror FROM TO TOPIC

`produce` gives its records times from FROM hours ago (2h) to TO hours ago. `join` is a member of the group, and commits
what it has read, until SIGTERM or SIGINT. `mirror` writes every record of a topic to the same partition of another
cluster, with its time, as MirrorMaker does.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition, libversion

_HOUR_MS = 3_600_000


def produce(bootstrap: str, topic: str, count: int, first: int, last: int) -> None:
    """Writes `count` records to the topic as an idempotent producer, with timestamps from `first` hours ago to `last`
    hours ago."""
    began = time.monotonic()
    now = time.time_ns() // 1_000_000
    producer, delivered = _producer(bootstrap)
    for number in range(count):
        age = first * _HOUR_MS - number * (first - last) * _HOUR_MS // count
        producer.produce(
            topic, key=str(number % 97), value=f"order {number}", timestamp=now - age, on_delivery=delivered
        )
        producer.poll(0)
    _flush(producer)
    _print(f"{count:,} records written to {topic} in {time.monotonic() - began:.2f} s by librdkafka {libversion()[0]}")


def mirror(source: str, target: str, topic: str) -> None:
    """Copies every record of a topic to the same partition of the other cluster, with its timestamp, as MirrorMaker
    does."""
    producer, delivered = _producer(target)
    consumer = Consumer(
        {"bootstrap.servers": source, "group.id": "mirror", "enable.auto.commit": False, "enable.partition.eof": False}
    )
    try:
        partitions = [
            TopicPartition(topic, partition) for partition in consumer.list_topics(topic, 10).topics[topic].partitions
        ]
        expected = sum(consumer.get_watermark_offsets(partition, 10)[1] for partition in partitions)
        consumer.assign([TopicPartition(topic, partition.partition, OFFSET_BEGINNING) for partition in partitions])
        count = 0
        while count < expected:
            messages = consumer.consume(1000, timeout=10)
            if not messages:
                raise RuntimeError("no records came for 10 seconds")
            for message in messages:
                producer.produce(
                    topic,
                    partition=message.partition() or 0,
                    key=message.key(),
                    value=message.value(),
                    timestamp=message.timestamp()[1],
                    on_delivery=delivered,
                )
            producer.poll(0)
            count += len(messages)
    finally:
        consumer.close()
    _flush(producer)
    _print(f"{count:,} records of {topic} mirrored from {source} to {target}")


def join(bootstrap: str, topic: str, group: str) -> None:
    """Consumes the topic as a member of the group, and commits what it has read, until SIGTERM or SIGINT."""
    has_ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        has_ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": 2000,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    try:
        while not has_ended.is_set():
            consumer.consume(1000, timeout=0.1)
    finally:
        consumer.close()


def _producer(bootstrap: str) -> tuple[Producer, Callable[[object, Message], None]]:
    """Returns an idempotent producer and its delivery callback, which raises on a failure."""

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")

    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"}), delivered


def _flush(producer: Producer) -> None:
    if left := producer.flush(30):
        raise RuntimeError(f"{left} records were not acknowledged")


def _hours(text: str) -> int:
    return int(text.removesuffix("h"))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    match verb, rest:
        case "produce", [bootstrap, topic, count, first, last]:
            produce(bootstrap, topic, int(count), _hours(first), _hours(last))
        case "join", [bootstrap, topic, group]:
            join(bootstrap, topic, group)
        case "mirror", [source, target, topic]:
            mirror(source, target, topic)
        case _:
            sys.exit(__doc__)
