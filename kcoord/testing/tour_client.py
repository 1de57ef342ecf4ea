"""The tour's client, a process of its own: confluent-kafka, as any application would use it.

    python -m kcoord.testing.tour_client produce BOOTSTRAP TOPIC COUNT
    python -m kcoord.testing.tour_client consume BOOTSTRAP TOPIC COUNT
    python -m kcoord.testing.tour_client join BOOTSTRAP TOPIC GROUP

The first two print one line of JSON on standard output; the third is a member of the group until its input ends.
"""

import hashlib
import json
import sys
import threading
import time
from collections import defaultdict
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition, libversion


def produce(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """Write so many records as an idempotent producer; what was acknowledged, by partition."""
    acknowledged: dict[int, list[tuple[int, bytes]]] = defaultdict(list)

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"not delivered: {error}")
        acknowledged[message.partition() or 0].append((message.offset() or 0, message.value() or b""))

    began = time.monotonic()
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(count):
        producer.produce(topic, key=str(number % 97), value=f"order {number}", on_delivery=delivered)
        producer.poll(0)
    if left := producer.flush(30):
        raise RuntimeError(f"{left} records were not acknowledged")
    return _told(acknowledged, time.monotonic() - began)


def consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """Read so many records from the start of every partition."""
    began = time.monotonic()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tour", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, 10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        read: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        while sum(map(len, read.values())) < count:
            messages = consumer.consume(1000, timeout=10)
            if not messages:
                raise RuntimeError("no records came for 10 seconds")
            for message in messages:
                read[message.partition() or 0].append((message.offset() or 0, message.value() or b""))
        return _told(read, time.monotonic() - began)
    finally:
        consumer.close()


def join(bootstrap: str, topic: str, group: str) -> None:
    """Be a member of the group, and commit what was read, until standard input ends."""
    has_ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        has_ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
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


def _told(records: dict[int, list[tuple[int, bytes]]], seconds: float) -> dict[str, Any]:
    digest = hashlib.sha256()
    for partition in sorted(records):
        for offset, value in sorted(records[partition]):
            digest.update(b"%d %d %s\n" % (partition, offset, value))
    return {
        "client": f"confluent-kafka with librdkafka {libversion()[0]}",
        "records": {partition: len(records[partition]) for partition in sorted(records)},
        "digest": digest.hexdigest()[:16],
        "seconds": seconds,
    }


if __name__ == "__main__":
    verb, bootstrap, topic, what = sys.argv[1:]
    if verb == "join":
        join(bootstrap, topic, what)
    else:
        verbs = {"produce": produce, "consume": consume}
        sys.stdout.write(json.dumps(verbs[verb](bootstrap, topic, int(what))) + "\n")
