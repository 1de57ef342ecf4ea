"""Validation of clients' batches: each answer below is what a live Kafka 4.3.1 gave to the same bytes."""

from dataclasses import replace

import pytest

from kcoord.broker.log.batch_validation import Allowance, LogSettings, Refused
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import HEADER_SIZE, Batch, assemble, produced_batch, read_header
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.record import Record, plain_records, write_batch
from kcoord.protocol.varint import uvarint
from tests.support.logs.appending import admit

now_ms = 1_800_000_000_000
hour_ms = 3_600_000
plain = write_batch([Record(timestamp=now_ms + i, key=b"k", value=b"v%d" % i) for i in range(3)])
inside = plain_records(produced_batch(plain))


def changed(**fields: int) -> Batch:
    return produced_batch(assemble(read_header(plain)._replace(**fields), plain[HEADER_SIZE:]))


def with_inside(records: bytes, codec: Codec = Codec.NONE) -> Batch:
    return produced_batch(assemble(read_header(plain)._replace(attributes=codec), compress(codec, records)))


def batch_of(*records: Record) -> Batch:
    return produced_batch(write_batch(records))


def refusal(batch: Batch, settings: LogSettings | None = None) -> Refused:
    outcome = admit(batch, settings or LogSettings(), now_ms, Allowance())
    assert isinstance(outcome, Refused)
    return outcome


@pytest.mark.parametrize("codec", Codec)
def test_a_sound_batch_is_admitted_with_its_largest_timestamp(codec: Codec) -> None:
    assert admit(with_inside(inside, codec), LogSettings(), now_ms, Allowance()) == now_ms + 2


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        pytest.param(changed(base_offset=5), ErrorCode.invalid_record, id="base offset"),
        pytest.param(changed(base_offset=-1), ErrorCode.invalid_record, id="negative base offset"),
        pytest.param(changed(record_count=4), ErrorCode.invalid_record, id="more records than offsets"),
        pytest.param(changed(record_count=2), ErrorCode.invalid_record, id="fewer records than offsets"),
        pytest.param(changed(record_count=0), ErrorCode.invalid_record, id="no records"),
        pytest.param(changed(record_count=-1), ErrorCode.invalid_record, id="negative count"),
        pytest.param(changed(last_offset_delta=-1), ErrorCode.invalid_record, id="negative offset delta"),
        pytest.param(changed(record_count=0, last_offset_delta=-1), ErrorCode.invalid_record, id="an empty batch"),
        pytest.param(changed(record_count=4, last_offset_delta=3), ErrorCode.invalid_record, id="one record too few"),
        pytest.param(changed(record_count=2, last_offset_delta=1), ErrorCode.invalid_record, id="one record too many"),
        pytest.param(changed(record_count=2**31 - 1, last_offset_delta=2**31 - 2), ErrorCode.invalid_record, id="2^31"),
        pytest.param(changed(attributes=0x20), ErrorCode.invalid_record, id="a control batch"),
        pytest.param(changed(producer_id=7, base_sequence=-1), ErrorCode.invalid_record, id="no sequence"),
        pytest.param(changed(producer_id=7, base_sequence=-5), ErrorCode.invalid_record, id="negative sequence"),
        pytest.param(changed(attributes=5), ErrorCode.unknown_server_error, id="codec 5"),
        pytest.param(changed(attributes=0x27), ErrorCode.unknown_server_error, id="a control batch of codec 7"),
        pytest.param(changed(attributes=Codec.GZIP), ErrorCode.unknown_server_error, id="not gzip"),
        pytest.param(changed(attributes=Codec.SNAPPY), ErrorCode.unknown_server_error, id="not snappy"),
        pytest.param(changed(attributes=Codec.LZ4), ErrorCode.unknown_server_error, id="not lz4"),
        pytest.param(changed(attributes=Codec.ZSTD), ErrorCode.unknown_server_error, id="not zstd"),
        pytest.param(with_inside(b"\xff" * 30, Codec.ZSTD), ErrorCode.invalid_record, id="noise inside"),
        pytest.param(with_inside(inside + b"abc", Codec.GZIP), ErrorCode.invalid_record, id="more behind the records"),
        pytest.param(with_inside(inside[:-1]), ErrorCode.invalid_record, id="less than the records"),
    ],
)
def test_a_batch_at_fault_is_refused_as_kafka_refuses_it(batch: Batch, error: ErrorCode) -> None:
    assert refusal(batch).error == error


def test_a_wrong_checksum_is_a_corrupt_message() -> None:
    broken = bytearray(plain)
    broken[-1] ^= 1
    assert refusal(produced_batch(broken)).error == ErrorCode.corrupt_message


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(changed(attributes=0x80), id="a bit without a meaning"),
        pytest.param(changed(producer_id=-2, base_sequence=-1), id="producer id -2, which is none"),
        pytest.param(changed(attributes=0x08), id="a claim to be of the time of append"),
        pytest.param(with_inside(inside[:3] + b"\4" + inside[4:]), id="a wrong offset, uncompressed"),
    ],
)
def test_what_kafka_overlooks_is_admitted(batch: Batch) -> None:
    assert admit(batch, LogSettings(), now_ms, Allowance()) == now_ms + 2


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_wrong_offset_in_a_compressed_batch_is_refused(codec: Codec) -> None:
    assert refusal(with_inside(inside[:3] + b"\4" + inside[4:], codec)).error == ErrorCode.unknown_server_error


def test_a_batch_larger_than_max_message_bytes_is_too_large_whatever_its_checksum() -> None:
    broken = bytearray(plain)
    broken[-1] ^= 1
    settings = LogSettings(max_message_bytes=len(plain) - 1)
    assert refusal(produced_batch(broken), settings).error == ErrorCode.message_too_large
    assert (
        admit(produced_batch(plain), replace(settings, max_message_bytes=len(plain)), now_ms, Allowance()) == now_ms + 2
    )


def test_a_batch_that_fits_no_segment_is_too_large_a_list() -> None:
    settings = LogSettings(segment_bytes=len(plain) - 1)
    assert refusal(produced_batch(plain), settings).error == ErrorCode.record_list_too_large


def test_a_compacted_topic_names_the_records_without_a_key() -> None:
    batch = batch_of(Record(timestamp=now_ms, key=b"a"), Record(timestamp=now_ms), Record(timestamp=now_ms))
    outcome = refusal(batch, LogSettings(is_compacted=True))
    assert outcome.error == ErrorCode.invalid_record
    assert [error.index for error in outcome.record_errors] == [1, 2]
    assert admit(batch, LogSettings(), now_ms, Allowance()) == now_ms


def test_a_record_from_the_future_is_named() -> None:
    late = now_ms + hour_ms
    outcome = refusal(batch_of(Record(timestamp=now_ms), Record(timestamp=late + 1), Record(timestamp=late)))
    assert outcome.error == ErrorCode.invalid_timestamp
    assert [error.index for error in outcome.record_errors] == [1]


def test_a_record_from_too_long_ago_is_named_and_one_without_a_time_is_not() -> None:
    batch = batch_of(Record(timestamp=now_ms - 1001), Record(timestamp=now_ms - 1000), Record(timestamp=-1))
    outcome = refusal(batch, LogSettings(timestamp_before_max_ms=1000))
    assert [error.index for error in outcome.record_errors] == [0]


def test_a_wrong_time_outweighs_a_missing_key() -> None:
    batch = batch_of(Record(timestamp=now_ms + 2 * hour_ms, key=b"a"), Record(timestamp=now_ms))
    outcome = refusal(batch, LogSettings(is_compacted=True))
    assert outcome.error == ErrorCode.invalid_timestamp
    assert [error.index for error in outcome.record_errors] == [0, 1]


def test_a_time_that_is_no_64_bit_number_is_refused() -> None:
    far = batch_of(Record(timestamp=0), Record(timestamp=2**62))
    header = far.header._replace(base_timestamp=2**62 + 2**61)
    batch = produced_batch(assemble(header, bytes(far.data[HEADER_SIZE:])))
    assert refusal(batch, LogSettings(timestamp_after_max_ms=2**63 - 1)).error == ErrorCode.invalid_timestamp


@pytest.mark.parametrize("timestamp", [-1, -5])
def test_records_without_a_time_give_the_batch_none(timestamp: int) -> None:
    assert admit(batch_of(Record(timestamp=timestamp)), LogSettings(), now_ms, Allowance()) == -1


def test_the_time_of_append_overrides_all_others() -> None:
    settings = LogSettings(uses_append_time=True)
    assert admit(batch_of(Record(timestamp=now_ms + 5 * hour_ms)), settings, now_ms, Allowance()) == now_ms


def test_a_producer_must_not_claim_the_time_of_append_where_the_topic_uses_it() -> None:
    outcome = refusal(changed(attributes=0x08), LogSettings(uses_append_time=True))
    assert outcome.error == ErrorCode.invalid_timestamp
    assert [error.index for error in outcome.record_errors] == [0, 1, 2]


def test_a_batch_of_too_many_records_is_refused_before_they_are_looked_at() -> None:
    empty = plain_records(produced_batch(write_batch([Record(timestamp=now_ms)])))
    header = read_header(plain)._replace(record_count=600_000, last_offset_delta=599_999, attributes=Codec.ZSTD)
    bomb = produced_batch(assemble(header, compress(Codec.ZSTD, empty * 600_000)))
    assert refusal(bomb).error is ErrorCode.message_too_large


def test_the_batches_of_one_request_share_an_allowance() -> None:
    empty = plain_records(produced_batch(write_batch([Record(timestamp=now_ms)])))
    header = read_header(plain)._replace(record_count=200_000, last_offset_delta=199_999, attributes=Codec.ZSTD)
    many = produced_batch(assemble(header, compress(Codec.ZSTD, empty * 200_000)))
    allowance = Allowance()
    outcomes = [admit(many, LogSettings(), now_ms, allowance) for _ in range(4)]
    errors = [outcome.error for outcome in outcomes if isinstance(outcome, Refused)]
    assert errors[-2:] == [ErrorCode.message_too_large] * 2


def test_a_bomb_is_paid_for_once() -> None:
    bomb = compress(Codec.ZSTD, bytes(1 << 28))
    batch = produced_batch(assemble(read_header(plain)._replace(attributes=Codec.ZSTD), bomb))
    allowance = Allowance()
    assert isinstance(admit(batch, LogSettings(), now_ms, allowance), Refused)
    assert allowance.decompressed_bytes == 0


def test_a_record_of_too_many_headers_is_refused_by_its_count_alone() -> None:
    record = bytes([0, 0, 0, 1, 1]) + uvarint(2 * 3_000_000) + b"\x01\x01" * 3_000_000  # A null key, where one is read.
    header = read_header(plain)._replace(record_count=1, last_offset_delta=0, attributes=Codec.ZSTD)
    bomb = assemble(header, compress(Codec.ZSTD, uvarint(2 * len(record)) + record))
    assert len(bomb) < 2048
    assert refusal(produced_batch(bomb)).error is ErrorCode.message_too_large


def test_the_batches_of_one_request_share_an_allowance_of_headers() -> None:
    batch = batch_of(
        Record(timestamp=now_ms, headers=(("a", b"1"),) * 30), Record(timestamp=now_ms, headers=(("b", None),))
    )
    allowance = Allowance(headers=70)
    outcomes = [admit(batch, LogSettings(), now_ms, allowance) for _ in range(3)]
    assert outcomes[:2] == [now_ms, now_ms]
    assert isinstance(outcomes[2], Refused)
    assert outcomes[2].error is ErrorCode.message_too_large
    assert allowance.headers == 8
