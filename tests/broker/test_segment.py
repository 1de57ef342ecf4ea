"""A segment: Kafka's bytes, and the lookups in its index."""

import sys

import pytest

from kcoord.broker.log.segment import INDEX_INTERVAL, Segment
from kcoord.broker.log.storage import MemoryStore
from kcoord.protocol.records.batch import Batch, has_valid_crc, produced_batch, split_batches
from kcoord.protocol.records.record import Record, write_batch


def batch_of(*timestamps: int) -> Batch:
    return produced_batch(write_batch([Record(timestamp=timestamp, value=b"v") for timestamp in timestamps]))


def segment_of(*batches: Batch, base_offset: int = 100) -> Segment:
    segment = Segment(base_offset, log_position=0, created_ms=5, store=MemoryStore())
    for batch in batches:
        append(segment, batch)
    return segment


def append(segment: Segment, batch: Batch, *, now_ms: int = 9, append_time: int | None = None) -> None:
    segment.append(
        batch,
        leader_epoch=7,
        max_timestamp=batch.header.max_timestamp if append_time is None else append_time,
        uses_append_time=append_time is not None,
        now_ms=now_ms,
    )


def content(segment: Segment) -> list[Batch]:
    return list(split_batches(segment.whole_batches(0, segment.size)))


def test_an_empty_segment_ends_where_it_begins() -> None:
    segment = segment_of()
    assert (segment.base_offset, segment.next_offset, segment.size, segment.max_timestamp) == (100, 100, 0, -1)


def test_batches_are_stamped_with_their_offsets_and_epoch_and_nothing_else() -> None:
    batches = [batch_of(1, 2), batch_of(3)]
    found = content(segment_of(*batches))
    assert [(batch.header.base_offset, batch.header.leader_epoch) for batch in found] == [(100, 7), (102, 7)]
    assert all(has_valid_crc(batch) for batch in found)
    assert [bytes(batch.data[16:]) for batch in found] == [bytes(batch.data[16:]) for batch in batches]


def test_the_time_of_append_is_stamped_with_a_new_checksum() -> None:
    segment = segment_of()
    append(segment, batch_of(1, 2), append_time=50)
    (found,) = content(segment)
    assert has_valid_crc(found)
    assert (found.header.uses_append_time, found.header.max_timestamp) == (True, 50)


def test_an_offset_inside_a_batch_leads_to_its_beginning() -> None:
    first, second = batch_of(1, 2, 3), batch_of(4)
    segment = segment_of(first, second)
    assert [segment.position_of(offset) for offset in (100, 101, 102, 103)] == [0, 0, 0, first.header.size]


def test_only_whole_batches_are_read() -> None:
    segment = segment_of(batch_of(1), batch_of(2), batch_of(3))
    size = segment.size // 3
    assert [len(segment.whole_batches(0, most)) // size for most in (0, size - 1, size, 3 * size - 1, 3 * size)] == [
        0, 0, 1, 2, 3,
    ]  # fmt: skip
    assert len(segment.whole_batches(size, size)) == size


def test_the_first_timestamp_and_the_last_change_are_remembered() -> None:
    segment = segment_of(batch_of(30), batch_of(20))
    append(segment, batch_of(40), now_ms=77)
    assert (segment.first_timestamp, segment.max_timestamp, segment.created_ms, segment.modified_ms) == (30, 40, 5, 77)


def test_the_batches_that_reach_a_time_are_found_in_order() -> None:
    segment = segment_of(batch_of(3), batch_of(1), batch_of(5), batch_of(4), batch_of(6))
    assert [batch.header.base_offset for batch, _ in segment.batches_reaching(4, from_offset=100)] == [102, 103, 104]
    assert [batch.header.base_offset for batch, _ in segment.batches_reaching(4, from_offset=103)] == [103, 104]
    assert [batch.header.base_offset for batch, _ in segment.batches_reaching(0, from_offset=101)] == [
        101,
        102,
        103,
        104,
    ]
    assert list(segment.batches_reaching(7, from_offset=100)) == []


def test_the_largest_timestamp_can_be_asked_from_an_offset_on() -> None:
    segment = segment_of(batch_of(9), batch_of(5, 7), batch_of(6))
    assert [segment.max_timestamp_from(offset) for offset in (100, 101, 102, 103, 104)] == [9, 7, 6, 6, -1]


@pytest.fixture(scope="module")
def long() -> Segment:
    """Batches of many sizes, from a few bytes to more than two index intervals: the last of each hundred is large."""
    segment = segment_of()
    for number in range(1000):
        size = 3 * INDEX_INTERVAL if number % 100 == 99 else number * 7 % 300
        records = [Record(timestamp=number * 37 % 1000, value=bytes(size)), Record(timestamp=number * 37 % 1000)]
        append(segment, produced_batch(write_batch(records)))
    return segment


def test_every_offset_of_a_long_segment_leads_to_its_batch(long: Segment) -> None:
    batches = content(long)
    assert len(batches) == 1000
    position = 0
    for batch in batches:
        header = batch.header
        for offset in (header.base_offset, header.last_offset):
            assert long.position_of(offset) == position
            holding = long.batch_holding(offset)
            assert holding is not None
            assert bytes(holding.data) == bytes(batch.data)
        assert long.batch_size(position) == header.size
        position += header.size


def test_any_limit_cuts_a_long_segment_between_batches(long: Segment) -> None:
    whole = long.whole_batches(0, long.size)
    starts = [0]
    for batch in content(long):
        starts.append(starts[-1] + batch.header.size)
    for begin in range(0, 1000, 13):
        for more in (0, 1, 60, 61, 500, INDEX_INTERVAL, INDEX_INTERVAL + 1, 3 * INDEX_INTERVAL, 50_000):
            end = max(start for start in starts if start <= starts[begin] + more)
            assert long.whole_batches(starts[begin], more) == whole[starts[begin] : end]


def test_times_are_found_in_a_long_segment(long: Segment) -> None:
    headers = [batch.header for batch in content(long)]
    for timestamp in (0, 1, 500, 995, 999, 1000):
        for offset in (100, 101, 777, 2098, 2099):
            reaching = [h.base_offset for h in headers if h.max_timestamp >= timestamp and h.last_offset >= offset]
            found = long.batches_reaching(timestamp, from_offset=offset)
            assert [batch.header.base_offset for batch, _ in found] == reaching
    for offset in (100, 101, 102, 777, 2098):
        later = [header.max_timestamp for header in headers if header.base_offset >= offset]
        assert long.max_timestamp_from(offset) == max(later)


def test_the_index_takes_little_memory_however_small_the_batches_are() -> None:
    segment = segment_of()
    batch = batch_of(1)
    for _ in range(20_000):
        append(segment, batch)
    parts = [value for value in vars(segment).values() if not isinstance(value, int | MemoryStore)]
    assert sum(sys.getsizeof(part) for part in parts) < segment.size / 100
