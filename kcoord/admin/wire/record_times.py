"""Reads records at offsets, their times or their marks, from the batches of a fetch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kcoord.admin.record_marks import RecordMark, checksum_of
from kcoord.protocol.records.batch import NO_TIMESTAMP, Batch, BatchHeader, CorruptBatch, split_batches
from kcoord.protocol.records.record import plain_records, read_deltas, read_key_value, skip_records

Value = TypeVar("Value")


class FetchedRecord(NamedTuple):
    """A record of a fetched batch: the decompressed bytes of the batch, and `position`, the index of the record's first
    byte in them."""

    header: BatchHeader
    plain: bytes
    position: int
    offset_delta: int
    timestamp_delta: int


def time_of(record: FetchedRecord) -> int | None:
    """Returns the time of a record in ms since 1970, None if it has none."""
    header = record.header
    time = header.max_timestamp if header.uses_append_time else header.base_timestamp + record.timestamp_delta
    return None if time == NO_TIMESTAMP else time


def mark_of(record: FetchedRecord) -> RecordMark:
    """Returns the mark (offset, time, checksum) of a fetched record."""
    key, value, _ = read_key_value(record.plain, record.position)
    return RecordMark(
        offset=record.header.base_offset + record.offset_delta,
        timestamp=time_of(record),
        is_append_time=record.header.uses_append_time,
        checksum=checksum_of(key, value),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchScan(Generic[Value]):
    """The result of scanning one fetch of a partition for offsets: the values of the first record at each offset or
    after it (for times, None for a record without one), and the offset from which the missing ones must be read."""

    found: Mapping[int, Value]
    end: int


def scan_fetched(
    fetched: bytes | None, offsets: Sequence[int], read: Callable[[FetchedRecord], Value]
) -> FetchScan[Value]:
    """Scans the batches of a Fetch response for the records at these offsets, in ascending order, and returns what
    `read` makes of those that it found.

    A fetch begins with the batch that contains its offset, and may end within one. Transaction markers are no records;
    aborted records are, as they count as lag. Formats before v2 are not read.
    """
    found: dict[int, Value] = {}
    end = offsets[0]
    try:
        for batch in split_batches(fetched or b""):
            left = offsets[len(found) :]
            if not left:
                break
            if not batch.header.is_control and batch.header.last_offset >= left[0]:
                _scan_batch(batch, left, found, read)
            end = max(end, batch.header.last_offset + 1)
    except CorruptBatch:
        pass  # what was read before it remains valid
    return FetchScan(found=found, end=end)


def _scan_batch(
    batch: Batch, offsets: Sequence[int], found: dict[int, Value], read: Callable[[FetchedRecord], Value]
) -> None:
    header = batch.header
    plain = plain_records(batch)
    is_whole = header.record_count == header.last_offset - header.base_offset + 1  # compaction has removed none
    index = position = 0
    for offset in offsets:
        if offset > header.last_offset:
            return
        if is_whole and offset - header.base_offset > index:
            position = skip_records(plain, position, offset - header.base_offset - index)
            index = offset - header.base_offset
        while index < header.record_count:
            offset_delta, timestamp_delta, end = read_deltas(plain, position)
            if offset <= header.base_offset + offset_delta:
                break
            index, position = index + 1, end
        else:
            return
        found[offset] = read(FetchedRecord(header, plain, position, offset_delta, timestamp_delta))
