"""Arrays of rows that are stored as columns: rows of one shape without texts are unpacked at once.

The first row is read as any other. If all others have its size and its bytes where lengths and the count of tagged
fields are, one struct unpacks them all.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from kcoord.protocol.schema.notation import NUMBERS, Fields

MIN_ROWS: Final = 8  # Comparing the shapes of fewer rows does not pay.

_Conversions = Mapping[str, Callable[[Any], Any]]
_ReadColumnar = Callable[[bytes, int, int, int, tuple[Any, ...]], "ColumnarRows | None"]


def columnar_reader(
    fields: Fields, version: int, is_flexible: bool, row: Callable[[Any], Any], conversions: _Conversions
) -> _ReadColumnar | None:
    """Returns a reader that unpacks rows of one shape at once, after the first was read; None if they hold arrays or
    structs.
    """
    present = [field for field in fields if field.is_in(version)]
    if any(field.is_array or field.type == "{}" for field in present):
        return None
    codes = [NUMBERS.get(field.type) or ("x" if is_flexible else _LENGTHS[field.type]) for field in present]
    codes += ["x"] * is_flexible  # The count of tagged fields, which is 0.
    whole = struct.Struct(">" + "".join(codes))
    padding = _padding(codes)
    unpacked = [field.type if field.is_in(version) and field.type in NUMBERS else None for field in fields]

    def read(content: bytes, start: int, end: int, count: int, first: tuple[Any, ...]) -> ColumnarRows | None:
        size = end - start
        span = content[start : start + size * count]
        is_uniform = size == whole.size and len(span) == size * count
        if not is_uniform or any(span[at::size] != span[at : at + 1] * count for at in padding):
            return None
        numbers = zip(*whole.iter_unpack(span), strict=True)
        columns = [
            _column(kind, numbers, value, count, conversions) for kind, value in zip(unpacked, first, strict=True)
        ]
        return ColumnarRows(row, columns)

    return read


class ColumnarRows:
    """The value of an array field of a message, such as the partitions of an OffsetFetch response, with a list for each
    field of its elements: no object per element is needed. Iterating over it makes the elements, one by one."""

    __slots__ = ("_row", "columns")

    def __init__(self, row: Callable[[Any], Any], columns: list[Sequence[Any]]) -> None:
        self._row = row
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Any]:
        return map(self._row, zip(*self.columns, strict=True))


def columns_of(rows: Any) -> Sequence[Sequence[Any]]:
    """Returns the columns of an array of rows, which must not be empty."""
    return rows.columns if isinstance(rows, ColumnarRows) else list(zip(*rows, strict=True))


_LENGTHS: Final = {"string": "xx", "bytes": "xxxx"}


def _padding(codes: list[str]) -> list[int]:
    """Returns the positions of the bytes that are not unpacked: lengths, and the count of tagged fields."""
    ends = list(accumulate(struct.calcsize(">" + code) for code in codes))
    return [at for code, end in zip(codes, ends, strict=True) if "x" in code for at in range(end - len(code), end)]


def _column(
    kind: str | None, numbers: Iterator[tuple[Any, ...]], value: Any, count: int, conversions: _Conversions
) -> Sequence[Any]:
    if kind is None:
        return [value] * count
    return list(map(conversions[kind], next(numbers))) if kind in conversions else next(numbers)
