"""aiokafka as a program."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.clients.command_line import Consume, JoinGroup, Produce, run_program
from tests.clients.records import PartitionDigest


async def produce(request: Produce) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=request.bootstrap,
        enable_idempotence=True,
        acks="all",
        compression_type=None if request.codec == "none" else request.codec,
        max_batch_size=128 * 1024,
        linger_ms=20,
    )
    async with producer:
        deliveries = [
            await producer.send(
                request.topic,
                key=record.key,
                value=record.value,
                partition=record.partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in request.records
        ]
        await producer.flush()
        for delivery in deliveries:
            delivery.result()


async def consume(request: Consume) -> list[PartitionDigest]:
    partitions = [TopicPartition(request.topic, index) for index, count in enumerate(request.counts) if count]
    consumer = AIOKafkaConsumer(bootstrap_servers=request.bootstrap, group_id=None, enable_auto_commit=False)
    consumer.assign(partitions)
    seen = request.fresh_digests()
    left = request.total
    async with consumer:
        for partition in partitions:
            consumer.seek(partition, 0)
        while left > 0:
            polled = await consumer.getmany(timeout_ms=30_000)
            assert polled, f"{left} records did not come"
            for partition, records in polled.items():
                digest = seen[partition.partition]
                for record in records:
                    digest.add(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
                left -= len(records)
    return seen


async def join_group(request: JoinGroup) -> None:
    consumer = AIOKafkaConsumer(
        request.topic,
        bootstrap_servers=request.bootstrap,
        group_id=request.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    )
    end = time.monotonic() + request.seconds
    async with consumer:
        while time.monotonic() < end:
            if await consumer.getmany(timeout_ms=500):
                await consumer.commit()


if __name__ == "__main__":
    run_program(
        produce=lambda request: asyncio.run(produce(request)),
        consume=lambda request: asyncio.run(consume(request)),
        join_group=lambda request: asyncio.run(join_group(request)),
    )
