"""The times of records behind transaction markers, which are no records, on a real Kafka."""

import secrets
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from kcoord.admin.model import TopicPartition
from kcoord.admin.wire.times import ROOM_FOR_ONE
from kcoord.client.client import Client
from kcoord.protocol.records.record import Record
from kcoord.testing.cluster import Cluster
from tests.support.admin.fake_cluster import PATIENCE, LiveFixture

from ...support.admin.group_kinds import create_topic, until

COMMITTED, ABORTED, LARGE = 1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000


@pytest.fixture(scope="module")
def live(kafka_cluster: Cluster) -> Iterator[LiveFixture]:
    with LiveFixture(kafka_cluster.bootstrap) as live:
        yield live


def test_the_record_behind_markers_has_its_time_also_in_a_batch_larger_than_a_look(live: LiveFixture) -> None:
    """The offsets are: 0 committed, 1 its marker, 2 aborted, 3 its marker, 4 to 6 a large batch, 7 committed, 8 its
    marker."""
    tp = TopicPartition(f"times-{secrets.token_hex(3)}", 0)
    host, _, port = live.bootstrap.rpartition(":")
    with Client(host, int(port)) as client:
        create_topic(client, tp.topic, 1)
    producer = Producer({"bootstrap.servers": live.bootstrap, "transactional.id": tp.topic})
    producer.init_transactions(PATIENCE)

    def transaction(time: int, end: Callable[[float], None], *, log_end: int) -> None:
        """Runs a transaction, and waits for the marker, which comes after the response to the client."""
        producer.begin_transaction()
        producer.produce(tp.topic, b"v", partition=0, timestamp=time)
        assert producer.flush(PATIENCE) == 0
        end(PATIENCE)
        until(lambda: live.cluster.bounds([tp]).found[tp] == (0, log_end) or None)

    transaction(COMMITTED, producer.commit_transaction, log_end=2)
    transaction(ABORTED, producer.abort_transaction, log_end=4)
    live.produce(tp, [Record(timestamp=LARGE + each, value=bytes(ROOM_FOR_ONE)) for each in range(3)])
    transaction(COMMITTED, producer.commit_transaction, log_end=9)

    times = live.cluster.timestamps([(tp, offset) for offset in range(10)])

    assert times.refused == ()
    assert {offset: time for (_, offset), time in times.found.items()} == {
        0: COMMITTED,
        1: ABORTED,
        2: ABORTED,
        3: LARGE,
        4: LARGE,
        5: LARGE + 1,
        6: LARGE + 2,
        7: COMMITTED,
    }
