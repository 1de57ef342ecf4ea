"""kafka-python as a program."""

import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.command_line import Consume, JoinGroup, Produce, run_program
from tests.clients.records import PartitionDigest


def produce(request: Produce) -> None:
    producer = KafkaProducer(
        bootstrap_servers=request.bootstrap,
        enable_idempotence=True,
        acks="all",
        compression_type=None if request.codec == "none" else request.codec,
        batch_size=128 * 1024,
        linger_ms=20,
    )
    sends = [
        producer.send(
            request.topic,
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp_ms=record.timestamp,
            headers=list(record.headers),
        )
        for record in request.records
    ]
    producer.flush(60)
    failures = [send.exception for send in sends if not send.succeeded()]
    assert not failures, failures[:3]
    producer.close()


def consume(request: Consume) -> list[PartitionDigest]:
    consumer = KafkaConsumer(
        bootstrap_servers=request.bootstrap, group_id=None, enable_auto_commit=False, max_poll_records=10_000
    )
    partitions = [TopicPartition(request.topic, index) for index, count in enumerate(request.counts) if count]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    seen = request.fresh_digests()
    left = request.total
    while left > 0:
        polled = consumer.poll(timeout_ms=30_000)
        assert polled, f"{left} records did not come"
        for partition, records in polled.items():
            digest = seen[partition.partition]
            for record in records:
                digest.add(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
            left -= len(records)
    consumer.close()
    return seen


def join_group(request: JoinGroup) -> None:
    consumer = KafkaConsumer(
        request.topic,
        bootstrap_servers=request.bootstrap,
        group_id=request.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    )
    end = time.monotonic() + request.seconds
    while time.monotonic() < end:
        if consumer.poll(timeout_ms=500):
            consumer.commit()
    consumer.close()


if __name__ == "__main__":
    run_program(produce=produce, consume=consume, join_group=join_group)
