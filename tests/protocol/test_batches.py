"""The header of a batch, splitting a Produce request's bytes into batches, and the fields that a broker sets."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    assemble,
    has_valid_crc,
    produced_batch,
    read_header,
    split_batches,
    stamp_offsets,
    stamp_timestamp,
    step_sequence,
)
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, read_records, write_batch

plain = write_batch([Record(timestamp=1000 + i, key=b"k", value=b"v%d" % i) for i in range(3)])


def patched(batch: bytes, position: int, data: bytes) -> bytes:
    return batch[:position] + data + batch[position + len(data) :]


def refusal(records: bytes | None) -> ErrorCode:
    with pytest.raises(CorruptBatch) as caught:
        produced_batch(records)
    return caught.value.error


def test_a_header_is_read_field_by_field() -> None:
    written = write_batch(
        [Record(timestamp=10), Record(timestamp=30), Record(timestamp=20)],
        base_offset=7,
        leader_epoch=4,
        codec=Codec.LZ4,
        producer=ProducerStamp(id=5, epoch=2, base_sequence=9, is_transactional=True),
    )
    header = read_header(b"???" + written, 3)
    assert header == BatchHeader(
        base_offset=7,
        length=len(written) - 12,
        leader_epoch=4,
        magic=2,
        crc=crc32c(written[21:]),
        attributes=0x13,
        last_offset_delta=2,
        base_timestamp=10,
        max_timestamp=30,
        producer_id=5,
        producer_epoch=2,
        base_sequence=9,
        record_count=3,
    )
    assert (header.size, header.codec, header.last_offset, header.last_sequence) == (len(written), Codec.LZ4, 9, 11)
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert not header.uses_append_time


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [(0, 2, 2), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 4, 2)],
)
def test_after_the_largest_sequence_comes_0(sequence: int, increment: int, result: int) -> None:
    assert step_sequence(sequence, increment) == result


def test_a_batch_without_sequences_has_no_last_sequence() -> None:
    assert read_header(plain).last_sequence == -1


def test_batches_in_a_row_are_split_and_a_cut_one_at_the_end_is_left_out() -> None:
    other = write_batch([Record(value=b"other")])
    whole = [bytes(batch.data) for batch in split_batches(plain + other + plain[:-1])]
    assert whole == [plain, other]


# The answers are those of a live Kafka 4.3.1.
@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(None, ErrorCode.invalid_record, id="null"),
        pytest.param(b"", ErrorCode.invalid_record, id="empty"),
        pytest.param(plain[:10], ErrorCode.invalid_record, id="no whole frame"),
        pytest.param(plain[:-3], ErrorCode.invalid_record, id="cut short"),
        pytest.param(plain + plain, ErrorCode.invalid_record, id="two batches"),
        pytest.param(patched(plain, 16, b"\0"), ErrorCode.invalid_record, id="format v0"),
        pytest.param(patched(plain, 16, b"\1"), ErrorCode.invalid_record, id="format v1"),
        pytest.param(patched(plain, 16, b"\3"), ErrorCode.corrupt_message, id="format v3"),
        pytest.param(patched(plain, 16, b"\xff"), ErrorCode.corrupt_message, id="format v-1"),
        pytest.param(patched(plain, 8, struct.pack(">i", -1)), ErrorCode.corrupt_message, id="negative length"),
        pytest.param(
            patched(plain, 8, struct.pack(">i", 13)), ErrorCode.corrupt_message, id="length under all formats"
        ),
        pytest.param(patched(plain, 8, struct.pack(">i", 40)), ErrorCode.corrupt_message, id="length under the header"),
        pytest.param(plain + bytes(20), ErrorCode.corrupt_message, id="zeros behind the batch"),
    ],
)
def test_what_is_not_one_batch_of_format_v2_is_refused_as_kafka_refuses_it(
    records: bytes | None, error: ErrorCode
) -> None:
    assert refusal(records) == error


def test_a_length_that_lies_is_not_believed() -> None:
    assert refusal(patched(plain, 8, struct.pack(">i", 2**31 - 1))) == ErrorCode.invalid_record


@pytest.mark.parametrize("rest", [b"abc", plain[:40]])
def test_bytes_behind_the_batch_that_are_no_batch_are_dropped(rest: bytes) -> None:
    assert produced_batch(plain + rest).data == plain


def test_a_changed_byte_shows_in_the_checksum() -> None:
    assert has_valid_crc(produced_batch(plain))
    assert not has_valid_crc(produced_batch(patched(plain, len(plain) - 2, b"?")))


def test_offsets_are_stamped_in_place_and_the_checksum_still_holds() -> None:
    buffer = bytearray(b"before" + plain + b"behind")
    stamp_offsets(buffer, 6, base_offset=2**40, leader_epoch=3)
    header = read_header(buffer, 6)
    assert (header.base_offset, header.leader_epoch) == (2**40, 3)
    assert has_valid_crc(next(split_batches(buffer[6:-6])))
    assert buffer.startswith(b"before")
    assert buffer.endswith(b"behind")


def test_the_time_of_append_stands_for_the_times_of_the_records() -> None:
    buffer = bytearray(b"before" + plain + b"behind")
    stamp_timestamp(buffer, 6, len(plain), max_timestamp=5000, uses_append_time=True)
    batch = next(split_batches(buffer[6:-6]))
    assert has_valid_crc(batch)
    assert batch.header.uses_append_time
    assert [record.timestamp for record in read_records(batch)] == [5000, 5000, 5000]


def test_stamping_a_time_drops_the_bits_without_a_meaning_and_keeps_the_others() -> None:
    buffer = bytearray(
        assemble(read_header(plain)._replace(attributes=0x1F8A | Codec.ZSTD | 0x10), plain[HEADER_SIZE:])
    )
    stamp_timestamp(buffer, 0, len(buffer), max_timestamp=5000, uses_append_time=False)
    header = read_header(buffer)
    assert header.attributes == 0x16
    assert has_valid_crc(next(split_batches(buffer)))


@settings(deadline=None)
@given(position=st.integers(0, len(plain) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(plain)))
def test_broken_bytes_are_only_ever_a_bad_batch(position: int, byte: int, cut: int) -> None:
    broken = patched(plain, position, bytes([byte]))[: len(plain) - cut]
    try:
        batch = produced_batch(broken)
    except CorruptBatch:
        return
    assert len(batch.data) == batch.header.size


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_split_into_batches_or_are_a_bad_batch(noise: bytes) -> None:
    try:
        batches = list(split_batches(noise))
    except CorruptBatch:
        return
    assert sum(batch.header.size for batch in batches) <= len(noise)
