"""A byte buffer, and columns read from it: a number or a text at each of many positions.

NumPy reads a number of any width at any position from an array whose elements overlap: element i is the number that
begins at byte i. Reading at many positions is then one indexing operation, at 6 to 10 ns each.

Arrow extracts texts in the same way. A binary array is bytes and offsets, and each element ends where the next begins;
so if starts and ends alternate, every other element is a text and the ones between are the gaps. Arrow's own `take`
then copies the texts, at 15 ns each; nothing is done text by text in Python.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PADDING: Final = 16
"""Bytes after the content, so that a number that begins within it, or at its end, can always be read."""

_NATIVE: Final = {"b": np.int8, "B": np.uint8, "h": np.int16, "H": np.uint16, "i": np.int32, "q": np.int64}


class ByteBuffer:
    """A buffer of bytes from which numbers or texts at many positions are read at once, as NumPy or Arrow arrays. A
    position may be anything from 0 to `size`; PADDING bytes follow the content."""

    __slots__ = ("_buffer", "_views", "padded", "size")

    def __init__(self, padded: bytes | bytearray, size: int) -> None:
        assert size + PADDING <= len(padded)
        assert len(padded) < 2**31, "Arrow's offsets have 32 bits"
        self.padded = padded
        self.size = size
        self._buffer = pa.py_buffer(padded)
        self._views: dict[str, npt.NDArray[Any]] = {}

    @classmethod
    def of(cls, *parts: bytes | bytearray | memoryview) -> "ByteBuffer":
        """Makes a buffer of copies of these parts, one after the other."""
        padded = b"".join([*parts, bytes(PADDING)])
        return cls(padded, len(padded) - PADDING)

    def numbers(self, code: str, at: Positions) -> npt.NDArray[Any]:
        """Returns the big-endian numbers (by struct's format character) that begin at these positions, in native byte
        order."""
        return self._view(f">{code}")[at].astype(_NATIVE[code], copy=False)

    def pairs(self) -> npt.NDArray[np.uint16]:
        """Returns, for every position, its two bytes as one number, the first byte being the lower one: the index into
        tables of varints."""
        return self._view("<u2")

    def rows(self, at: Positions, width: int) -> npt.NDArray[np.uint8]:
        """Returns `width` bytes from each position as the rows of a matrix; all of them lie within the content."""
        if not len(at):
            return np.empty((0, width), np.uint8)
        view = np.ndarray((len(self.padded) - width + 1,), f"V{width}", self.padded, 0, (1,))
        return view[at].view(np.uint8).reshape(len(at), width)

    def spans(self, starts: Positions, ends: Positions) -> pa.BinaryArray:
        """Returns the bytes from each start to its end as an Arrow array; spans are in ascending order and do not
        overlap."""
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = starts
        offsets[1::2] = ends
        offsets[-1] = ends[-1]
        alternating = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), self._buffer])
        return alternating.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))

    def texts(self, starts: Positions, ends: Positions) -> pa.StringArray:
        """Returns the UTF-8 text from each start to its end as an Arrow array; invalid UTF-8 is replaced, as everywhere
        where records are read."""
        if np.array_equal(starts, ends):
            return pa.repeat(pa.scalar("", pa.string()), len(starts))
        spans = self.spans(starts, ends)
        try:
            return spans.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([span.decode(errors="replace") for span in spans.to_pylist()], pa.string())

    def bytes_at(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to `end`."""
        return bytes(self.padded[start:end])

    def _view(self, dtype: str) -> npt.NDArray[Any]:
        view = self._views.get(dtype)
        if view is None:
            width = np.dtype(dtype).itemsize
            view = np.ndarray((len(self.padded) - width + 1,), dtype, self.padded, 0, (1,))
            self._views[dtype] = view
        return view


class Cursor:
    """A read position in each of many byte spans (records), which advances over the same field in all of them at once;
    each method reads a column of values.

    Where a span ends too early, or a number has a value that is not allowed, `is_valid` becomes false for this span and
    its position stays within it; what is read there afterwards has no meaning.
    """

    __slots__ = ("at", "buffer", "ends", "is_valid")

    def __init__(self, buffer: ByteBuffer, starts: Positions, ends: Positions) -> None:
        self.buffer = buffer
        self.at = starts
        self.ends = ends
        self.is_valid: Flags = starts <= ends

    def number(self, code: str) -> npt.NDArray[Any]:
        """Reads a big-endian number of fixed size (by struct's format character) from each span."""
        values = self.buffer.numbers(code, self.at)
        self.skip(values.itemsize)
        return values

    def skip(self, sizes: int | Integers) -> None:
        """Advances each position by this many bytes, which must not be negative."""
        at = self.at + sizes
        self.is_valid &= at <= self.ends
        self.at = np.minimum(at, self.ends)

    def span(self, sizes: Integers) -> tuple[Positions, Positions]:
        """Advances over fields of these sizes in bytes and returns their starts and ends; a negative size is an empty
        span."""
        start = self.at
        self.skip(np.maximum(sizes, 0))
        return start, self.at

    def require(self, condition: Flags) -> None:
        """Marks the spans for which the condition is false as invalid."""
        self.is_valid &= condition

    def uvarint(self, max_bytes: int = 4) -> Integers:
        """Reads an unsigned varint from each span. One with more than `max_bytes` bytes is invalid."""
        packed = _VARINT_TABLE[self.buffer.pairs()[self.at]]
        values: Integers = packed >> _LENGTH_BITS
        self.skip(packed & _LENGTH_MASK)
        longer = np.flatnonzero(packed == _LONGER)
        if len(longer):
            self._read_longer(values, longer, max_bytes)
        return values

    def varint(self) -> Integers:
        """Reads a signed (zigzag) varint from each span."""
        return _unzigzag(self.uvarint())

    def varlong(self) -> Integers:
        """Reads a signed (zigzag) varint of 56 bits at most from each span."""
        return _unzigzag(self.uvarint(_MAX_VARLONG_BYTES))

    def _read_longer(self, values: Integers, longer: Integers, max_bytes: int) -> None:
        """Reads the varints of three bytes or more; the cursor has not advanced over them yet."""
        at = self.at[longer]
        total = np.zeros(len(longer), np.int64)
        is_open = np.ones(len(longer), np.bool_)
        for shift in range(0, 7 * max_bytes, 7):
            byte = self.buffer.numbers("B", at).astype(np.int64)
            total |= np.where(is_open, (byte & 0x7F) << shift, 0)
            at += is_open
            is_open &= byte > 0x7F
        values[longer] = total
        self.is_valid[longer] &= ~is_open & (at <= self.ends[longer])
        self.at[longer] = np.minimum(at, self.ends[longer])


def _unzigzag(raw: Integers) -> Integers:
    return (raw >> 1) ^ -(raw & 1)


_MAX_VARLONG_BYTES: Final = 8
_LENGTH_BITS: Final = 2
_LENGTH_MASK: Final = 3
_LONGER: Final = 0
"""The table's entry for a varint of more than two bytes: a length of 0 and no value."""


def _varint_table() -> Integers:
    """Maps every pair of bytes to the unsigned varint that it begins with, and to the length of that varint."""
    pairs = np.arange(1 << 16, dtype=np.int64)
    first, second = pairs & 0xFF, pairs >> 8
    one = (first << _LENGTH_BITS) | 1
    two = ((first & 0x7F | second << 7) << _LENGTH_BITS) | 2
    return np.where(first < 0x80, one, np.where(second < 0x80, two, _LONGER))


_VARINT_TABLE: Final = _varint_table()
