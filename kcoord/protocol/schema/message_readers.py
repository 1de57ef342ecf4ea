"""Readers of responses, made from schemas: one reader for each version, with one step for each field.

A struct is read as a row: a tuple with all fields of its schema in their order, which are attributes as well. A field
that the version does not have is there with its default, so users of rows need not know the version.

A step takes the bytes, a position and the values so far; it appends its values and returns the position behind them.
Adjacent fields of fixed size are one step, and so are adjacent texts. Input is not trusted: an array claims no more
elements than there are bytes left, and a step past the end is caught late (a read beyond it raises, and the last
position is compared with the length), which is safe because positions only grow.

There may be tens of thousands of rows. If all rows of an array have the shape of the first and no text, they are
unpacked at once and stored as columns: the offsets of a group come so, unless its members commit metadata with them.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Final

from kcoord.errors import ErrorCode
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.schema.notation import NUMBERS, Field, Fields, Schema
from kcoord.protocol.varint import BadVarint, read_uvarint

Read = Callable[[bytes, int], tuple[Any, int]]
_Step = Callable[[bytes, int, list[Any]], int]

_MIN_ROWS: Final = 8  # Comparing the shapes of fewer rows does not pay.
_ERRORS: Final = {code.value: code for code in ErrorCode}
_NO_ID: Final = bytes(16)


def body_reader(schema: Schema, version: int) -> Read:
    """Returns a reader of untrusted bytes. It raises CorruptMessage."""
    read = _struct_reader(schema.fields, version, schema.is_flexible(version))

    def read_body(content: bytes, position: int) -> tuple[Any, int]:
        try:
            row, end = read(content, position)
        except (IndexError, struct.error):
            raise CorruptMessage("the body ends too early") from None
        except (BadVarint, UnicodeDecodeError, KeyError) as error:
            what = f"no error has the number {error}" if isinstance(error, KeyError) else str(error)
            raise CorruptMessage(what) from None
        if end > len(content):
            raise CorruptMessage("the body ends too early")
        return row, end

    return read_body


def _struct_reader(fields: Fields, version: int, is_flexible: bool) -> Read:
    steps = _steps(fields, version, is_flexible)
    row = _row_type(fields)

    def read(content: bytes, position: int) -> tuple[Any, int]:
        values: list[Any] = []
        for step in steps:
            position = step(content, position, values)
        return row(values), _after_tags(content, position) if is_flexible else position

    return read


def _row_type(fields: Fields) -> type:
    """Makes a row type like a named tuple, without the code that is compiled for each of those."""
    names = {field.name: property(itemgetter(index)) for index, field in enumerate(fields)}
    return type("Row", (tuple,), {"__slots__": (), **names})


def _after_tags(content: bytes, position: int) -> int:
    if content[position] == 0:
        return position + 1
    count, position = read_uvarint(content, position)
    for _ in range(count):
        _, position = read_uvarint(content, position)
        size, position = read_uvarint(content, position)
        position += size
    return position


def _steps(fields: Fields, version: int, is_flexible: bool) -> list[_Step]:
    steps: list[_Step] = []
    for kind, adjacent in groupby(fields, key=lambda field: _kind(field, version, is_flexible)):
        grouped = list(adjacent)
        match kind:
            case "numbers":
                steps.append(_run(grouped))
            case "texts":
                steps.append(_compact_texts(grouped, version))
            case "absent":
                steps += [_absent(field.default) for field in grouped]
            case _:
                steps += [_step(field, version, is_flexible) for field in grouped]
    return steps


def _kind(field: Field, version: int, is_flexible: bool) -> str:
    if not field.is_in(version):
        return "absent"
    if field.is_array or field.type == "{}":
        return "others"
    if field.type in NUMBERS:
        return "numbers"
    return "texts" if is_flexible else "others"


def _absent(default: Any) -> _Step:
    def step(_: bytes, position: int, values: list[Any]) -> int:
        values.append(default)
        return position

    return step


# Fields of fixed size


def _run(fields: list[Field]) -> _Step:
    fixed = struct.Struct(">" + "".join(NUMBERS[field.type] for field in fields))
    unpack, size = fixed.unpack_from, fixed.size
    converted = [(index - len(fields), field.type) for index, field in enumerate(fields) if field.type in _CONVERTED]

    def step(content: bytes, position: int, values: list[Any]) -> int:
        values += unpack(content, position)
        for index, kind in converted:
            values[index] = _CONVERTED[kind](values[index])
        return position + size

    return step


def _id(content: bytes) -> bytes | None:
    return None if content == _NO_ID else content


_CONVERTED: Final[dict[str, Callable[[Any], Any]]] = {"error": _ERRORS.__getitem__, "uuid": _id}


# Fields with a length


def _step(field: Field, version: int, is_flexible: bool) -> _Step:
    if field.is_array:
        return _array(field, version, is_flexible)
    if field.type == "{}":
        return _nested(field, version, is_flexible)
    return _text(field, is_nullable=field.is_nullable(version), is_flexible=is_flexible)


def _nested(field: Field, version: int, is_flexible: bool) -> _Step:
    read = _struct_reader(field.fields, version, is_flexible)
    is_nullable = field.is_nullable(version)

    def step(content: bytes, position: int, values: list[Any]) -> int:
        if is_nullable:  # KIP-893: a marker byte comes first, negative for null.
            position += 1
            if content[position - 1] > 0x7F:
                values.append(None)
                return position
        value, position = read(content, position)
        values.append(value)
        return position

    return step


def _text(field: Field, *, is_nullable: bool, is_flexible: bool) -> _Step:
    read_length = _length_reader("h" if field.type == "string" else "i", is_flexible)
    is_string = field.type == "string"

    def step(content: bytes, position: int, values: list[Any]) -> int:
        length, position = read_length(content, position)
        if length < 0:
            if not is_nullable:
                raise CorruptMessage(f"{field.name} is null")
            values.append(None)
            return position
        end = position + length
        text = content[position:end]
        values.append(text.decode() if is_string else text)
        return end

    return step


def _compact_texts(fields: list[Field], version: int) -> _Step:
    """Reads strings and bytes with compact lengths. Nearly all lengths are one byte and not null; others take a slower
    step.
    """
    texts = [
        (field.type == "string", _text(field, is_nullable=field.is_nullable(version), is_flexible=True))
        for field in fields
    ]

    def step(content: bytes, position: int, values: list[Any]) -> int:
        for is_string, read_slowly in texts:
            size = content[position]
            if 0 < size < 0x80:
                start, position = position + 1, position + size
                text = content[start:position]
                values.append(text.decode() if is_string else text)
            else:
                position = read_slowly(content, position, values)
        return position

    return step


def _length_reader(code: str, is_flexible: bool) -> Callable[[bytes, int], tuple[int, int]]:
    """Returns a reader of lengths, where null is -1: a fixed-size number, or the varint that is one more."""
    fixed = struct.Struct(">" + code)
    unpack, size = fixed.unpack_from, fixed.size

    def read_fixed(content: bytes, position: int) -> tuple[int, int]:
        length = unpack(content, position)[0]
        if length < -1:
            raise CorruptMessage("a negative length")
        return length, position + size

    def read_compact(content: bytes, position: int) -> tuple[int, int]:
        low = content[position]
        if low < 0x80:
            return low - 1, position + 1
        length, position = read_uvarint(content, position)
        return length - 1, position

    return read_compact if is_flexible else read_fixed


def _array(field: Field, version: int, is_flexible: bool) -> _Step:
    read_length = _length_reader("i", is_flexible)
    is_nullable = field.is_nullable(version)
    read_all = _elements(field, version, is_flexible)

    def step(content: bytes, position: int, values: list[Any]) -> int:
        count, position = read_length(content, position)
        if count < 0 and not is_nullable:
            raise CorruptMessage(f"a null array of {field.name}")
        if count > len(content) - position:
            raise CorruptMessage(f"an array of {field.name} longer than its body")
        elements, position = read_all(content, position, count) if count > 0 else ((), position)
        values.append(None if count < 0 else elements)
        return position

    return step


_ReadAll = Callable[[bytes, int, int], tuple[Any, int]]


def _elements(field: Field, version: int, is_flexible: bool) -> _ReadAll:
    if field.type == "{}":
        return _rows(field.fields, version, is_flexible)
    if field.type in NUMBERS:
        return _numbers(NUMBERS[field.type])
    text = _text(field, is_nullable=False, is_flexible=is_flexible)

    def read_texts(content: bytes, position: int, count: int) -> tuple[Any, int]:
        values: list[Any] = []
        for _ in range(count):
            position = text(content, position, values)
        return tuple(values), position

    return read_texts


def _numbers(code: str) -> _ReadAll:
    size = struct.calcsize(">" + code)

    def read_numbers(content: bytes, position: int, count: int) -> tuple[Any, int]:
        return struct.unpack_from(f">{count}{code}", content, position), position + count * size

    return read_numbers


# Rows


def _rows(fields: Fields, version: int, is_flexible: bool) -> _ReadAll:
    read = _struct_reader(fields, version, is_flexible)
    columnar_reader = cache(
        lambda: _columnar_reader(fields, version, is_flexible)
    )  # Made only if there are enough rows.

    def read_rows(content: bytes, position: int, count: int) -> tuple[Any, int]:
        if count > _MIN_ROWS and (read_columnar := columnar_reader()):
            first, end = read(content, position)
            if columnar := read_columnar(content, position, end, count, first):
                return columnar, position + count * (end - position)
        rows = []
        for _ in range(count):
            row, position = read(content, position)
            rows.append(row)
        return tuple(rows), position

    return read_rows


_ReadColumnar = Callable[[bytes, int, int, int, tuple[Any, ...]], "ColumnarRows | None"]


def _columnar_reader(fields: Fields, version: int, is_flexible: bool) -> _ReadColumnar | None:
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
    row = _row_type(fields)

    def read(content: bytes, start: int, end: int, count: int, first: tuple[Any, ...]) -> ColumnarRows | None:
        size = end - start
        span = content[start : start + size * count]
        is_uniform = size == whole.size and len(span) == size * count
        if not is_uniform or any(span[at::size] != span[at : at + 1] * count for at in padding):
            return None
        numbers = zip(*whole.iter_unpack(span), strict=True)
        columns = [_column(kind, numbers, value, count) for kind, value in zip(unpacked, first, strict=True)]
        return ColumnarRows(row, columns)

    return read


class ColumnarRows:
    """An array of rows, stored as columns."""

    __slots__ = ("_row", "columns")

    def __init__(self, row: type, columns: list[Sequence[Any]]) -> None:
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


def _column(kind: str | None, numbers: Iterator[tuple[Any, ...]], value: Any, count: int) -> Sequence[Any]:
    if kind is None:
        return [value] * count
    return list(map(_CONVERTED[kind], next(numbers))) if kind in _CONVERTED else next(numbers)
