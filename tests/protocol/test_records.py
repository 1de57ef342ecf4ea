"""Records inside a batch: written, read back, and scanned, with every codec."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    CorruptBatch,
    assemble,
    has_valid_crc,
    produced_batch,
    read_header,
    split_batches,
)
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.record import ProducerStamp, Record, plain_records, read_records, record_spans, write_batch
from kcoord.protocol.records.record_scan import scan_records

blobs = st.none() | st.binary(max_size=40) | st.just(b"long" * 3000)
header_lists = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
records = st.builds(Record, timestamp=st.integers(-1, 2**42), key=blobs, value=blobs, headers=header_lists)
record_lists = st.lists(records, min_size=1, max_size=8)


def numbered(written: Sequence[Record], base_offset: int = 0) -> list[Record]:
    return [
        Record(offset=base_offset + i, timestamp=r.timestamp, key=r.key, value=r.value, headers=r.headers)
        for i, r in enumerate(written)
    ]


def batch_of(plain: bytes, count: int, codec: Codec = Codec.NONE) -> Batch:
    header = read_header(write_batch([Record()] * count, codec=codec))
    return produced_batch(assemble(header, compress(codec, plain)))


def fault_of(batch: Batch) -> ErrorCode | None:
    try:
        found = list(read_records(batch, limit=1_000_000))
    except CorruptBatch as bad:
        return bad.error
    assert len(found) == batch.header.record_count
    return None


@settings(deadline=None)
@given(written=record_lists, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62))
def test_what_is_written_is_read_back(written: list[Record], codec: Codec, base_offset: int) -> None:
    batch = next(split_batches(write_batch(written, codec=codec, base_offset=base_offset)))
    assert has_valid_crc(batch)
    assert list(read_records(batch)) == numbered(written, base_offset)
    assert batch.header.max_timestamp == max(record.timestamp for record in written)


@settings(deadline=None)
@given(record_lists)
def test_a_survey_tells_what_reading_would_tell(written: list[Record]) -> None:
    batch = produced_batch(write_batch(written))
    survey = scan_records(plain_records(batch), len(written))
    timestamps = [record.timestamp - batch.header.base_timestamp for record in written]
    assert (survey.oldest_delta, survey.newest_delta) == (min(timestamps), max(timestamps))
    assert survey.has_null_key == any(record.key is None for record in written)
    assert survey.is_consecutive


@settings(deadline=None)
@given(record_lists, st.data())
def test_a_survey_finds_fault_with_the_same_bytes_as_reading_does(written: list[Record], data: st.DataObject) -> None:
    plain = bytearray(plain_records(produced_batch(write_batch(written))))
    position = data.draw(st.integers(0, min(len(plain) - 1, 60)))
    plain[position] = data.draw(st.integers(0, 255))
    broken = bytes(plain[: data.draw(st.sampled_from([len(plain), len(plain) - 1, len(plain) // 2]))])

    def read() -> tuple[int, int, bool, bool, int] | None:
        try:
            spans = list(record_spans(broken, len(written)))
        except CorruptBatch:
            return None
        times = [span.timestamp_delta for span in spans]
        is_consecutive = [span.offset_delta for span in spans] == list(range(len(spans)))
        headers = sum(len(span.headers) for span in spans)
        return min(times), max(times), not all(span.has_key for span in spans), is_consecutive, headers

    try:
        survey = tuple(scan_records(broken, len(written)))
    except CorruptBatch:
        assert read() is None
    else:
        assert survey == read()


@settings(deadline=None)
@given(codec=st.sampled_from(Codec), noise=st.binary(max_size=100), count=st.integers(1, 5))
def test_noise_where_records_should_be_is_only_ever_a_bad_batch(codec: Codec, noise: bytes, count: int) -> None:
    header = read_header(write_batch([Record()] * count, codec=codec))
    for batch in (produced_batch(assemble(header, noise)), batch_of(noise, count, codec)):
        assert fault_of(batch) in {None, ErrorCode.invalid_record, ErrorCode.unknown_server_error}


@settings(deadline=None)
@given(record_lists, st.sampled_from(Codec), st.data())
def test_a_mutated_batch_is_only_ever_a_bad_batch(written: list[Record], codec: Codec, data: st.DataObject) -> None:
    whole = bytearray(write_batch(written, codec=codec))
    whole[data.draw(st.integers(HEADER_SIZE, len(whole) - 1))] = data.draw(st.integers(0, 255))
    possible = {None, ErrorCode.invalid_record, ErrorCode.unknown_server_error, ErrorCode.message_too_large}
    assert fault_of(produced_batch(whole)) in possible


one = plain_records(
    produced_batch(write_batch([Record(key=b"k", value=b"v")]))
)  # Size, attributes, time delta, offset delta, key size 2, "k", value size 2, "v", no headers.


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(one[:-1], id="cut short"),
        pytest.param(one + b"\0", id="more than its records"),
        pytest.param(bytes([one[0] + 2]) + one[1:], id="a record longer than it is"),
        pytest.param(bytes([one[0] - 2]) + one[1:], id="a record shorter than it is"),
        pytest.param(b"\1" + one[1:], id="a record of negative size"),
        pytest.param(one[:4] + bytes([60]) + one[5:], id="a key beyond the end"),
        pytest.param(one[:4] + b"\xfe\xff\xff\xff\x0f" + one[5:], id="a key of 2 GB"),
        pytest.param(one[:-1] + b"\1", id="negative number of headers"),
        pytest.param(b"\x18" + one[1:-1] + b"\xfe\xff\xff\xff\x0f", id="2^31-1 headers"),
        pytest.param(b"\xff" * 30, id="a number without an end"),
    ],
)
def test_records_that_do_not_hold_together_are_an_invalid_record(plain: bytes) -> None:
    with pytest.raises(CorruptBatch) as caught:
        list(read_records(batch_of(plain, 1)))
    assert caught.value.error == ErrorCode.invalid_record
    with pytest.raises(CorruptBatch):
        scan_records(plain, 1)


def test_a_codec_that_does_not_exist_is_kafkas_unknown_server_error() -> None:
    header = read_header(write_batch([Record()]))._replace(attributes=5)
    with pytest.raises(CorruptBatch) as caught:
        list(read_records(produced_batch(assemble(header, one))))
    assert caught.value.error == ErrorCode.unknown_server_error


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_bomb_is_stopped_at_the_limit(codec: Codec) -> None:
    bomb = produced_batch(write_batch([Record(value=bytes(30_000_000))], codec=codec))
    assert bomb.header.size < 3_000_000
    with pytest.raises(CorruptBatch) as caught:
        list(read_records(bomb, limit=1_000_000))
    assert caught.value.error == ErrorCode.message_too_large


def test_a_producer_is_stamped_into_the_header() -> None:
    header = read_header(write_batch([Record()], producer=ProducerStamp(id=1, epoch=2, base_sequence=3)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert not header.is_transactional


def test_a_control_batch_can_be_written() -> None:
    assert read_header(write_batch([Record()], is_control=True)).is_control
