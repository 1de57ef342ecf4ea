"""Records by their time: which is the first that is not older, and how old the newest is.

Timestamps are the producers' and need not grow with the offsets. What DeleteRecords has cut off does not count, though
it may still be there. Whatever cannot be read is an OSError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcoord.broker.segment import Damaged, Segment
from kcoord.wire.batches import NO_TIMESTAMP, BadBatch, Batch
from kcoord.wire.records import Record, read_records


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
    for record in _records_of(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(
                timestamp=record.timestamp, offset=record.offset, leader_epoch=batch.header.leader_epoch
            )
    return None


def _newest_of(segment: Segment, start_offset: int) -> int:
    if segment.base_offset >= start_offset:
        return segment.max_timestamp
    cut = segment.batch_holding(start_offset)
    if cut is None:
        return NO_TIMESTAMP
    left = [record.timestamp for record in _records_of(cut) if record.offset >= start_offset]
    return max([*left, segment.max_timestamp_from(cut.header.last_offset + 1)])


def _records_of(batch: Batch) -> Iterator[Record]:
    """What was taken from a client was checked then; what was found on a disk was not."""
    try:
        yield from read_records(batch)
    except BadBatch as bad:
        raise Damaged(f"the batch of offset {batch.header.base_offset} cannot be read: {bad.message}") from bad
