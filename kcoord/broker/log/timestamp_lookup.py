"""Lookups of records by time: the first that is not older than a time, and the largest timestamp.

Timestamps are the producers' and need not grow with the offsets. Records that DeleteRecords has cut off are ignored,
though they may still be in the log. Records that cannot be read are an OSError.

The costs of a lookup: a large batch that this process has appended has its running maxima cached, and the first record
not older than a time is always one of these. If all of them are known, nothing is read; else the search begins at the
last known one before it. Other batches are read up to that record, in slices. Only the size and the deltas of each
record are read, so that neither its headers nor its value cost anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcoord.broker.log.segment import CorruptSegment, Segment
from kcoord.broker.log.slices import Effort, Slices, decompress
from kcoord.protocol.records.batch import NO_TIMESTAMP, Batch, CorruptBatch
from kcoord.protocol.records.record import DECOMPRESSED_LIMIT, read_deltas
from kcoord.protocol.records.record_scan import RunningMaxima


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampOffset:
    """The record that ListOffsets finds by time: its timestamp in milliseconds, offset and leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_not_older(
    segments: Sequence[Segment], timestamp: int, start_offset: int, effort: Effort
) -> Slices[TimestampOffset | None]:
    """Finds the first record of the log whose timestamp is not older than this; None if there is none. Records below
    `start_offset` do not count. The search counts its work in `effort` and yields between slices.
    """
    for segment in tuple(segments):
        _ensure_not_deleted(segment, segments)
        if segment.max_timestamp < timestamp:
            continue
        for batch, maxima in segment.batches_reaching(timestamp, from_offset=start_offset):
            found = yield from _find_record(batch, maxima, timestamp, start_offset, effort)
            if found is not None:
                return found
            _ensure_not_deleted(segment, segments)
    return None


def newest_time(segments: Sequence[Segment], start_offset: int, effort: Effort) -> Slices[int]:
    """Returns the largest timestamp of all records from `start_offset` on, in milliseconds; -1 if there are none. The
    search counts its work in `effort` and yields between slices.
    """
    newest = NO_TIMESTAMP
    for segment in tuple(segments):
        _ensure_not_deleted(segment, segments)
        newest = max(newest, (yield from _newest_of(segment, start_offset, segments, effort)))
    return newest


def _ensure_not_deleted(segment: Segment, segments: Sequence[Segment]) -> None:
    """Raises OSError if the segment was deleted, alone or with its topic, while other work ran."""
    if segment.is_closed or segment not in segments:
        raise OSError("the segment was deleted meanwhile")


def _find_record(
    batch: Batch, maxima: RunningMaxima | None, timestamp: int, start_offset: int, effort: Effort
) -> Slices[TimestampOffset | None]:
    header, position = batch.header, 0
    if maxima is not None and header.base_offset >= start_offset:
        delta = timestamp - header.base_timestamp
        known = maxima.last_before(delta) if maxima.is_thinned else maxima.first_reaching(delta)
        if known is not None and not maxima.is_thinned:
            found, offset = header.base_timestamp + known.timestamp_delta, header.base_offset + known.offset_delta
            return TimestampOffset(timestamp=found, offset=offset, leader_epoch=header.leader_epoch)
        position = known.position if known is not None else 0
    plain = yield from _plain(batch)
    for offset, found in _times_of(batch, plain, position):
        if found >= timestamp and offset >= start_offset:
            return TimestampOffset(timestamp=found, offset=offset, leader_epoch=header.leader_epoch)
        yield from effort.spend(1)
    return None


def _newest_of(segment: Segment, start_offset: int, segments: Sequence[Segment], effort: Effort) -> Slices[int]:
    if segment.base_offset >= start_offset:
        return segment.max_timestamp
    cut = segment.batch_holding(start_offset)
    if cut is None:
        return NO_TIMESTAMP
    plain = yield from _plain(cut)
    newest = NO_TIMESTAMP
    for offset, timestamp in _times_of(cut, plain, 0):
        if offset >= start_offset:
            newest = max(newest, timestamp)
        yield from effort.spend(1)
    _ensure_not_deleted(segment, segments)
    return max(newest, segment.max_timestamp_from(cut.header.last_offset + 1))


def _plain(batch: Batch) -> Slices[bytes]:
    try:
        return (yield from decompress(batch, limit=DECOMPRESSED_LIMIT))
    except CorruptBatch as bad:
        raise _corrupt(batch, bad) from bad


def _times_of(batch: Batch, plain: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yields the offset and the timestamp of each record from this position on. Batches of clients were validated when
    they came, batches found on disk were not: CorruptSegment is raised where records break off.
    """
    header = batch.header
    try:
        while position < len(plain):
            offset_delta, timestamp_delta, position = read_deltas(plain, position)
            timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
            yield header.base_offset + offset_delta, timestamp
    except CorruptBatch as bad:
        raise _corrupt(batch, bad) from bad


def _corrupt(batch: Batch, bad: CorruptBatch) -> CorruptSegment:
    return CorruptSegment(f"the batch of offset {batch.header.base_offset} cannot be read: {bad.message}")
