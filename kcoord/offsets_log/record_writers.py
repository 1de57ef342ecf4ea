"""Writers made from schemas: one writer for each version, with one function for each field.

A writer takes the buffer to append to and a value.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kcoord.exceptions import InvalidInput
from kcoord.offsets_log.record_schemas import INTEGERS, LONGEST_STRING, Field, Fields, RecordSchema, default_of
from kcoord.protocol.varint import uvarint

Write = Callable[[bytearray, Any], None]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Unwritable(InvalidInput, ValueError):
    """A value that its field cannot hold."""


@cache
def schema_writer(schema: RecordSchema, version: int) -> Write:
    return _struct_writer(schema.fields, version, is_flexible=schema.is_flexible(version))


def _struct_writer(fields: Fields, version: int, *, is_flexible: bool) -> Write:
    present = [(field, _field_writer(field, version, is_flexible)) for field in fields if field.is_in(version)]
    plain = [(field, write) for field, write in present if field.tag is None]
    tagged = [(field, write) for field, write in present if field.tag is not None]

    def write(out: bytearray, values: Mapping[str, Any]) -> None:
        for field, write_field in plain:
            write_field(out, values[field.name] if field.name in values else default_of(field))
        if is_flexible:
            _write_tagged(out, values, [each for each in tagged if not _is_default(each[0], values)])

    return write


def _is_default(field: Field, values: Mapping[str, Any]) -> bool:
    default = default_of(field)
    value = values.get(field.name, default)
    return bool(value == default or (default == () and value == []))


def _write_tagged(out: bytearray, values: Mapping[str, Any], tagged: list[tuple[Field, Write]]) -> None:
    out += uvarint(len(tagged))
    for field, write_field in tagged:
        assert field.tag is not None
        body = bytearray()
        write_field(body, values[field.name])
        out += uvarint(field.tag) + uvarint(len(body)) + body


def _field_writer(field: Field, version: int, is_flexible: bool) -> Write:
    write_length = _length_writer(field, is_flexible)
    match field.type:
        case "struct":
            return _nullable_struct_writer(field, version, is_flexible)
        case "[]struct":
            return _array_writer(write_length, _struct_writer(field.fields, version, is_flexible=is_flexible))
        case "[]string":
            write_element = _field_writer(Field(field.name, "string"), version, is_flexible)
            return _array_writer(write_length, write_element)
        case "string":
            return _string_writer(write_length)
        case "bytes":
            return _bytes_writer(write_length)
        case "uuid":
            return _write_uuid
    if field.type.startswith("[]"):
        code = INTEGERS[field.type.removeprefix("[]")]
        return _array_writer(write_length, _integer_writer(struct.Struct(">" + code)))
    return _integer_writer(struct.Struct(">" + INTEGERS[field.type]))


def _length_writer(field: Field, is_flexible: bool) -> Write:
    fixed = _INT16 if field.type == "string" else _INT32

    def write(out: bytearray, value: Any) -> None:
        """Writes the length of the value; null is -1."""
        if value is None and not field.nullable:
            raise Unwritable(f"{field.name} is never null")
        length = -1 if value is None else len(value)
        if field.type == "string" and length > LONGEST_STRING:
            raise Unwritable(f"{field.name} is too long: {length} bytes")
        out += uvarint(length + 1) if is_flexible else fixed.pack(length)

    return write


def _string_writer(write_length: Write) -> Write:
    return _bytes_writer(write_length, lambda text: text.encode())


def _bytes_writer(write_length: Write, encode: Callable[[Any], bytes] = bytes) -> Write:
    def write(out: bytearray, value: Any) -> None:
        content = None if value is None else encode(value)
        write_length(out, content)
        if content:
            out += content

    return write


def _array_writer(write_length: Write, write_element: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        write_length(out, value)
        for element in value or ():
            write_element(out, element)

    return write


def _integer_writer(fixed: struct.Struct) -> Write:
    def write(out: bytearray, value: Any) -> None:
        out += fixed.pack(value)

    return write


def _write_uuid(out: bytearray, value: Any) -> None:
    out += value.bytes


def _nullable_struct_writer(field: Field, version: int, is_flexible: bool) -> Write:
    write_struct = _struct_writer(field.fields, version, is_flexible=is_flexible)
    null = b"\x00" if field.tag is not None else b"\xff"

    def write(out: bytearray, value: Any) -> None:
        out += null if value is None else b"\x01"
        if value is not None:
            write_struct(out, value)

    return write
