"""Idempotent producers: each answer below is what a live Kafka 4.3.1 gave to the same batches."""

import pytest

from kcoord.broker.log.producers import AppendedBatch, Fenced, Producers
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import BatchHeader, read_header
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch

accepted = None
largest = 2**31 - 1


def header_of(sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 1) -> BatchHeader:
    stamp = ProducerStamp(id=producer_id, epoch=epoch, base_sequence=sequence)
    return read_header(write_batch([Record()] * count, producer=stamp))


class Scene:
    """A partition's producers, and the offset that the next batch would get."""

    def __init__(self) -> None:
        self.producers = Producers()
        self.next_offset = 0

    def send(
        self, sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 1
    ) -> AppendedBatch | Fenced | None:
        header = header_of(sequence, epoch=epoch, count=count, producer_id=producer_id)
        outcome = self.producers.check(header)
        if outcome is None:
            self.producers.add(header, base_offset=self.next_offset, timestamp=1000)
            self.next_offset += count
        return outcome

    def error(self, sequence: int, *, epoch: int = 0, count: int = 1) -> ErrorCode | None:
        outcome = self.send(sequence, epoch=epoch, count=count)
        return outcome.error if isinstance(outcome, Fenced) else None

    def original(self, sequence: int, *, epoch: int = 0, count: int = 1) -> int | None:
        outcome = self.send(sequence, epoch=epoch, count=count)
        return outcome.base_offset if isinstance(outcome, AppendedBatch) else None


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_unknown_producer_may_begin_with_any_sequence(scene: Scene) -> None:
    assert scene.send(500) is accepted
    assert scene.send(501) is accepted


@pytest.mark.parametrize("sequence", [499, 502, 0])
def test_a_gap_and_a_step_back_are_out_of_order(scene: Scene, sequence: int) -> None:
    scene.send(500)
    assert scene.error(sequence) == ErrorCode.out_of_order_sequence_number
    assert scene.send(501) is accepted


def test_a_repeated_batch_is_told_where_it_stood(scene: Scene) -> None:
    scene.send(0, count=3)
    scene.send(3, count=2)
    assert scene.send(0, count=3) == AppendedBatch(
        first_sequence=0, last_sequence=2, base_offset=0, last_offset=2, timestamp=1000
    )
    assert scene.original(3, count=2) == 3


def test_the_last_five_batches_are_remembered(scene: Scene) -> None:
    for sequence in range(7):
        scene.send(sequence)
    assert scene.error(1) == ErrorCode.out_of_order_sequence_number
    assert [scene.original(sequence) for sequence in range(2, 7)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (1, 2), (2, 2), (0, 4)])
def test_a_batch_that_covers_another_only_in_part_is_out_of_order(scene: Scene, sequence: int, count: int) -> None:
    scene.send(0, count=3)
    assert scene.error(sequence, count=count) == ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_begins_at_0_and_forgets_the_batches_of_the_old(scene: Scene) -> None:
    scene.send(0)
    scene.send(1)
    assert scene.error(2, epoch=1) == ErrorCode.out_of_order_sequence_number
    assert scene.send(0, epoch=1) is accepted
    assert scene.error(1, epoch=1) is accepted


@pytest.mark.parametrize("sequence", [0, 1])
def test_an_old_epoch_is_fenced_even_where_the_batch_repeats_another(scene: Scene, sequence: int) -> None:
    scene.send(0)
    scene.send(0, epoch=1)
    assert scene.error(sequence) == ErrorCode.invalid_producer_epoch


def test_an_epoch_below_none_is_fenced_even_for_an_unknown_producer(scene: Scene) -> None:
    assert scene.error(0, epoch=-2) == ErrorCode.invalid_producer_epoch


def test_without_an_epoch_any_sequence_is_accepted_but_for_a_repeated_one(scene: Scene) -> None:
    assert scene.send(7, epoch=-1) is accepted
    assert scene.send(90, epoch=-1) is accepted
    assert scene.original(90, epoch=-1) == 1
    assert scene.send(55, epoch=0) is accepted


def test_after_the_largest_sequence_comes_0(scene: Scene) -> None:
    assert scene.send(largest - 1, count=2) is accepted
    assert scene.send(0) is accepted
    assert scene.original(largest - 1, count=2) == 0


def test_a_batch_may_go_over_the_largest_sequence(scene: Scene) -> None:
    assert scene.send(largest, count=3) is accepted
    assert scene.send(2) is accepted
    assert scene.original(largest, count=3) == 0


def test_producers_do_not_mix(scene: Scene) -> None:
    scene.send(0)
    assert scene.send(0, producer_id=2) is accepted
    assert scene.send(1) is accepted


def test_a_producer_silent_for_the_expiration_time_is_forgotten(scene: Scene) -> None:
    scene.send(7)
    assert scene.producers.expire(1000 + 86_400_000 - 1, 86_400_000) == 0
    assert scene.producers.expire(1000 + 86_400_000, 86_400_000) == 1
    assert scene.send(3) is accepted


def test_the_longest_silent_producers_make_room_for_new_ones() -> None:
    producers = Producers(max_producers=3)
    for producer_id in (1, 2, 3, 1, 4):
        sequence = 1 if len(producers) == 3 and producer_id == 1 else 0
        producers.add(header_of(sequence, producer_id=producer_id), base_offset=0, timestamp=0)
    assert len(producers) == 3
    assert isinstance(producers.check(header_of(5, producer_id=1)), Fenced)
    assert producers.check(header_of(5, producer_id=2)) is accepted
