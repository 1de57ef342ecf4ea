"""The times of records, read from a fetched batch."""

from collections.abc import Sequence

import pytest

from kcoord.admin.record_marks import RecordMark, checksum_of
from kcoord.admin.wire import record_times
from kcoord.admin.wire.record_times import FetchScan, mark_of, time_of
from kcoord.protocol.records.batch import stamp_timestamp
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch

TRANSACTION = ProducerStamp(id=7, epoch=0, base_sequence=0, is_transactional=True)


def sweep(fetched: bytes | None, offsets: Sequence[int]) -> FetchScan[int | None]:
    return record_times.scan_fetched(fetched, offsets, time_of)


def batch(*times: int, base_offset: int = 0, codec: Codec = Codec.NONE) -> bytes:
    return write_batch([Record(timestamp=time, value=b"v") for time in times], base_offset=base_offset, codec=codec)


def marker(offset: int) -> bytes:
    """Encodes the marker at the end of a transaction."""
    records = [Record(timestamp=5, key=b"\0\0\0\1", value=bytes(6))]
    return write_batch(records, base_offset=offset, producer=TRANSACTION, is_control=True)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_in_the_middle_of_a_batch_has_its_own_time(codec: Codec) -> None:
    fetched = batch(100, 300, 200, base_offset=40, codec=codec)
    assert [sweep(fetched, [offset]).found.get(offset) for offset in (40, 41, 42)] == [100, 300, 200]


def test_batches_before_the_offset_do_not_count() -> None:
    fetched = batch(100, 101) + batch(200, base_offset=2)
    assert sweep(fetched, [2]).found.get(2) == 200


def test_an_offset_that_compaction_has_taken_away_means_the_next_record() -> None:
    fetched = batch(100) + batch(200, base_offset=9)
    assert sweep(fetched, [4]).found.get(4) == 200


def test_markers_of_transactions_are_no_records() -> None:
    assert sweep(marker(3) + batch(200, base_offset=4), [3]).found.get(3) == 200


def test_where_there_are_only_markers_one_looks_on_behind_them() -> None:
    assert sweep(marker(3) + marker(4), [3]) == FetchScan(found={}, end=5)


def test_a_batch_that_is_cut_short_is_not_read() -> None:
    whole, larger = marker(3), batch(200, base_offset=4)
    assert sweep(whole + larger[:-1], [3]) == FetchScan(found={}, end=4)
    assert sweep(larger[:-1], [4]) == FetchScan(found={}, end=4)


@pytest.mark.parametrize("fetched", [None, b"", b"\0" * 11, b"\0" * 200, batch(1)[:16] + b"\1" + batch(1)[17:]])
def test_nothing_and_what_is_no_batch_of_our_format_has_no_time(fetched: bytes | None) -> None:
    assert sweep(fetched, [0]) == FetchScan(found={}, end=0)


def test_a_batch_whose_records_are_not_what_it_claims_has_no_time() -> None:
    fetched = bytearray(batch(1, 2))
    fetched[60] = 9  # the record count
    assert sweep(bytes(fetched), [1]).found.get(1) == 2, "read before the mistake shows"
    assert sweep(bytes(fetched), [5]).found.get(5) is None


def test_a_record_without_a_time_has_none() -> None:
    assert sweep(batch(-1), [0]) == FetchScan(found={0: None}, end=1)


def test_one_fetch_answers_for_all_offsets_in_its_batches() -> None:
    fetched = batch(100, 101, 102) + marker(3) + batch(200, 201, base_offset=4) + batch(300, base_offset=6)[:-1]

    assert sweep(fetched, [0, 2, 3, 5, 6, 9]) == FetchScan(found={0: 100, 2: 102, 3: 200, 5: 201}, end=6)


def test_an_offset_far_behind_a_batch_does_not_end_the_sweep() -> None:
    fetched = batch(100, 101, 102) + batch(200, base_offset=50)

    assert sweep(fetched, [1, 50]) == FetchScan(found={1: 101, 50: 200}, end=51)


def test_records_of_every_size_are_stepped_over() -> None:
    sizes = (0, 50, 61, 62, 63, 64, 200, 8_000, 9_000, 70_000)
    records = [Record(timestamp=100 + index, value=bytes(size)) for index, size in enumerate(sizes)]
    fetched = write_batch(records, base_offset=7)

    for index in range(len(sizes)):
        assert sweep(fetched, [7 + index]).found == {7 + index: 100 + index}


def test_in_a_batch_that_compaction_has_been_at_offsets_are_those_of_the_records() -> None:
    whole = bytearray(batch(100, 101, 102, 103, base_offset=10))
    whole[60] = 2  # the batch still covers four offsets, as after Kafka's compaction
    second = 61 + whole[61] // 2 + 1
    third = second + whole[second] // 2 + 1
    compacted = bytearray(whole[:61]) + whole[second:third] + whole[-(whole[61] // 2 + 1) :]
    compacted[8:12] = (len(compacted) - 12).to_bytes(4)

    assert sweep(bytes(compacted), [10, 11, 12, 13]).found == {10: 101, 11: 101, 12: 103, 13: 103}


def test_what_was_read_before_a_broken_batch_stands() -> None:
    broken = bytearray(batch(200, base_offset=1))
    broken[60] = 9

    assert sweep(batch(100) + bytes(broken), [0, 5]).found == {0: 100}


def test_a_mark_is_the_records_own_whatever_stands_before_it() -> None:
    records = [Record(timestamp=100 + each, key=b"k%d" % each, value=b"v", headers=(("h", b"1"),)) for each in range(3)]
    fetched = write_batch(records, base_offset=40, codec=Codec.GZIP)

    (mark,) = record_times.scan_fetched(fetched, [41], mark_of).found.values()

    assert mark == RecordMark(offset=41, timestamp=101, checksum=checksum_of(b"k1", b"v"))


def test_a_mark_of_a_gap_has_the_offset_of_the_record_behind_it() -> None:
    found = record_times.scan_fetched(batch(100) + batch(200, base_offset=9), [4], mark_of).found
    assert found == {4: RecordMark(offset=9, timestamp=200, checksum=checksum_of(None, b"v"))}


def test_a_mark_says_whose_clock_its_time_is_from() -> None:
    stamped = bytearray(batch(100, 101))
    stamp_timestamp(stamped, 0, len(stamped), max_timestamp=900, uses_append_time=True)

    (mark,) = record_times.scan_fetched(bytes(stamped), [0], mark_of).found.values()

    assert (mark.timestamp, mark.is_append_time) == (900, True)


def test_the_checksum_tells_null_empty_and_the_border_between_key_and_value_apart() -> None:
    pairs = [(None, None), (None, b""), (b"", None), (b"", b""), (b"ab", b"c"), (b"a", b"bc")]
    assert len({checksum_of(key, value) for key, value in pairs}) == len(pairs)
