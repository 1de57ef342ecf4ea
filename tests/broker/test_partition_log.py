"""The log of one partition: offsets, reads, retention, lookups by time."""

from dataclasses import replace

import pytest

from kcoord.broker.log.partition_log import Appended, EpochEnd, LogSettings, PartitionLog, Refused, TimestampOffset
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    assemble,
    has_valid_crc,
    produced_batch,
    read_header,
    split_batches,
)
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, plain_records, read_records, write_batch
from tests.support.logs.appending import append_at_once, offset_for_timestamp, offset_of_max_timestamp

now_ms = 1_800_000_000_000


def batch_of(*timestamps: int, codec: Codec = Codec.NONE, producer: ProducerStamp | None = None) -> Batch:
    records = [Record(timestamp=timestamp, value=b"v") for timestamp in timestamps]
    return produced_batch(write_batch(records, codec=codec, producer=producer or ProducerStamp()))


one = batch_of(now_ms)
size = one.header.size


def log_of(*batches: Batch, settings: LogSettings | None = None) -> PartitionLog:
    log = PartitionLog("t-0", settings or LogSettings(), now_ms=now_ms)
    for batch in batches:
        assert isinstance(append_at_once(log, batch, now_ms), Appended)
    return log


def two_per_segment(count: int, *, retention_bytes: int = -1) -> PartitionLog:
    """Makes a log of `count` batches of one record, two to a segment."""
    settings = LogSettings(segment_bytes=2 * size, retention_bytes=retention_bytes)
    return log_of(*[one] * count, settings=settings)


def stored_in(log: PartitionLog) -> list[Batch]:
    read = log.read(log.start_offset, max_bytes=1_000_000)
    assert isinstance(read, bytes)
    return list(split_batches(read))


def offsets(read: bytes | Refused) -> list[int]:
    assert isinstance(read, bytes)
    return [batch.header.base_offset for batch in split_batches(read)]


def error_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refused)
    return outcome.error


def found(log: PartitionLog, timestamp: int) -> tuple[int, int] | None:
    record = offset_for_timestamp(log, timestamp)
    return (record.timestamp, record.offset) if record else None


# Appends


def test_an_append_tells_where_the_batch_stands() -> None:
    log = log_of(batch_of(1, 2, 3))
    assert append_at_once(log, batch_of(4, 5), now_ms) == Appended(
        base_offset=3, last_offset=4, append_time_ms=-1, start_offset=0
    )
    assert (log.start_offset, log.end_offset) == (0, 5)


def test_a_log_may_begin_later_than_0() -> None:
    log = PartitionLog("t-0", LogSettings(), now_ms=now_ms, start_offset=40)
    assert (log.start_offset, log.end_offset, log.read(40, max_bytes=100)) == (40, 40, b"")
    outcome = append_at_once(log, one, now_ms)
    assert isinstance(outcome, Appended)
    assert outcome.base_offset == 40


def test_the_time_of_append_is_told_and_stored() -> None:
    log = log_of(settings=LogSettings(uses_append_time=True))
    outcome = append_at_once(log, batch_of(1, 2), now_ms)
    assert isinstance(outcome, Appended)
    assert outcome.append_time_ms == now_ms
    (stored,) = stored_in(log)
    assert has_valid_crc(stored)
    assert {record.timestamp for record in read_records(stored)} == {now_ms}


def test_a_largest_timestamp_that_is_wrong_is_set_right() -> None:
    right = batch_of(5, 9)
    wrong = produced_batch(assemble(right.header._replace(max_timestamp=70), bytes(right.data[HEADER_SIZE:])))
    (stored,) = stored_in(log_of(wrong))
    assert has_valid_crc(stored)
    assert stored.header.max_timestamp == 9


def test_a_refused_batch_changes_nothing_and_tells_where_the_log_begins() -> None:
    log = log_of(one, one)
    log.delete_records(1, now_ms)
    broken = Batch(header=one.header._replace(record_count=0), data=one.data)
    outcome = append_at_once(log, broken, now_ms)
    assert isinstance(outcome, Refused)
    assert (outcome.error, outcome.start_offset) == (ErrorCode.invalid_record, 1)
    assert log.end_offset == 2


def test_a_batch_too_large_is_not_told_where_the_log_begins() -> None:
    outcome = append_at_once(log_of(settings=LogSettings(max_message_bytes=10)), one, now_ms)
    assert isinstance(outcome, Refused)
    assert (outcome.error, outcome.start_offset) == (ErrorCode.message_too_large, -1)


def test_settings_can_be_replaced_between_appends() -> None:
    log = log_of(one)
    log.settings = replace(log.settings, max_message_bytes=10)
    assert error_of(append_at_once(log, one, now_ms)) == ErrorCode.message_too_large


def test_a_transactional_batch_belongs_to_no_transaction() -> None:
    stamp = ProducerStamp(id=1, epoch=0, base_sequence=0, is_transactional=True)
    assert error_of(append_at_once(log_of(), batch_of(1, producer=stamp), now_ms)) == ErrorCode.invalid_txn_state


def test_a_repeated_batch_is_answered_as_at_first_and_not_stored_again() -> None:
    # Kafka returns the batch's timestamp as the time of append, whatever the topic's setting.
    repeated = batch_of(70, 80, producer=ProducerStamp(id=1, epoch=0, base_sequence=0))
    log = log_of(one, repeated)
    assert append_at_once(log, repeated, now_ms + 5) == Appended(
        base_offset=1, last_offset=2, append_time_ms=80, start_offset=0, is_duplicate=True
    )
    assert log.end_offset == 3


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = log_of(batch_of(1, producer=ProducerStamp(id=1, epoch=0, base_sequence=0)))
    gap = batch_of(1, producer=ProducerStamp(id=1, epoch=0, base_sequence=5))
    assert error_of(append_at_once(log, gap, now_ms)) == ErrorCode.out_of_order_sequence_number


def test_a_silent_producer_is_forgotten() -> None:
    log = log_of(batch_of(1, producer=ProducerStamp(id=1, epoch=0, base_sequence=0)))
    assert log.expire_producers(now_ms, 86_400_000) == 1
    later = batch_of(1, producer=ProducerStamp(id=1, epoch=0, base_sequence=5))
    assert isinstance(append_at_once(log, later, now_ms), Appended)


# Reads


def test_a_read_returns_whole_batches_up_to_the_bytes_asked_for() -> None:
    log = log_of(one, one, one)
    assert offsets(log.read(0, max_bytes=3 * size)) == [0, 1, 2]
    assert offsets(log.read(0, max_bytes=3 * size - 1)) == [0, 1]
    assert offsets(log.read(1, max_bytes=size)) == [1]
    assert offsets(log.read(1, max_bytes=size - 1)) == []


def test_the_first_batch_comes_whole_if_at_least_one_is_asked_for() -> None:
    log = log_of(one, one)
    assert offsets(log.read(0, max_bytes=0, min_one_batch=True)) == [0]
    assert offsets(log.read(2, max_bytes=0, min_one_batch=True)) == []


def test_an_offset_in_the_midst_of_a_batch_returns_all_of_it() -> None:
    log = log_of(batch_of(1, 2, 3), batch_of(4))
    assert offsets(log.read(2, max_bytes=1000)) == [0, 3]


def test_a_read_goes_over_the_borders_of_segments() -> None:
    log = two_per_segment(7)
    assert offsets(log.read(1, max_bytes=1_000_000)) == [1, 2, 3, 4, 5, 6]
    assert offsets(log.read(1, max_bytes=3 * size)) == [1, 2, 3]
    assert offsets(log.read(1, max_bytes=4 * size - 1)) == [1, 2, 3]


@pytest.mark.parametrize("offset", [-1, 0, 3])
def test_offsets_before_the_start_and_behind_the_end_are_out_of_range(offset: int) -> None:
    log = log_of(one, one)
    log.delete_records(1, now_ms)
    assert error_of(log.read(offset, max_bytes=100)) == ErrorCode.offset_out_of_range


def test_nothing_is_read_at_the_end() -> None:
    assert log_of(one).read(1, max_bytes=100) == b""
    assert log_of().read(0, max_bytes=100) == b""


# Retention


def test_retention_by_size_keeps_at_least_the_bytes_asked_for() -> None:
    log = two_per_segment(7, retention_bytes=4 * size)
    assert log.enforce_retention(now_ms) == 1
    assert (log.start_offset, log.size) == (2, 5 * size)
    assert log.enforce_retention(now_ms) == 0


def test_retention_of_0_bytes_deletes_the_active_segment_too() -> None:
    log = two_per_segment(7, retention_bytes=0)
    assert log.enforce_retention(now_ms) == 4
    assert (log.start_offset, log.end_offset, log.size) == (7, 7, 0)
    assert log.enforce_retention(now_ms) == 0
    outcome = append_at_once(log, one, now_ms)
    assert isinstance(outcome, Appended)
    assert (outcome.base_offset, outcome.start_offset) == (7, 7)


def test_retention_by_time_goes_by_the_newest_record_of_a_segment() -> None:
    settings = LogSettings(segment_bytes=2 * size, retention_ms=100)
    log = log_of(*[batch_of(now_ms + time) for time in (0, 50, 10, 0, 90)], settings=settings)
    assert log.enforce_retention(now_ms + 150) == 0
    assert log.enforce_retention(now_ms + 151) == 2
    assert log.start_offset == 4
    assert log.enforce_retention(now_ms + 191) == 1
    assert (log.start_offset, log.end_offset) == (5, 5)


def test_an_old_segment_behind_a_newer_one_stays() -> None:
    settings = LogSettings(segment_bytes=size, retention_ms=100)
    log = log_of(batch_of(now_ms + 1000), batch_of(now_ms), settings=settings)
    assert log.enforce_retention(now_ms + 500) == 0


def test_records_without_a_time_are_as_old_as_their_append() -> None:
    log = log_of(batch_of(-1), settings=LogSettings(retention_ms=100))
    assert log.enforce_retention(now_ms + 100) == 0
    assert log.enforce_retention(now_ms + 101) == 1


@pytest.mark.parametrize("settings", [LogSettings(retention_ms=-1), LogSettings(retention_ms=0, is_deletable=False)])
def test_nothing_is_deleted_without_a_limit_or_a_policy(settings: LogSettings) -> None:
    assert log_of(one, settings=settings).enforce_retention(now_ms * 2) == 0


def test_a_segment_rolls_when_its_records_span_too_much_time() -> None:
    settings = LogSettings(segment_ms=100, retention_bytes=size)
    log = log_of(batch_of(now_ms), batch_of(now_ms + 100), batch_of(now_ms + 101), settings=settings)
    log.enforce_retention(now_ms)
    assert log.start_offset == 2


def test_a_segment_without_times_rolls_by_its_age() -> None:
    log = log_of(batch_of(-1), settings=LogSettings(segment_ms=100, retention_bytes=size))
    append_at_once(log, batch_of(-1), now_ms + 101)
    log.enforce_retention(now_ms + 101)
    assert log.start_offset == 1


# DeleteRecords


def test_deleted_records_move_the_start_and_free_whole_segments() -> None:
    log = two_per_segment(7)
    assert log.delete_records(3, now_ms) == 3
    assert (log.start_offset, log.size) == (3, 5 * size)
    assert offsets(log.read(3, max_bytes=size)) == [3]


def test_deleting_up_to_the_end_frees_all() -> None:
    log = two_per_segment(7)
    assert log.delete_records(-1, now_ms) == 7
    assert (log.start_offset, log.end_offset, log.size) == (7, 7, 0)
    assert log.delete_records(-1, now_ms) == 7
    append_at_once(log, one, now_ms)
    assert offsets(log.read(7, max_bytes=size)) == [7]


def test_what_is_deleted_already_leaves_the_start_where_it_is() -> None:
    log = log_of(one, one, one)
    log.delete_records(2, now_ms)
    assert log.delete_records(1, now_ms) == 2


@pytest.mark.parametrize("offset", [-2, 3])
def test_offsets_that_the_log_never_had_cannot_be_deleted(offset: int) -> None:
    assert error_of(log_of(one, one).delete_records(offset, now_ms)) == ErrorCode.offset_out_of_range


def test_records_of_a_topic_that_is_only_compacted_cannot_be_deleted() -> None:
    log = log_of(settings=LogSettings(is_compacted=True, is_deletable=False))
    assert error_of(log.delete_records(0, now_ms)) == ErrorCode.policy_violation


# By time and by epoch


@pytest.fixture
def timed() -> PartitionLog:
    batches = [(5, 9, 9, 3), (2, 1), (9, 10, 10), (4,), (10,)]
    return log_of(*[batch_of(*times, codec=Codec.ZSTD) for times in batches])


def test_a_time_leads_to_the_first_record_not_older(timed: PartitionLog) -> None:
    assert {time: found(timed, time) for time in (0, 5, 6, 9, 10, 11)} == {
        0: (5, 0), 5: (5, 0), 6: (9, 1), 9: (9, 1), 10: (10, 7), 11: None,
    }  # fmt: skip
    assert offset_for_timestamp(timed, 10) == TimestampOffset(timestamp=10, offset=7, leader_epoch=0)


def test_deleted_records_are_not_found(timed: PartitionLog) -> None:
    timed.delete_records(2, now_ms)
    assert [found(timed, time) for time in (5, 9)] == [(9, 2), (9, 2)]
    timed.delete_records(8, now_ms)
    assert [found(timed, time) for time in (0, 4, 5, 10)] == [(10, 8)] * 4
    timed.delete_records(9, now_ms)
    assert [found(timed, time) for time in (0, 5)] == [(4, 9), (10, 10)]
    timed.delete_records(-1, now_ms)
    assert found(timed, 0) is None


def test_a_time_is_found_over_the_borders_of_segments() -> None:
    log = log_of(*[batch_of(time) for time in (3, 1, 7, 2, 9)], settings=LogSettings(segment_bytes=2 * size))
    assert [found(log, time) for time in (2, 4, 8, 10)] == [(3, 0), (7, 2), (9, 4), None]


def test_the_largest_timestamp_is_that_of_its_first_record(timed: PartitionLog) -> None:
    assert offset_of_max_timestamp(timed) == TimestampOffset(timestamp=10, offset=7, leader_epoch=0)


def test_the_largest_timestamp_is_sought_only_in_what_is_left(timed: PartitionLog) -> None:
    largest = []
    for start in (8, 9, 10, -1):
        timed.delete_records(start, now_ms)
        largest.append(offset_of_max_timestamp(timed))
    assert [record and (record.timestamp, record.offset) for record in largest] == [(10, 8), (10, 10), (10, 10), None]


def test_of_records_without_times_the_first_has_the_largest() -> None:
    assert offset_of_max_timestamp(log_of(batch_of(-1, -1))) == TimestampOffset(timestamp=-1, offset=0, leader_epoch=0)
    assert offset_of_max_timestamp(log_of()) is None


def test_an_epoch_ends_where_the_log_ends_and_others_are_unknown() -> None:
    log = log_of(one, one)
    assert log.end_offset_for_epoch(0) == EpochEnd(leader_epoch=0, end_offset=2)
    assert {log.end_offset_for_epoch(epoch) for epoch in (-1, 1)} == {EpochEnd(leader_epoch=-1, end_offset=-1)}


def test_the_newest_record_is_found_in_a_batch_of_which_deletion_left_nothing_by_its_offsets() -> None:
    """Kafka does not validate the offset deltas of an uncompressed batch: they may all be 0."""
    odd = write_batch([Record(timestamp=now_ms, value=b"v")] * 3)
    plain = plain_records(produced_batch(odd))
    first = plain[: len(plain) // 3]
    header = read_header(odd)
    log = log_of(produced_batch(assemble(header, first * 3)))
    log.delete_records(2, now_ms)
    assert offset_of_max_timestamp(log) is None
