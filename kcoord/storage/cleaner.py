"""The cleaner: compaction of one log, a step at a time. It reads a log, writes a smaller copy, and swaps it in.

    closed segments ─► first pass: the last record of each key ─► second pass: a smaller copy ─► `.cleaned`, then a swap

Between two steps the log's owner goes on: appends go to the active segment, which is not touched. Until the swap the
log is unchanged, so compaction may be dropped, or its process killed, at any point. `cleaner_policy` decides what is
retained. The first pass takes as much memory as the keys do, which for groups is less than their offsets take anyway.

Batches that are known to be superseded when compaction begins (`superseded`) are skipped in both passes.

Bytes are new if they were appended after the last compaction. A log is worth compacting when at least half of it is
new: this bounds the work per byte written, and it bounds what a start has to read, to twice what is live.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kcoord.broker.log.partition_log import PartitionLog
from kcoord.broker.log.segment import Segment
from kcoord.protocol.records.batch import Batch, split_batches
from kcoord.storage.cleaner_policy import LastRecords
from kcoord.storage.superseded import BatchesToRead, SupersededBatches

_STEP_BYTES: Final = 1 << 16
_STEP_LOOKUPS: Final = 8
_LOOKUP_COST_BYTES: Final = 1 << 14
"""The bytes that are scanned in the time that one lookup of a batch takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The size in bytes of a log's closed segments before and after a compaction."""

    bytes_before: int
    bytes_after: int


def is_worth_compacting(log: PartitionLog, least_new_bytes: int) -> bool:
    """Returns whether so much of the log was appended after its last compaction, at least `least_new_bytes`, that
    compacting it pays. Its first segment, if there are several, is what the last compaction left."""
    compacted = log.segments[0].size if len(log.segments) > 1 else 0
    new = log.size - compacted
    return not log.is_failed and new >= least_new_bytes and new >= compacted


def compact(
    log: PartitionLog, superseded: SupersededBatches, *, now_ms: int, delete_retention_ms: int
) -> Generator[None, None, CompactionResult]:
    """Compacts the closed segments of a log, as Kafka's log cleaner does, and returns their sizes before and after. It
    is a generator: each step reads or writes a little, so that the event loop has time for other work in between.
    `superseded` names batches that need not be read.

    The log is unchanged if OSError or CorruptBatch is raised, and on close().
    """
    log.close_active(now_ms)
    segments = list(log.segments[:-1])
    superseded.forget_before(segments[0].base_offset)  # Retention may have deleted older segments.
    to_read = _prefer_cheaper_scan(segments, superseded.to_read(log.end_offset))
    last_records, last_offset = LastRecords(), -1
    for batches in _steps(segments, to_read):
        for batch in batches:
            last_records.add(batch)
            last_offset = batch.header.last_offset
        yield
        _ensure_not_deleted(segments, log)
    compaction = last_records.compaction(now_ms=now_ms, delete_retention_ms=delete_retention_ms)
    replacement = log.make_replacement()
    try:
        for batches in _steps(segments, to_read):
            is_last = [batch.header.last_offset == last_offset for batch in batches]
            retained = [compaction.retain(batch, is_last=last) for batch, last in zip(batches, is_last, strict=True)]
            replacement.append(bytearray().join(retained))
            yield
            _ensure_not_deleted(segments, log)
        before = sum(segment.size for segment in segments)
        log.replace_segments(len(segments), replacement, now_ms)
        superseded.forget_before(segments[-1].next_offset)
    except BaseException:
        replacement.delete()
        raise
    return CompactionResult(bytes_before=before, bytes_after=replacement.size)


def _ensure_not_deleted(segments: Sequence[Segment], log: PartitionLog) -> None:
    if log.segments[0] is not segments[0]:
        raise OSError("retention has deleted segments meanwhile")


def _prefer_cheaper_scan(segments: Sequence[Segment], to_read: BatchesToRead) -> BatchesToRead:
    """Replaces lookups of batches by a scan of their segments, if that is less work."""
    known = [segment for segment in segments if segment.next_offset > to_read.all_before]
    size = sum(segment.size for segment in known)
    if known:
        size -= known[0].position_of(to_read.all_before)
    if len(to_read.base_offsets) * _LOOKUP_COST_BYTES < size:
        return to_read
    return BatchesToRead(all_before=segments[-1].next_offset, base_offsets=())


def _steps(segments: Sequence[Segment], to_read: BatchesToRead) -> Iterator[list[Batch]]:
    """Yields the batches to read, some at a time. The last batch is always among them: nothing can have
    superseded it.
    """
    for segment in segments:
        position, end = 0, segment.size
        if to_read.all_before < segment.next_offset:
            end = segment.position_of(to_read.all_before)
        while position < end:
            size = max(min(_STEP_BYTES, end - position), segment.batch_size(position))
            content = segment.whole_batches(position, size)
            yield list(split_batches(content))
            position += len(content)
    for start in range(0, len(to_read.base_offsets), _STEP_LOOKUPS):
        yield [_batch(segments, base_offset) for base_offset in to_read.base_offsets[start : start + _STEP_LOOKUPS]]


def _batch(segments: Sequence[Segment], base_offset: int) -> Batch:
    ends = [segment.next_offset for segment in segments]
    batch = segments[bisect_right(ends, base_offset)].batch_holding(base_offset)
    assert batch is not None, "it was written here"
    assert batch.header.base_offset == base_offset, "another is there"
    return batch
