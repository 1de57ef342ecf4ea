"""Kafka's snapshots of producers, read and written."""

import pytest

from kcoord.broker.log.producers import AppendedBatch, Producer, Producers
from kcoord.protocol.records.batch import NO_SEQUENCE
from kcoord.storage.producer_snapshot import BadSnapshot, read_snapshot, write_snapshot

# 00000000000000008353.snapshot of a 4.3.1 broker: producer 0, whose first batch had the sequences 0 to 8352.
of_kafka = bytes.fromhex(
    "0001 69f21e5f 00000001 0000000000000000 0000 000020a0 00000000000020a0 000020a0 000001a1e3a665d2 ffffffff"
    "ffffffffffffffff"
)


def producers_of(content: bytes) -> dict[int, Producer]:
    return dict(read_snapshot(content))


def test_a_snapshot_of_a_broker_is_read_and_written_alike() -> None:
    (producer,) = producers_of(of_kafka).values()
    (last,) = producer.batches
    assert (producer.epoch, last.first_sequence, last.last_sequence) == (0, 0, 8352)
    assert (last.base_offset, last.last_offset, last.timestamp) == (0, 8352, 0x01A1E3A665D2)
    assert write_snapshot([(0, producer)]) == of_kafka


def test_sequences_that_begin_anew_after_the_largest_are_kept() -> None:
    batch = AppendedBatch(first_sequence=2**31 - 2, last_sequence=1, base_offset=10, last_offset=13, timestamp=5)
    producer = Producer(epoch=3, last_timestamp=5)
    producer.batches.append(batch)
    assert producers_of(write_snapshot([(7, producer)])) == {7: producer}


def test_a_producer_without_batches_is_kept() -> None:
    producer = Producer(epoch=3, last_timestamp=5)
    assert producers_of(write_snapshot([(7, producer)])) == {7: producer}
    assert producer.last_sequence == NO_SEQUENCE


def test_no_producers_are_a_snapshot_too() -> None:
    assert producers_of(write_snapshot(Producers().items())) == {}


@pytest.mark.parametrize("position", range(len(of_kafka)))
def test_a_damaged_snapshot_is_refused(position: int) -> None:
    damaged = bytearray(of_kafka)
    damaged[position] ^= 1
    with pytest.raises(BadSnapshot):
        read_snapshot(bytes(damaged))
    with pytest.raises(BadSnapshot):
        read_snapshot(of_kafka[:position])
