"""Turns fetch responses of a partition's log into rows: the same batches as in segments, by the same decoder.

A range of a log is a range of offsets. A batch belongs to the range that its last offset is in: a fetch response
begins with the whole batch that holds the requested offset, and compaction never changes a batch's last offset. So
ranges may be cut anywhere, and another cut tomorrow still gives each record once.

How transactions ended is reported alongside the batches: a read_committed consumer gets nothing after the first open
transaction, and with each response the aborted transactions of its offsets (KIP-98):

| the response lists for a producer | its records from there on, in this response                          |
|-----------------------------------|----------------------------------------------------------------------|
| nothing                           | are rows: what lies before the last stable offset has ended          |
| an aborted transaction            | are skipped from its first offset on, until its ABORT marker comes   |
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kcoord.admin.wire.fetching import Aborted, Fetched
from kcoord.pipeline.decoding.byte_columns import ByteBuffer, Integers
from kcoord.pipeline.decoding.decode import Rows, Tally, decode_piece, log_ends
from kcoord.pipeline.decoding.records import Source
from kcoord.pipeline.decoding.rejected import rejected_batch, rejected_part
from kcoord.pipeline.decoding.row_filter import RowFilter, RowSelection
from kcoord.pipeline.decoding.scan import CONTROL, TRANSACTIONAL, Headers, Piece, Problem, checked_batches, find_batches
from kcoord.pipeline.decoding.segments import OFFSETS_TOPIC
from kcoord.pipeline.decoding.transactions import Outcome, Outcomes, markers_of
from kcoord.pipeline.schemas import REJECTED
from kcoord.protocol.records.batch import FRAME, LOG_OVERHEAD, probe_frame, read_header

_NO_POSITION: Final = 0  # fetched batches have no position in a file


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A range of offsets of a partition's log in a live cluster: the batches whose last offsets are at least `start`
    and below `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def holds_offsets(self) -> bool:
        """Whether the log is a partition of `__consumer_offsets`."""
        return self.topic == OFFSETS_TOPIC

    @property
    def log(self) -> str:
        """The name of the log, `<topic>-<partition>`."""
        return f"{self.topic}-{self.partition}"


class RangeDecoder:
    """Decodes the fetch responses of one range of offsets to rows of the tables, one after the other; `next_offset` is
    where the next fetch begins."""

    def __init__(self, log_range: LogRange, wanted: RowSelection) -> None:
        self.range = log_range
        self.next_offset = log_range.start
        self._source = Source(partition=log_range.partition)
        self._tally = Tally()
        self._filter = RowFilter(wanted)

    @property
    def is_done(self) -> bool:
        """Whether the range was decoded to its end."""
        return self.next_offset >= self.range.end

    def decode(self, fetched: Fetched) -> Iterator[Rows]:
        """Decodes the response of a fetch from `next_offset` on: yields the rows that the selection includes, and
        advances `next_offset` past it."""
        return self._filter.apply(self._decode(fetched))

    def skip_to(self, offset: int, reason: str, *, size: int | None = None) -> Iterator[Rows]:
        """Skips to this offset, since what is before it cannot be read, for this reason: yields a row of `rejected`.
        `size` is how many bytes are skipped, None if the offsets are gone."""
        self.next_offset = min(max(self.next_offset, offset), self.range.end)
        problem = Problem(position=_NO_POSITION, reason=f"{self.range.log}: {reason}", size=size)
        yield from self._tally.counted([(REJECTED, rejected_batch([rejected_part(self._source, problem)]))])

    def scanned(self) -> Iterator[Rows]:
        """Yields the range's row of the table `scanned`, when all else has been decoded."""
        return self._filter.apply([self._tally.row(self.range.topic, self._source, self.range.start, self.range.end)])

    def _decode(self, fetched: Fetched) -> Iterator[Rows]:
        self._tally.size += len(fetched.records)
        buffer = ByteBuffer.of(fetched.records)
        positions, _ = find_batches(buffer)
        if positions:
            yield from self._decode_batches(buffer, np.array(positions, np.int64), fetched.aborted)
        elif fetched.is_crowded:
            return  # the response had no room for this partition
        elif fetched.records:
            yield from self._reject_malformed(fetched.records)
        else:
            # These offsets have no records: compaction may remove all of them, up to the end of the log.
            self.next_offset = max(self.next_offset, min(self.range.end, fetched.stable_end))

    def _decode_batches(self, buffer: ByteBuffer, at: Integers, aborted: Sequence[Aborted]) -> Iterator[Rows]:
        first = self.next_offset
        for part in checked_batches(buffer, _NO_POSITION, at):
            if isinstance(part, Problem):
                if first <= read_header(buffer.padded, part.position).last_offset < self.range.end:
                    yield from self._tally.counted([(REJECTED, rejected_batch([rejected_part(self._source, part)]))])
                continue
            outcomes = outcomes_of(part, aborted)
            last_offsets = _last_offsets(part.headers)
            is_in_range = (last_offsets >= first) & (last_offsets < self.range.end)
            piece = Piece(
                buffer=buffer, position=_NO_POSITION, at=part.at[is_in_range], headers=part.headers[is_in_range]
            )
            if self.range.holds_offsets:
                yield from self._tally.counted(decode_piece(piece, self._source, outcomes[is_in_range], self._tally))
            elif len(piece.headers):
                yield from log_ends(piece.headers, self.range.topic, self.range.partition, self._tally)
        yield from self._advance_past(buffer, int(at[-1]))

    def _advance_past(self, buffer: ByteBuffer, last_batch: int) -> Iterator[Rows]:
        """Advances past the last batch. Its header names the offset, also if its checksum is wrong."""
        behind = read_header(buffer.padded, last_batch).last_offset + 1
        if behind > self.next_offset:
            self.next_offset = behind
            return
        yield from self.skip_to(self.range.end, f"from offset {self.next_offset} on: only what is before it is sent")

    def _reject_malformed(self, records: bytes) -> Iterator[Rows]:
        size, problem = probe_frame(records, len(records))
        if size and problem:
            offset = FRAME.unpack_from(records)[0]
            yield from self.skip_to(max(offset, self.next_offset) + 1, f"offset {offset}: {problem}", size=size)
        else:
            yield from self.skip_to(self.range.end, f"from offset {self.next_offset} on: {problem}", size=len(records))


def outcomes_of(piece: Piece, aborted: Sequence[Aborted]) -> Outcomes:
    """Returns how the transaction of each batch of one fetch response ended; `aborted` are the aborted transactions
    that the response lists."""
    headers = piece.headers
    outcomes = np.zeros(len(headers), np.int8)
    attributes = headers["attributes"]
    if not aborted:
        return outcomes
    ahead = sorted(aborted, key=lambda each: -each.first_offset)
    is_aborting: set[int] = set()
    last_offsets = _last_offsets(headers)
    for row in np.flatnonzero(attributes & (TRANSACTIONAL | CONTROL) != 0).tolist():
        while ahead and ahead[-1].first_offset <= last_offsets[row]:
            is_aborting.add(ahead.pop().producer_id)
        producer_id = int(headers["producer_id"][row])
        if not attributes[row] & CONTROL:
            outcomes[row] = Outcome.ABORTED if producer_id in is_aborting else Outcome.COMMITTED
        elif _is_abort(piece, row):
            is_aborting.discard(producer_id)
    return outcomes


def _is_abort(piece: Piece, row: int) -> bool:
    start = int(piece.at[row])
    content = piece.buffer.bytes_at(start, start + int(piece.headers["length"][row]) + LOG_OVERHEAD)
    return any(marker.outcome is Outcome.ABORTED for marker in markers_of(content, start))


def _last_offsets(headers: Headers) -> Integers:
    last_offsets: Integers = headers["base_offset"].astype(np.int64) + headers["last_offset_delta"]
    return last_offsets
