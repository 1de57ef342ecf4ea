"""Writers of requests, made from schemas: one writer for each version, with one function for each field.

A struct is a mapping by names. A field that the mapping lacks takes its default, and one that the version lacks is left
out, so one mapping serves every version.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from kcoord.protocol.schema.messages import NUMBERS, Field, Fields
from kcoord.protocol.varint import uvarint

Write = Callable[[bytearray, Any], None]

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NO_ID: Final = bytes(16)


def struct_writer(fields: Fields, version: int, *, is_flexible: bool) -> Write:
    """Returns a writer of structs with these fields."""
    present = [
        (each.name, each.default, _field_writer(each, version, is_flexible)) for each in fields if each.is_in(version)
    ]

    def write(out: bytearray, values: Mapping[str, Any]) -> None:
        for name, default, write_field in present:
            write_field(out, values.get(name, default))
        if is_flexible:
            out.append(0)  # No tagged fields.

    return write


def _field_writer(field: Field, version: int, is_flexible: bool) -> Write:
    write_one = _value_writer(field, version, is_flexible)
    if not field.is_array:
        return write_one
    write_length = _length_writer(_INT32, is_flexible)

    def write_all(out: bytearray, values: Any) -> None:
        assert values is not None or field.is_nullable(version), f"{field.name} is never null"
        write_length(out, values)
        for value in values or ():
            write_one(out, value)

    return write_all


def _value_writer(field: Field, version: int, is_flexible: bool) -> Write:
    match field.type:
        case "{}":
            return struct_writer(field.fields, version, is_flexible=is_flexible)
        case "string":
            return _text_writer(field, version, _length_writer(_INT16, is_flexible))
        case "bytes":
            return _text_writer(field, version, _length_writer(_INT32, is_flexible))
        case "uuid":
            return _write_id
        case _:
            return _number_writer(Struct(">" + NUMBERS[field.type]))


def _length_writer(fixed: Struct, is_flexible: bool) -> Write:
    """Returns a writer of lengths, where null is -1."""

    def write_fixed(out: bytearray, value: Any) -> None:
        out += fixed.pack(-1 if value is None else len(value))

    def write_compact(out: bytearray, value: Any) -> None:
        out += uvarint(0 if value is None else len(value) + 1)

    return write_compact if is_flexible else write_fixed


def _text_writer(field: Field, version: int, write_length: Write) -> Write:
    may_be_null = field.is_nullable(version) and not field.is_array

    def write(out: bytearray, value: str | bytes | None) -> None:
        assert value is not None or may_be_null, f"{field.name} is never null"
        content = value.encode() if isinstance(value, str) else value
        write_length(out, content)
        out += content or b""

    return write


def _number_writer(fixed: Struct) -> Write:
    def write(out: bytearray, value: int) -> None:
        out += fixed.pack(value)

    return write


def _write_id(out: bytearray, value: bytes | None) -> None:
    out += value or _NO_ID
