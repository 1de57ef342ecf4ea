"""Writers of messages and records, made from schemas: one writer for each version, with one function for each field.

A writer takes the buffer to append to and a value. A struct is a mapping by names. A field that the mapping lacks takes
its default, and one that the version lacks is left out, so one mapping serves every version. An id is 16 bytes or a
UUID; None is the zero id.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kcoord.exceptions import InvalidInput
from kcoord.protocol.schema.notation import LONGEST_STRING, NUMBERS, Field, Fields, Schema
from kcoord.protocol.varint import uvarint

Write = Callable[[bytearray, Any], None]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_ID: Final = bytes(16)
_ONE_BYTE_LENGTHS: Final = 0x7F  # As compact lengths: a number of one byte is one more.


class Unwritable(InvalidInput, ValueError):
    """Raised for a value that its field cannot hold."""


@cache
def schema_writer(schema: Schema, version: int) -> Write:
    """Returns a writer of structs with the fields of this version. It raises Unwritable for a null, a text or a number
    that a field cannot hold.
    """
    write_struct = _struct_writer(schema.fields, version, schema.is_flexible(version))

    def write(out: bytearray, values: Mapping[str, Any]) -> None:
        try:
            write_struct(out, values)
        except struct.error as error:
            raise Unwritable(str(error)) from None

    return write


def _struct_writer(fields: Fields, version: int, is_flexible: bool) -> Write:
    present = [(each, _field_writer(each, version, is_flexible)) for each in fields if each.is_in(version)]
    untagged = [(field.name, field.default, write) for field, write in present if field.tag is None]
    tagged = [(field, write) for field, write in present if field.tag is not None]

    def write(out: bytearray, values: Mapping[str, Any]) -> None:
        for name, default, write_field in untagged:
            write_field(out, values.get(name, default))
        if tagged:
            _write_tagged(out, values, tagged)
        elif is_flexible:
            out.append(0)

    return write


def _write_tagged(out: bytearray, values: Mapping[str, Any], fields: list[tuple[Field, Write]]) -> None:
    """Writes the tagged fields that do not have their default."""
    written = []
    for field, write in fields:
        content = _encoded(write, values.get(field.name, field.default))
        if content != _encoded(write, field.default):
            assert field.tag is not None
            written.append(uvarint(field.tag) + uvarint(len(content)) + content)
    out += uvarint(len(written))
    out += b"".join(written)


def _encoded(write: Write, value: Any) -> bytes:
    out = bytearray()
    write(out, value)
    return bytes(out)


def _field_writer(field: Field, version: int, is_flexible: bool) -> Write:
    is_nullable = field.is_nullable(version)
    if not field.is_array:
        return _value_writer(field, version, is_nullable, is_flexible)
    write_length = _length_writer(field.name, is_nullable, is_flexible)
    write_one = _value_writer(field, version, False, is_flexible)

    def write_all(out: bytearray, values: Any) -> None:
        write_length(out, values)
        for value in values or ():
            write_one(out, value)

    return write_all


def _value_writer(field: Field, version: int, is_nullable: bool, is_flexible: bool) -> Write:
    """Returns a writer of a field that is no array, or of one element of an array."""
    match field.type:
        case "{}":
            write_struct = _struct_writer(field.fields, version, is_flexible)
            return _nullable_struct_writer(write_struct, field.tag is not None) if is_nullable else write_struct
        case "string":
            return _string_writer(field.name, is_nullable, is_flexible)
        case "bytes":
            return _bytes_writer(_length_writer(field.name, is_nullable, is_flexible))
        case "uuid":
            return _write_id
        case _:
            return _number_writer(struct.Struct(">" + NUMBERS[field.type]))


def _nullable_struct_writer(write_struct: Write, is_tagged: bool) -> Write:
    """Returns a writer that begins with a byte for null or not (KIP-893): -1 or 1, among the tagged fields 0 or 1."""
    null = b"\x00" if is_tagged else b"\xff"

    def write(out: bytearray, value: Any) -> None:
        out += null if value is None else b"\x01"
        if value is not None:
            write_struct(out, value)

    return write


def _length_writer(name: str, is_nullable: bool, is_flexible: bool, fixed: struct.Struct = _INT32) -> Write:
    """Returns a writer of the length of a value, where null is -1."""
    null = None if not is_nullable else b"\x00" if is_flexible else fixed.pack(-1)

    def write_null(out: bytearray) -> None:
        if null is None:
            raise Unwritable(f"{name} is never null")
        out += null

    def write_fixed(out: bytearray, value: Any) -> None:
        if value is None:
            write_null(out)
        else:
            out += fixed.pack(len(value))

    def write_compact(out: bytearray, value: Any) -> None:
        if value is None:
            write_null(out)
        elif len(value) < _ONE_BYTE_LENGTHS:
            out.append(len(value) + 1)
        else:
            out += uvarint(len(value) + 1)

    return write_compact if is_flexible else write_fixed


def _string_writer(name: str, is_nullable: bool, is_flexible: bool) -> Write:
    write_length = _length_writer(name, is_nullable, is_flexible, fixed=_INT16)

    def write(out: bytearray, value: str | None) -> None:
        content = None if value is None else value.encode()
        if content and len(content) > LONGEST_STRING:
            raise Unwritable(f"{name} is too long: {len(content)} bytes")
        write_length(out, content)
        if content:
            out += content

    return write


def _bytes_writer(write_length: Write) -> Write:
    def write(out: bytearray, value: bytes | None) -> None:
        write_length(out, value)
        if value:
            out += value

    return write


def _number_writer(fixed: struct.Struct) -> Write:
    def write(out: bytearray, value: int) -> None:
        out += fixed.pack(value)

    return write


def _write_id(out: bytearray, value: Any) -> None:
    out += getattr(value, "bytes", value) or _NO_ID  # The bytes of a UUID, without importing uuid in every client.
