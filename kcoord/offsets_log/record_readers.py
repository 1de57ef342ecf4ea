"""Readers made from schemas: one reader for each version, with one function for each field.

Input is not trusted: each length is compared with the bytes that are left before anything is allocated. A reader takes
the bytes and a position, and returns a value and the position behind it. Where the bytes end early it raises IndexError
or struct.error.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final
from uuid import UUID

from kcoord.exceptions import CorruptData
from kcoord.offsets_log.record_schemas import default_of
from kcoord.protocol.schema.notation import INTEGERS, LONGEST_STRING, Field, Fields, Schema
from kcoord.protocol.varint import read_uvarint

Values = dict[str, Any]
Read = Callable[[bytes, int], tuple[Any, int]]
_ReadLength = Callable[[bytes, int], tuple[int, int]]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16


class BadLength(CorruptData, ValueError):
    """A length that is not allowed."""


@cache
def schema_reader(schema: Schema, version: int) -> Read:
    return _struct_reader(schema.fields, version, is_flexible=schema.is_flexible(version))


def _struct_reader(fields: Fields, version: int, *, is_flexible: bool) -> Read:
    present = [field for field in fields if field.is_in(version)]
    plain = [(field.name, _field_reader(field, version, is_flexible)) for field in present if field.tag is None]
    tagged = {
        field.tag: (field.name, _field_reader(field, version, is_flexible))
        for field in present
        if field.tag is not None
    }
    may_lack = [field for field in fields if field.tag is not None or not field.is_in(version)]
    defaults = {field.name: default_of(field) for field in may_lack}
    fresh = [field for field in may_lack if isinstance(defaults[field.name], dict)]

    def read(content: bytes, position: int) -> tuple[Values, int]:
        values: Values = defaults.copy()
        for field in fresh:
            values[field.name] = default_of(field)
        for name, read_field in plain:
            values[name], position = read_field(content, position)
        if is_flexible:
            position = _read_tagged(values, tagged, content, position)
        return values, position

    return read


def _read_tagged(values: Values, tagged: Mapping[int, tuple[str, Read]], content: bytes, position: int) -> int:
    count, position = read_uvarint(content, position)
    for _ in range(count):
        tag, position = read_uvarint(content, position)
        size, position = read_uvarint(content, position)
        end = position + size
        if end > len(content):
            raise BadLength(f"the tagged field {tag} claims {size} bytes, {len(content) - position} are left")
        if tag in tagged:
            name, read_field = tagged[tag]
            values[name], position = read_field(content, position)
            if position != end:
                raise BadLength(f"{name} does not take the {size} bytes that it claims")
        position = end
    return position


def _field_reader(field: Field, version: int, is_flexible: bool) -> Read:
    is_nullable = field.is_nullable(version)
    if field.is_array:
        return _array_reader(field, version, is_flexible)
    match field.type:
        case "{}":
            return _nullable_struct_reader(field, version, is_flexible)
        case "string":
            return _string_reader(_string_length_reader(field.name, is_nullable, is_flexible))
        case "bytes":
            return _bytes_reader(_length_reader(field.name, is_nullable, is_flexible))
        case "uuid":
            return _read_uuid
    return _integer_reader(struct.Struct(">" + INTEGERS[field.type]))


def _array_reader(field: Field, version: int, is_flexible: bool) -> Read:
    read_length = _length_reader(field.name, field.is_nullable(version), is_flexible)
    match field.type:
        case "{}":
            return _elements_reader(read_length, _struct_reader(field.fields, version, is_flexible=is_flexible))
        case "string":
            read_string_length = _string_length_reader(field.name, is_nullable=False, is_flexible=is_flexible)
            return _elements_reader(read_length, _string_reader(read_string_length))
    return _integers_reader(read_length, INTEGERS[field.type])


def _string_length_reader(name: str, is_nullable: bool, is_flexible: bool) -> _ReadLength:
    return _length_reader(name, is_nullable, is_flexible, fixed=_INT16, most=LONGEST_STRING)


def _length_reader(
    name: str, is_nullable: bool, is_flexible: bool, *, fixed: struct.Struct = _INT32, most: int = 2**31 - 1
) -> _ReadLength:
    """Returns a reader of lengths, -1 for null if the field is nullable; never more than the bytes that are left."""
    least = -1 if is_nullable else 0

    def checked(content: bytes, length: int, position: int) -> tuple[int, int]:
        left = len(content) - position
        if least <= length <= left and length <= most:
            return length, position
        raise BadLength(f"{name} claims a length of {length}, {left} bytes are left")

    def read_fixed(content: bytes, position: int) -> tuple[int, int]:
        return checked(content, fixed.unpack_from(content, position)[0], position + fixed.size)

    def read_compact(content: bytes, position: int) -> tuple[int, int]:
        length, position = read_uvarint(content, position)
        return checked(content, length - 1, position)

    return read_compact if is_flexible else read_fixed


def _string_reader(read_length: _ReadLength) -> Read:
    def read(content: bytes, position: int) -> tuple[str | None, int]:
        length, position = read_length(content, position)
        if length < 0:
            return None, position
        end = position + length
        return content[position:end].decode(errors="replace"), end

    return read


def _bytes_reader(read_length: _ReadLength) -> Read:
    def read(content: bytes, position: int) -> tuple[bytes | None, int]:
        length, position = read_length(content, position)
        if length < 0:
            return None, position
        return content[position : position + length], position + length

    return read


def _elements_reader(read_length: _ReadLength, read_element: Read) -> Read:
    def read(content: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
        length, position = read_length(content, position)
        if length < 0:
            return None, position
        elements = []
        for _ in range(length):
            element, position = read_element(content, position)
            elements.append(element)
        return tuple(elements), position

    return read


def _integers_reader(read_length: _ReadLength, code: str) -> Read:
    size = struct.calcsize(">" + code)

    def read(content: bytes, position: int) -> tuple[tuple[int, ...] | None, int]:
        length, position = read_length(content, position)
        if length < 0:
            return None, position
        return struct.unpack_from(f">{length}{code}", content, position), position + length * size

    return read


def _integer_reader(fixed: struct.Struct) -> Read:
    unpack, size = fixed.unpack_from, fixed.size

    def read(content: bytes, position: int) -> tuple[int, int]:
        return unpack(content, position)[0], position + size

    return read


def _read_uuid(content: bytes, position: int) -> tuple[UUID, int]:
    end = position + _UUID_BYTES
    if end > len(content):
        raise IndexError
    return UUID(bytes=content[position:end]), end


def _nullable_struct_reader(field: Field, version: int, is_flexible: bool) -> Read:
    """Returns a reader of nullable structs. A byte marks null: -1 or 1, among the tagged fields 0 or 1."""
    read_struct = _struct_reader(field.fields, version, is_flexible=is_flexible)
    assert field.is_nullable(version)

    def read(content: bytes, position: int) -> tuple[Values | None, int]:
        is_null = content[position] == 0 if field.tag is not None else content[position] > 0x7F
        return (None, position + 1) if is_null else read_struct(content, position + 1)

    return read
