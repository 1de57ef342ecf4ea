"""Finds the records of many batches: where their keys and values lie, for all batches at once.

A record begins with its size, so only the second record shows where the third one begins: within a batch one has to go
step by step. But all batches can take their steps together: first the first records of all batches are read, then the
second ones, and so on, each step one indexing operation. When only few batches still have records, plain Python takes
their last steps: for fewer than some dozens it is the faster of the two.

Once all records are found, their fields are read, each field of all records at once. Anything irregular in a batch (a
record header, a number of too many bytes, a size that does not fit) sends the whole batch to
`protocol.records.record.read_span`, record by record; so only one function decides what a valid record is.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kcoord.pipeline.decoding.byte_columns import ByteBuffer, Cursor, Flags, Integers, Positions
from kcoord.protocol.records.batch import CorruptBatch
from kcoord.protocol.records.record import SMALLEST_RECORD, RecordSpan, read_span

_MIN_BATCHES_AT_ONCE: Final = 24  # with fewer batches than this plain Python is faster
_UNKNOWN_STEP: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedRecords:
    """Where the key and the value of each record lie in the decompressed bytes, as columns with a row for each record,
    in the order of the log. `batches` is the index of its batch. A null key or value has an empty span."""

    batches: Integers
    offset_deltas: Integers
    timestamp_deltas: Integers
    key_starts: Positions
    key_ends: Positions
    has_key: Flags
    value_starts: Positions
    value_ends: Positions
    has_value: Flags

    def __len__(self) -> int:
        return len(self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenBatch:
    """A batch (by its index) whose records do not match its header: the first `records_read` of them could be read, the
    rest cannot be."""

    batch: int
    records_read: int
    reason: str


def locate_records(
    buffer: ByteBuffer, starts: Positions, ends: Positions, counts: Integers
) -> tuple[LocatedRecords, list[BrokenBatch]]:
    """Finds where the records of many batches lie, all at once, given where the batches' decompressed bytes begin and
    end and how many records each header claims. Returns them, and the batches that do not match their headers."""
    is_possible = (counts >= 0) & (counts * SMALLEST_RECORD <= ends - starts)
    stepped_counts = np.where(is_possible, counts, 0)
    at, is_complete = _record_starts(buffer, starts, ends, stepped_counts)
    located, is_valid = _read_fields(buffer, at, np.repeat(np.arange(len(counts)), stepped_counts))
    is_regular = is_possible & is_complete
    is_regular[located.batches[~is_valid]] = False
    if is_regular.all():
        return located, []
    located = _filtered(located, is_regular[located.batches])
    spans: list[tuple[int, RecordSpan]] = []
    broken: list[BrokenBatch] = []
    for batch in np.flatnonzero(~is_regular).tolist():
        spans += ((batch, span) for span in _one_by_one(buffer, batch, starts, ends, counts, broken))
    return _merged(located, _located(spans)), broken


def _record_starts(buffer: ByteBuffer, starts: Positions, ends: Positions, counts: Integers) -> tuple[Positions, Flags]:
    """Returns where each record begins, and for which batches the last record ends where the batch does."""
    first_rows = np.cumsum(counts) - counts
    found = np.empty(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    at, rows, last = starts[order], first_rows[order], ends[order]
    remaining = len(counts) - np.cumsum(np.bincount(counts)) if len(counts) else np.empty(0, np.int64)
    pairs = buffer.pairs()
    step = 0
    for step, width in enumerate(remaining.tolist()):
        if width < _MIN_BATCHES_AT_ONCE:
            break
        here = at[:width]
        found[rows[:width] + step] = here
        here += _STEPS[pairs[here]]
        np.minimum(here, last[:width], out=here)
    for index in range(int(remaining[step]) if len(remaining) else 0):
        _record_starts_of_one(buffer, found, int(rows[index]) + step, at, index, int(counts[order[index]]) - step)
    is_complete = np.empty(len(counts), np.bool_)
    is_complete[order] = at == last
    return found, is_complete


def _record_starts_of_one(
    buffer: ByteBuffer, found: Positions, row: int, at: Positions, index: int, count: int
) -> None:
    """Finds the remaining records of one batch, with sizes of up to three bytes."""
    content, size, position = buffer.padded, buffer.size, int(at[index])
    positions = []
    for _ in range(count):
        positions.append(position)
        low = content[position]
        if low < 0x80:
            position += 1 + (low >> 1)
        elif (high := content[position + 1]) < 0x80:
            position += 2 + ((low & 0x7F | high << 7) >> 1)
        else:
            position += 3 + ((low & 0x7F | (high & 0x7F) << 7 | content[position + 2] << 14) >> 1)
        position = min(position, size)
    found[row : row + count] = positions
    at[index] = position


def _read_fields(buffer: ByteBuffer, at: Positions, batches: Integers) -> tuple[LocatedRecords, Flags]:
    cursor = Cursor(buffer, at, np.full(len(at), buffer.size, np.int64))
    sizes = cursor.varint()
    cursor.require(sizes >= SMALLEST_RECORD - 1)
    body_ends = cursor.at + sizes
    cursor.require(body_ends <= buffer.size)
    cursor.ends = np.clip(body_ends, 0, buffer.size)
    cursor.skip(1)  # attributes, which mean nothing yet
    timestamp_deltas, offset_deltas = cursor.varlong(), cursor.varint()
    key_sizes = cursor.varint()
    key_starts, key_ends = cursor.span(key_sizes)
    value_sizes = cursor.varint()
    value_starts, value_ends = cursor.span(value_sizes)
    cursor.require((key_sizes >= -1) & (value_sizes >= -1))
    cursor.require(cursor.uvarint() == 0)  # record headers
    cursor.require(cursor.at == body_ends)
    located = LocatedRecords(
        batches=batches,
        offset_deltas=offset_deltas,
        timestamp_deltas=timestamp_deltas,
        key_starts=key_starts,
        key_ends=key_ends,
        has_key=key_sizes >= 0,
        value_starts=value_starts,
        value_ends=value_ends,
        has_value=value_sizes >= 0,
    )
    return located, cursor.is_valid


def _one_by_one(
    buffer: ByteBuffer, batch: int, starts: Positions, ends: Positions, counts: Integers, broken: list[BrokenBatch]
) -> list[RecordSpan]:
    """Reads the batch's records up to the first invalid one; positions are those of the buffer."""
    start = int(starts[batch])
    plain, count = buffer.bytes_at(start, int(ends[batch])), int(counts[batch])
    spans: list[RecordSpan] = []
    position, reason = 0, ""
    try:
        while len(spans) < count:
            span = read_span(plain, position)
            position = span.end
            spans.append(_shifted(span, start))
    except CorruptBatch as error:
        reason = error.message
    if len(spans) == max(count, 0) and position != len(plain):
        reason = "The batch holds more bytes than the records it claims"
    if reason or count < 0:
        broken.append(BrokenBatch(batch=batch, records_read=len(spans), reason=reason or f"a count of {count} records"))
    return spans


def _shifted(span: RecordSpan, by: int) -> RecordSpan:
    return span._replace(
        key_start=span.key_start + by,
        key_end=max(span.key_end, span.key_start) + by if span.has_key else -1,
        value_start=span.value_start + by,
        value_end=max(span.value_end, span.value_start) + by if span.has_value else -1,
    )


def _located(spans: list[tuple[int, RecordSpan]]) -> LocatedRecords:
    """Converts spans to columns. A number that does not fit in 64 bits wraps, as it does for all other records."""
    columns = np.array(
        [
            (
                *(batch, each.offset_delta, _wrapped(each.timestamp_delta)),
                *_ends(each.key_start, each.key_end),
                *_ends(each.value_start, each.value_end),
            )
            for batch, each in spans
        ],
        np.int64,
    ).reshape(len(spans), 9)
    return LocatedRecords(
        batches=columns[:, 0],
        offset_deltas=columns[:, 1],
        timestamp_deltas=columns[:, 2],
        key_starts=columns[:, 3],
        key_ends=columns[:, 4],
        has_key=columns[:, 5] > 0,
        value_starts=columns[:, 6],
        value_ends=columns[:, 7],
        has_value=columns[:, 8] > 0,
    )


def _ends(start: int, end: int) -> tuple[int, int, int]:
    return (start, end, 1) if end >= 0 else (start, start, 0)


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _filtered(located: LocatedRecords, wanted: Flags) -> LocatedRecords:
    return LocatedRecords(**{name: getattr(located, name)[wanted] for name in LocatedRecords.__slots__})


def _merged(some: LocatedRecords, others: LocatedRecords) -> LocatedRecords:
    order = np.argsort(np.concatenate([some.key_starts, others.key_starts]), kind="stable")
    return LocatedRecords(
        **{
            name: np.concatenate([getattr(some, name), getattr(others, name)])[order]
            for name in LocatedRecords.__slots__
        }
    )


def _steps() -> Integers:
    """Maps the first two bytes of a record to the distance to the next record; 0 if they do not determine it."""
    pairs = np.arange(1 << 16, dtype=np.int64)
    low, high = pairs & 0xFF, pairs >> 8
    two = 2 + ((low & 0x7F | high << 7) >> 1)
    return np.where(low < 0x80, 1 + (low >> 1), np.where(high < 0x80, two, _UNKNOWN_STEP))


_STEPS: Final = _steps()
