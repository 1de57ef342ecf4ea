"""Reads a range of a segment piece by piece: its batches, and the decompressed bytes of their records.

| step                 | how                                                                                         |
|----------------------|---------------------------------------------------------------------------------------------|
| read                 | pieces of 4 MiB; a batch that a piece cuts is read again with the next one                  |
| find the batches     | each header says where the next one begins: one `struct` call each                          |
| read their headers   | all at once: an array of 61 bytes for each, viewed as NumPy's records                       |
| check the checksums  | batch by batch, in C                                                                        |
| decompress           | batch by batch, in C, as many at once as give 4 MiB of decompressed bytes                   |

So memory depends neither on the segment's size nor on what compressed batches claim: a batch that decompresses to more
than 64 MiB is refused.

Bytes that are no batch are reported and end the range: no later batch can be found after them. A batch with a wrong
checksum is reported and skipped, as in `offsets_log.dump`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from kcoord.pipeline.decoding.byte_columns import PADDING, ByteBuffer, Flags, Positions
from kcoord.pipeline.decoding.segments import SegmentRange
from kcoord.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    FRAME,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    CorruptBatch,
    probe_frame,
    read_header,
)
from kcoord.protocol.records.record import plain_records

PIECE_BYTES: Final = 4 * 1024 * 1024
_TARGET_BYTES: Final = PIECE_BYTES  # more at once is slower: it fits in no CPU cache

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", ">i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_SIZE

Headers = npt.NDArray[Any]
"""A row for each batch, with the names of protocol.records.batch.BatchHeader."""

CODEC: Final = 0x07
APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of a segment that cannot be read: a batch, or everything from `position` (in bytes) on; and why."""

    position: int
    reason: str
    base_offset: int | None = None
    records: int = 0
    """How many records the batch claims, if its checksum is right."""
    claimed: int | None = None
    """How many records the batch claims, if its checksum is wrong; None if it claims an impossible number."""
    size: int | None = None
    """How many bytes the part has; None if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole record batches that were read at once from a segment, with right checksums: their headers, and their
    positions `at` in the buffer. `position` is that of the buffer in the file."""

    buffer: ByteBuffer
    position: int
    at: Positions
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class DecompressedBatches:
    """The decompressed records of several batches of a piece: those of each batch lie in the buffer from `starts` to
    `ends`. `positions` are those of the batches in the file."""

    buffer: ByteBuffer
    headers: Headers
    positions: Positions
    starts: Positions
    ends: Positions


def read_pieces(segment_range: SegmentRange, *, max_bytes: int = PIECE_BYTES) -> Iterator[Piece | Problem]:
    """Reads a range of a segment file, up to `max_bytes` at a time: yields its batches, and problems with bytes that
    cannot be read. All is in order, except that the problems of a piece come before it."""
    position, end = segment_range.start, segment_range.end
    with segment_range.segment.path.open("rb") as file:
        wanted = max_bytes = max(max_bytes, HEADER_SIZE)
        while position < end:
            buffer = _read(file, position, min(wanted, end - position))
            positions, stop = find_batches(buffer)
            if positions:
                yield from checked_batches(buffer, position, np.array(positions, np.int64))
                position += stop
                wanted = max_bytes
                continue
            size, problem = probe_frame(buffer.padded, end - position)
            if problem:
                yield Problem(position=position, reason=problem, size=size or end - position)
            if not size:
                return
            if problem:
                position += size
            wanted = max(max_bytes, size)


def decompressed_parts(piece: Piece, wanted: Flags) -> Iterator[DecompressedBatches | Problem]:
    """Yields those batches of a piece that the flags `wanted` select, decompressed, as many at once as there is room
    for; and a problem for each that cannot be decompressed."""
    if not (piece.headers["attributes"][wanted] & CODEC).any():
        headers, at = piece.headers[wanted], piece.at[wanted]
        ends = at + headers["length"] + LOG_OVERHEAD
        yield DecompressedBatches(
            buffer=piece.buffer, headers=headers, positions=at + piece.position, starts=at + HEADER_SIZE, ends=ends
        )
        return
    rows: list[int] = []
    sections: list[bytes] = []
    size = 0
    for row in np.flatnonzero(wanted).tolist():
        try:
            section = plain_records(_batch(piece, row))
        except CorruptBatch as error:
            yield batch_problem(piece, row, error.message)
            continue
        rows.append(row)
        sections.append(section)
        size += len(section)
        if size >= _TARGET_BYTES:
            yield _joined(piece, rows, sections)
            rows, sections, size = [], [], 0
    if rows:
        yield _joined(piece, rows, sections)


def batch_problem(piece: Piece, row: int, reason: str) -> Problem:
    """Returns the problem of the batch in this row of a piece, whose records cannot be read."""
    header = piece.headers[row]
    return Problem(
        position=piece.position + int(piece.at[row]),
        reason=reason,
        base_offset=int(header["base_offset"]),
        records=max(0, int(header["record_count"])),
        size=batch_size(header),
    )


def batch_size(header: Any) -> int:
    """Returns the size of a batch in bytes, by its header."""
    return int(header["length"]) + LOG_OVERHEAD


def _claimed_records(header: Any) -> int | None:
    """Returns the record count that a header claims. A batch has at most one record per offset; compaction leaves
    fewer."""
    count, offsets = int(header["record_count"]), int(header["last_offset_delta"]) + 1
    return count if 0 <= count <= offsets else None


def _read(file: BufferedReader, position: int, size: int) -> ByteBuffer:
    content = bytearray(size + PADDING)
    file.seek(position)
    with memoryview(content) as view:
        # A file that has become shorter meanwhile has zeros from there on, which are no batch.
        file.readinto(view[:size])
    return ByteBuffer(content, size)


def find_batches(buffer: ByteBuffer) -> tuple[list[int], int]:
    """Returns the positions at which whole batches begin, from the start of the buffer on, and the position at which
    the last of them ends."""
    content, size, unpack = buffer.padded, buffer.size, FRAME.unpack_from
    positions: list[int] = []
    position, last = 0, size - HEADER_SIZE
    while position <= last:
        _, length, _, magic = unpack(content, position)
        end = position + length + LOG_OVERHEAD
        if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or end > size:
            break
        positions.append(position)
        position = end
    return positions, position


def checked_batches(buffer: ByteBuffer, position: int, at: Positions) -> Iterator[Piece | Problem]:
    """Checks the checksums of the batches at these positions: yields a problem for each wrong one, then a piece with
    the others."""
    headers = buffer.rows(at, HEADER_SIZE).view(_HEADER).reshape(len(at))
    ends = at + headers["length"] + LOG_OVERHEAD
    with memoryview(buffer.padded) as view:
        sums = [
            crc32c(view[start + ATTRIBUTES_OFFSET : end]) for start, end in zip(at.tolist(), ends.tolist(), strict=True)
        ]
    is_right = headers["crc"] == np.array(sums, np.uint32)
    for row in np.flatnonzero(~is_right).tolist():
        yield Problem(
            position=position + int(at[row]),
            reason="the checksum is wrong: its records are not read",
            base_offset=int(headers["base_offset"][row]),
            claimed=_claimed_records(headers[row]),
            size=batch_size(headers[row]),
        )
    yield Piece(buffer=buffer, position=position, at=at[is_right], headers=headers[is_right])


def _batch(piece: Piece, row: int) -> Batch:
    start = int(piece.at[row])
    header = read_header(piece.buffer.padded, start)
    return Batch(header=header, data=memoryview(piece.buffer.padded)[start : start + header.size])


def _joined(piece: Piece, rows: list[int], sections: list[bytes]) -> DecompressedBatches:
    sizes = np.array([len(section) for section in sections], np.int64)
    ends = np.cumsum(sizes)
    return DecompressedBatches(
        buffer=ByteBuffer.of(*sections),
        headers=piece.headers[rows],
        positions=piece.at[rows] + piece.position,
        starts=ends - sizes,
        ends=ends,
    )
