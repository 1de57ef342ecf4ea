"""Finds out how the transaction of a batch ended, as a read_committed consumer would see it.

A producer has one transaction at a time in a partition, and its end is in the log as a control batch of the same
producer. So the outcome of a transactional batch is the next later marker of its producer:

| the next marker | its records                                                                   |
|-----------------|-------------------------------------------------------------------------------|
| COMMIT          | are rows                                                                      |
| ABORT           | are skipped, and counted                                                      |
| none            | are skipped too: the transaction is open, and may still be aborted; counted   |

The marker may come after the range that is read, even in another segment. So when a range has a transactional batch,
its reader scans headers alone, from the start of the range, until it finds the producer's marker: usually soon, since
a transaction ends within minutes, and not at all where there are no transactions. Each range thereby remains readable
independently, and nothing has to be collected before ranges are assigned to tasks. The `.txnindex` is not used: it has
only aborted transactions, may be missing from a copy, and would not show which transactions are open.

Compaction preserves this: it drops a marker only after all records of its transaction (LogCleaner's
CleanedTransactionMetadata).
"""

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcoord.pipeline.decoding.byte_columns import Positions
from kcoord.pipeline.decoding.scan import CONTROL, TRANSACTIONAL, Headers
from kcoord.pipeline.decoding.segments import SegmentRange, later_segments
from kcoord.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    CorruptBatch,
    has_valid_crc,
    read_header,
)
from kcoord.protocol.records.control_records import TRANSACTION_ENDS, ControlRecordType, read_control_type
from kcoord.protocol.records.record import read_records

_START: Final = struct.Struct(">qiibIh")


class Outcome(IntEnum):
    """How the transaction of a batch ended; a batch outside transactions counts as committed."""

    COMMITTED = 0
    ABORTED = 1
    OPEN = 2


Outcomes = npt.NDArray[np.int8]
"""The outcome of each batch."""


class Marker(NamedTuple):
    """A commit or abort marker in the log, which ends a transaction of a producer; and its position in bytes, counted
    on from the start of the range's own file."""

    producer_id: int
    position: int
    outcome: Outcome


class Transactions:
    """Finds out how the transactions of one range of a segment ended, by looking ahead for their markers; the batches
    must be asked for in the order of the log."""

    def __init__(self, segment_range: SegmentRange) -> None:
        self._ahead = _markers(segment_range)
        self._positions: dict[int, list[int]] = {}
        self._outcomes: dict[int, list[Outcome]] = {}

    def outcomes(self, headers: Headers, positions: Positions) -> Outcomes:
        """Returns how the transaction of each batch ended, given its header and its position in the file; a batch
        outside transactions is committed."""
        outcomes = np.zeros(len(headers), np.int8)
        attributes = headers["attributes"]
        for row in np.flatnonzero((attributes & TRANSACTIONAL != 0) & (attributes & CONTROL == 0)).tolist():
            outcomes[row] = self._outcome(int(headers["producer_id"][row]), int(positions[row]))
        return outcomes

    def _outcome(self, producer_id: int, position: int) -> Outcome:
        positions = self._positions.setdefault(producer_id, [])
        while not positions or positions[-1] < position:
            marker = next(self._ahead, None)
            if marker is None:
                return Outcome.OPEN
            self._positions.setdefault(marker.producer_id, []).append(marker.position)
            self._outcomes.setdefault(marker.producer_id, []).append(marker.outcome)
        return self._outcomes[producer_id][bisect_right(positions, position)]


def _markers(segment_range: SegmentRange) -> Iterator[Marker]:
    segment = segment_range.segment
    yield from _markers_in(segment.path, segment_range.start, segment.size)
    before = segment.size
    for path, size in later_segments(segment):
        for marker in _markers_in(path, 0, size):
            yield marker._replace(position=before + marker.position)
        before += size


def _markers_in(path: Path, position: int, size: int) -> Iterator[Marker]:
    """Yields the markers of a file as far as it has batches; only control batches are decoded."""
    size = min(size, path.stat().st_size)
    if not size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as log:
        while position <= len(log) - HEADER_SIZE:
            _, length, _, magic, _, attributes = _START.unpack_from(log, position)
            end = position + length + LOG_OVERHEAD
            if length < 0 or not 0 <= magic <= MAGIC or end > len(log):
                return
            if magic == MAGIC and attributes & CONTROL and end - position >= HEADER_SIZE:
                yield from markers_of(log[position:end], position)
            position = end


def markers_of(content: bytes, position: int) -> Iterator[Marker]:
    """Yields the commit and abort markers in the bytes of a control batch."""
    batch = Batch(header=read_header(content), data=memoryview(content))
    if not has_valid_crc(batch):
        return
    try:
        records = list(read_records(batch))
    except CorruptBatch:
        return
    for record in records:
        marker_type = read_control_type(record.key)
        if marker_type in TRANSACTION_ENDS:
            outcome = Outcome.COMMITTED if marker_type == ControlRecordType.COMMIT else Outcome.ABORTED
            yield Marker(batch.header.producer_id, position, outcome)
