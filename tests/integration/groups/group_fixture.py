"""Groups of every kind that operators meet, on a real cluster: with members, without members, behind, out of range."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.committing import commit

DEADLINE = 60.0
HOUR = 3_600_000

GROUPS = frozenset({"shop", "modern", "static", "asleep", "astray"})
ORDERS, PAYMENTS = "orders", "payments"
RECORDS = 120  # in each partition of orders, one every 30 s over the last hour


@dataclass(frozen=True, kw_only=True)
class GroupFixture:
    """The groups: `shop` is classic and has members, `modern` is of KIP-848, `static` has instance ids, `asleep` has no
    members."""

    client: Mapping[str, str]
    started_ms: int
    consumers: Sequence[Consumer]


@contextmanager
def group_fixture(client: Mapping[str, str]) -> Iterator[GroupFixture]:
    """Creates the groups. `client` is librdkafka's configuration: the cluster, and the login."""
    now = int(time.time() * 1000)
    _make_topics(client)
    _produce(client, now)
    consumers = [
        _consumer(client, "shop", "shop-0"),
        _consumer(client, "shop", "shop-1"),
        _consumer(client, "modern", "modern-0", **{"group.protocol": "consumer"}),
        _consumer(client, "modern", "modern-1", **{"group.protocol": "consumer"}),
        _consumer(client, "static", "static-0", **{"group.instance.id": "worker-0"}),
    ]
    try:
        for consumer in consumers:
            consumer.subscribe([ORDERS, PAYMENTS])
        _wait_until_owned(consumers)
        for consumer in consumers:
            offsets = [TopicPartition(tp.topic, tp.partition, 7 + tp.partition) for tp in consumer.assignment()[:3]]
            consumer.commit(offsets=offsets, asynchronous=False)
        _commit_as_nobody(client, "asleep", [(ORDERS, 0, 10), (ORDERS, 1, RECORDS), (PAYMENTS, 0, 5)])
        _commit_as_nobody(client, "astray", [(ORDERS, 2, RECORDS + 1000)])
        yield GroupFixture(client=client, started_ms=now, consumers=consumers)
    finally:
        for consumer in consumers:
            consumer.close()


def _make_topics(client: Mapping[str, str]) -> None:
    admin = AdminClient(dict(client))
    for future in admin.create_topics([NewTopic(ORDERS, 4, 1), NewTopic(PAYMENTS, 2, 1)]).values():
        future.result(DEADLINE)


def _produce(client: Mapping[str, str], now: int) -> None:
    producer = Producer({**client, "compression.type": "lz4"})
    for partition in range(4):
        for number in range(RECORDS):
            producer.produce(ORDERS, b"x" * 100, partition=partition, timestamp=now - HOUR + number * 30_000)
    for partition in range(2):
        for number in range(20):
            producer.produce(PAYMENTS, b"y", partition=partition, timestamp=now - number * 1000)
    assert producer.flush(DEADLINE) == 0


def _consumer(client: Mapping[str, str], group: str, client_id: str, **others: str) -> Consumer:
    return Consumer(
        {
            **client,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **others,
        }
    )


def _wait_until_owned(consumers: Sequence[Consumer]) -> None:
    """Waits until every group owns all six partitions, each once."""
    deadline = time.monotonic() + DEADLINE
    while True:
        for consumer in consumers:
            consumer.poll(0.05)
        owned = [consumer.assignment() for consumer in consumers]
        groups = (owned[0] + owned[1], owned[2] + owned[3], owned[4])
        is_shared = all(owned[:4])
        if is_shared and all(len(set(map(_name, group))) == 6 == len(group) for group in groups):
            return
        assert time.monotonic() < deadline, owned


def _name(tp: TopicPartition) -> tuple[str, int]:
    return tp.topic, tp.partition


def _commit_as_nobody(client: Mapping[str, str], group: str, offsets: Sequence[tuple[str, int, int]]) -> None:
    consumer = Consumer({**client, "group.id": group})
    commit(consumer, [TopicPartition(*offset) for offset in offsets])
    consumer.close()
