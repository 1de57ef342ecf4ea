"""Records by their time: which is the first that is not older, and how old the newest is.

Timestamps are the producers' and need not grow with the offsets. What DeleteRecords has cut off does not count, though
it may still be there. Whatever cannot be read is an OSError. Of a record only its size and its deltas are read, so that
neither its headers nor its value cost a look-up anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcoord.broker.segment import Damaged, Segment
from kcoord.wire.batches import NO_TIMESTAMP, BadBatch, Batch
from kcoord.wire.records import plain_records, read_deltas


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampOffset:
    """What ListOffsets answers to a time."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_not_older(segments: Sequence[Segment], timestamp: int, start_offset: int) -> TimestampOffset | None:
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        for batch in segment.batches_reaching(timestamp, from_offset=start_offset):
            if found := _find_record(batch, timestamp, start_offset):
                return found
    return None


def newest_time(segments: Sequence[Segment], start_offset: int) -> int:
    """The largest timestamp there is."""
    return max(_newest_of(segment, start_offset) for segment in segments)


def _find_record(batch: Batch, timestamp: int, start_offset: int) -> TimestampOffset | None:
    for offset, found in _times_of(batch):
        if found >= timestamp and offset >= start_offset:
            return TimestampOffset(timestamp=found, offset=offset, leader_epoch=batch.header.leader_epoch)
    return None


def _newest_of(segment: Segment, start_offset: int) -> int:
    if segment.base_offset >= start_offset:
        return segment.max_timestamp
    cut = segment.batch_holding(start_offset)
    if cut is None:
        return NO_TIMESTAMP
    left = [timestamp for offset, timestamp in _times_of(cut) if offset >= start_offset]
    return max([*left, segment.max_timestamp_from(cut.header.last_offset + 1)])


def _times_of(batch: Batch) -> Iterator[tuple[int, int]]:
    """Yields each record's offset and timestamp. What was taken from a client was checked then, what was found on a
    disk was not: Damaged is raised where it breaks off."""
    header, position = batch.header, 0
    try:
        plain = plain_records(batch)
        for _ in range(header.record_count):
            offset_delta, timestamp_delta, position = read_deltas(plain, position)
            timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
            yield header.base_offset + offset_delta, timestamp
    except BadBatch as bad:
        raise Damaged(f"the batch of offset {batch.header.base_offset} cannot be read: {bad.message}") from bad
