"""Compaction of one log, a step at a time: what it holds is read, what stays is written beside it, and takes its place.

    closed segments ─► first pass: the last record of each key ─► second pass: what stays ─► `.cleaned`, then a swap

Between two steps whoever owns the log goes on: appends go to the active segment, which is not touched. Until the swap
the log is as it was, so that compaction may be dropped, or its process killed, at any point. `compacting` decides what
stays. The first pass takes as much memory as the keys do, which for groups is less than their offsets take anyway.

What is new is what came after the last compaction. A log is worth compacting when that is at least half of it: the work
that is done for each byte that was written is bounded then, and so is what a start has to read, to twice what is live.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kcoord.broker.partition_log import PartitionLog
from kcoord.broker.segment import Segment
from kcoord.journal.compacting import LastRecords
from kcoord.wire.batches import Batch, split

_STEP_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What came of it."""

    bytes_before: int
    bytes_after: int


def is_worth_compacting(log: PartitionLog, least_new_bytes: int) -> bool:
    """The first segment, where there is another, is what the last compaction left."""
    compacted = log.segments[0].size if len(log.segments) > 1 else 0
    new = log.size - compacted
    return not log.is_failed and new >= least_new_bytes and new >= compacted


def compact(log: PartitionLog, *, now_ms: int, delete_retention_ms: int) -> Generator[None, None, Compacted]:
    """Compact what the log holds now. The log is as it was if OSError or BadBatch is raised, and on close()."""
    log.close_active(now_ms)
    segments = list(log.segments[:-1])
    last_records, last_offset = LastRecords(), -1
    for batches in _steps(segments):
        for batch in batches:
            last_records.see(batch)
            last_offset = batch.header.last_offset
        yield
    compaction = last_records.compaction(now_ms=now_ms, delete_retention_ms=delete_retention_ms)
    replacement = log.make_replacement()
    try:
        for batches in _steps(segments):
            is_last = [batch.header.last_offset == last_offset for batch in batches]
            kept = [compaction.kept(batch, is_last=last) for batch, last in zip(batches, is_last, strict=True)]
            replacement.append(bytearray().join(kept))
            yield
        before = sum(segment.size for segment in segments)
        log.replace_segments(len(segments), replacement, now_ms)
    except BaseException:
        replacement.delete()
        raise
    return Compacted(bytes_before=before, bytes_after=replacement.size)


def _steps(segments: Sequence[Segment]) -> Iterator[list[Batch]]:
    """All batches, some at a time."""
    for segment in segments:
        position = 0
        while position < segment.size:
            content = segment.whole_batches(position, max(_STEP_BYTES, segment.batch_size(position)))
            yield list(split(content))
            position += len(content)
