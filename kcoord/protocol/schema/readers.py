"""Readers of messages and records, made from schemas: one reader for each version, with one step for each field.

A step takes the bytes, a position and the values so far; it appends its values and returns the position behind them.
Adjacent fields of fixed size are one step, and so are adjacent texts. A struct has all fields of its schema: one that
the version does not have, or a tagged one that is not there, has its default.

Input is not trusted: each length is compared with the bytes that are left before anything is allocated. A reader raises
BadLength, BadVarint, UnicodeDecodeError, KeyError for an unknown error code, and IndexError or struct.error where the
bytes end early.

A start reads a million records and a snapshot as many rows, so the steps are written for speed: the usual case of a
text is read in the step itself, anything else by a slower step that checks all.

What differs between messages and records is a Form: `message_readers` and `offsets_log.record_codec` have one each.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple

from kcoord.errors import ErrorCode
from kcoord.exceptions import CorruptData
from kcoord.protocol.schema.columns import MIN_ROWS, columnar_reader
from kcoord.protocol.schema.notation import LONGEST_STRING, NEVER, NUMBERS, Field, Fields, Schema
from kcoord.protocol.schema.pairs import is_pair, pairs_reader
from kcoord.protocol.varint import read_uvarint

Read = Callable[[bytes, int], tuple[Any, int]]
_Step = Callable[[bytes, int, list[Any]], int]
_ReadAll = Callable[[bytes, int, int], tuple[Any, int]]
_ReadLength = Callable[[bytes, int], tuple[int, int]]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LONGEST: Final = 2**31 - 1
_ERRORS: Final = {code.value: code for code in ErrorCode}


class BadLength(CorruptData, ValueError):
    """Raised for the length of a text, an array or a tagged field that is negative, too large, or more than the bytes
    that are left."""


class Form(NamedTuple):
    """The Python values that a reader makes, and the words of its errors."""

    struct_type: Callable[[Fields], Callable[[list[Any]], Any]]
    """Returns what makes a struct of the values of its fields, which are in the order of the schema."""
    has_columns: bool
    """Whether many rows of one shape are read as ColumnarRows."""
    decode: Callable[[bytes], str]
    read_id: Callable[[bytes], Any]
    bad_length: Callable[[Field, int, int], str]
    """Describes the length of a text or an array, given the number of bytes that are left."""
    bad_tag: Callable[[int, int, int], str]
    """Describes a tagged field's size, given the number of bytes that are left."""
    lowest_null: int = -1
    """The lowest length that means null where that is allowed. Kafka's classes take any negative one for null."""


def schema_reader(schema: Schema, version: int, form: Form) -> Read:
    """Returns a reader of structs with the fields of this version. It takes the bytes and a position, and returns the
    struct and the position behind it."""
    return _Maker(version, schema.is_flexible(version), form).struct_reader(schema.fields)


class _Maker:
    """Makes the readers of one version of a schema."""

    def __init__(self, version: int, is_flexible: bool, form: Form) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self._form = form
        self._converted: Mapping[str, Callable[[Any], Any]] = {"error": _ERRORS.__getitem__, "uuid": form.read_id}

    # Structs

    def struct_reader(self, fields: Fields) -> Read:
        steps = self._steps(fields)
        tagged = self._tagged_steps(fields)
        make, bad_tag, is_flexible = self._form.struct_type(fields), self._form.bad_tag, self._is_flexible

        def read(content: bytes, position: int) -> tuple[Any, int]:
            values: list[Any] = []
            for step in steps:
                position = step(content, position, values)
            if not is_flexible:
                return make(values), position
            if content[position] == 0:
                return make(values), position + 1
            position = _read_tagged(content, position, values, tagged, bad_tag)  # It changes the values.
            return make(values), position

        return read

    def _steps(self, fields: Fields) -> list[_Step]:
        steps: list[_Step] = []
        for kind, adjacent in groupby(fields, key=self._kind):
            grouped = list(adjacent)
            steps += [self._defaults_step(grouped)] if kind == "defaults" else self._steps_of(kind, grouped)
        return steps

    def _kind(self, field: Field) -> str:
        is_read = field.tag is None and field.is_in(self._version)
        return self._type_kind(field) if is_read else "defaults"

    def _type_kind(self, field: Field) -> str:
        if field.is_array or field.type == "{}":
            return "others"
        return "numbers" if field.type in NUMBERS else "texts"

    def _steps_of(self, kind: str, fields: list[Field]) -> list[_Step]:
        match kind:
            case "numbers":
                return [self._numbers_step(fields)]
            case "texts":
                return [self._compact_texts_step(fields) if self._is_flexible else self._fixed_texts_step(fields)]
            case _:
                return [self._other_step(field) for field in fields]

    def _tagged_steps(self, fields: Fields) -> "_TaggedSteps":
        """Returns the steps of tagged fields, with the index of each among the fields."""
        tagged: _TaggedSteps = {}
        for index, field in enumerate(fields):
            if field.tag is not None and field.is_in(self._version):
                (step,) = self._steps_of(self._type_kind(field), [field])
                tagged[field.tag] = (index, field.name, step)
        return tagged

    def _defaults_step(self, fields: list[Field]) -> _Step:
        defaults = [self._default(field) for field in fields]

        def step(_: bytes, position: int, values: list[Any]) -> int:
            values += defaults
            return position

        def step_with_structs(_: bytes, position: int, values: list[Any]) -> int:
            values += [self._default(field) for field in fields]
            return position

        return step_with_structs if any(isinstance(field.default, dict) for field in fields) else step

    def _default(self, field: Field) -> Any:
        """Returns the value of a field where it is absent. A struct is a new one each time."""
        if isinstance(field.default, dict):
            return self._form.struct_type(field.fields)([self._default(each) for each in field.fields])
        return self._form.read_id(bytes(16)) if field.type == "uuid" and not field.is_array else field.default

    def _nested_step(self, field: Field) -> _Step:
        read = self.struct_reader(field.fields)
        is_nullable, is_tagged = field.is_nullable(self._version), field.tag is not None

        def step(content: bytes, position: int, values: list[Any]) -> int:
            if is_nullable:  # KIP-893: a byte comes first, negative for null; among the tagged fields 0 is null.
                marker = content[position]
                position += 1
                if marker == 0 if is_tagged else marker > 0x7F:
                    values.append(None)
                    return position
            value, position = read(content, position)
            values.append(value)
            return position

        return step

    # Fields of fixed size

    def _numbers_step(self, fields: list[Field]) -> _Step:
        fixed = struct.Struct(">" + "".join(NUMBERS[field.type] for field in fields))
        unpack, size = fixed.unpack_from, fixed.size
        converted = [
            (index - len(fields), self._converted[field.type])
            for index, field in enumerate(fields)
            if field.type in self._converted
        ]

        def step(content: bytes, position: int, values: list[Any]) -> int:
            values += unpack(content, position)
            return position + size

        def step_converting(content: bytes, position: int, values: list[Any]) -> int:
            values += unpack(content, position)
            for index, convert in converted:
                values[index] = convert(values[index])
            return position + size

        return step_converting if converted else step

    # Fields with a length

    def _other_step(self, field: Field) -> _Step:
        return self._array_step(field) if field.is_array else self._nested_step(field)

    def _fixed_texts_step(self, fields: list[Field]) -> _Step:
        """Reads strings and bytes with lengths of fixed size. Nulls and impossible lengths take a slower step."""
        decode = self._form.decode
        lengths = [_fixed_length(field) for field in fields]
        texts = [
            (field.type == "string", length.unpack_from, length.size, self._slow_text_step(field))
            for field, length in zip(fields, lengths, strict=True)
        ]

        def step(content: bytes, position: int, values: list[Any]) -> int:
            for is_string, unpack, size, read_slowly in texts:
                start = position + size
                end = start + unpack(content, position)[0]
                if start <= end <= len(content):
                    text = content[start:end]
                    values.append(decode(text) if is_string else text)
                    position = end
                else:
                    position = read_slowly(content, position, values)
            return position

        return step

    def _compact_texts_step(self, fields: list[Field]) -> _Step:
        """Reads strings and bytes with compact lengths. Nearly all lengths are one byte; others take a slower step."""
        decode = self._form.decode
        texts = [
            (field.type == "string", field.is_nullable(self._version), self._slow_text_step(field)) for field in fields
        ]

        def step(content: bytes, position: int, values: list[Any]) -> int:
            limit = len(content)
            for is_string, is_nullable, read_slowly in texts:
                size = content[position]
                end = position + size
                if 0 < size < 0x80 and end <= limit:
                    text = content[position + 1 : end]
                    values.append(decode(text) if is_string else text)
                    position = end
                elif size == 0 and is_nullable:
                    values.append(None)
                    position += 1
                else:
                    position = read_slowly(content, position, values)
            return position

        return step

    def _slow_text_step(self, field: Field) -> _Step:
        read_length, decode, is_string = self._length_reader(field), self._form.decode, field.type == "string"

        def step(content: bytes, position: int, values: list[Any]) -> int:
            length, start = read_length(content, position)
            if length < 0:
                values.append(None)
                return start
            end = start + length
            text = content[start:end]
            values.append(decode(text) if is_string else text)
            return end

        return step

    def _length_reader(self, field: Field) -> _ReadLength:
        """Returns a reader of lengths, negative for null if the field is nullable; never more than the bytes that are
        left. They are numbers of fixed size, or varints that are one more.
        """
        least = self._form.lowest_null if field.is_nullable(self._version) else 0
        fixed = _fixed_length(field)
        most = LONGEST_STRING if fixed is _INT16 else _LONGEST
        unpack, size, bad_length = fixed.unpack_from, fixed.size, self._form.bad_length

        def read_fixed(content: bytes, position: int) -> tuple[int, int]:
            length = unpack(content, position)[0]
            position += size
            if least <= length <= len(content) - position:
                return length, position
            raise BadLength(bad_length(field, length, len(content) - position))

        def read_compact(content: bytes, position: int) -> tuple[int, int]:
            length = content[position] - 1
            position += 1
            if length > 0x7E:
                length, position = read_uvarint(content, position - 1)
                length -= 1
            if least <= length <= len(content) - position and length <= most:
                return length, position
            raise BadLength(bad_length(field, length, len(content) - position))

        return read_compact if self._is_flexible else read_fixed

    # Arrays

    def _array_step(self, field: Field) -> _Step:
        read_length, read_all = self._length_reader(field), self._elements_reader(field)

        def step(content: bytes, position: int, values: list[Any]) -> int:
            count, position = read_length(content, position)
            elements, position = read_all(content, position, count) if count > 0 else ((), position)
            values.append(None if count < 0 else elements)
            return position

        return step

    def _elements_reader(self, field: Field) -> _ReadAll:
        if field.type == "{}":
            return self._structs_reader(field.fields)
        if field.type in NUMBERS:
            return _numbers_reader(NUMBERS[field.type])
        (read_text,) = self._steps_of("texts", [field._replace(is_array=False, null_since=NEVER)])

        def read_texts(content: bytes, position: int, count: int) -> tuple[Any, int]:
            values: list[Any] = []
            for _ in range(count):
                position = read_text(content, position, values)
            return tuple(values), position

        return read_texts

    def _structs_reader(self, fields: Fields) -> _ReadAll:
        read, has_columns = self.struct_reader(fields), self._form.has_columns
        read_pairs = self._pairs_reader(fields)

        @cache  # Made only if there are enough rows.
        def columnar() -> Any:
            row = self._form.struct_type(fields)
            return columnar_reader(fields, self._version, self._is_flexible, row, self._converted)

        def read_structs(content: bytes, position: int, count: int) -> tuple[Any, int]:
            if has_columns and count > MIN_ROWS and (read_columnar := columnar()):
                first, end = read(content, position)
                if rows := read_columnar(content, position, end, count, first):
                    return rows, position + count * (end - position)
            structs, position = read_pairs(content, position, count)
            for _ in range(count - len(structs)):
                each, position = read(content, position)
                structs.append(each)
            return tuple(structs), position

        return read_structs

    def _pairs_reader(self, fields: Fields) -> "_ReadAll":
        """Returns a reader of the first structs of an array: all that are common, if they are pairs."""
        if not self._is_flexible and is_pair(fields, self._version):
            return pairs_reader(self._form.struct_type(fields), self._form.decode)
        return lambda content, position, count: ([], position)


def _fixed_length(field: Field) -> struct.Struct:
    """Returns the struct of a length before the first flexible version."""
    return _INT16 if field.type == "string" and not field.is_array else _INT32


_TaggedSteps = dict[int, tuple[int, str, _Step]]


def _read_tagged(
    content: bytes, position: int, values: list[Any], tagged: _TaggedSteps, bad_tag: Callable[[int, int, int], str]
) -> int:
    """Reads the tagged fields of a struct into its values, and skips unknown ones."""
    count, position = read_uvarint(content, position)
    for _ in range(count):
        tag, position = read_uvarint(content, position)
        size, position = read_uvarint(content, position)
        end = position + size
        if end > len(content):
            raise BadLength(bad_tag(tag, size, len(content) - position))
        if tag in tagged:
            index, name, step = tagged[tag]
            found: list[Any] = []
            if step(content, position, found) != end:
                raise BadLength(f"{name} does not take the {size} bytes that it claims")
            (values[index],) = found
        position = end
    return position


def _numbers_reader(code: str) -> _ReadAll:
    size = struct.calcsize(">" + code)

    def read_numbers(content: bytes, position: int, count: int) -> tuple[Any, int]:
        return struct.unpack_from(f">{count}{code}", content, position), position + count * size

    return read_numbers
