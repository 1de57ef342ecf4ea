"""A second writer of kio's entities, slow and plain, that notes the positions of lengths and tagged fields.

The tests put wrong lengths and tags at these positions. It shares no code with `kcoord.protocol.encode`, so it checks
that writer too.
"""

import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from kcoord.protocol.entity_fields import Field, shape_of
from kcoord.protocol.varint import uvarint

UNKNOWN_TAG = uvarint(7_000)
UNKNOWN_CONTENT = b"from a version to come"

Kind = Literal["int16", "int32", "uvarint"]

_formats = {
    "bool": ">?", "int8": ">b", "uint8": ">B", "int16": ">h", "uint16": ">H", "error_code": ">h", "int32": ">i",
    "uint32": ">I", "timedelta_i32": ">i", "int64": ">q", "uint64": ">Q", "float64": ">d", "timedelta_i64": ">q",
    "datetime_i64": ">q",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Length:
    """A length in a body: its position, its encoding, and how many bytes it takes."""

    position: int
    kind: Kind
    size: int


@dataclass(slots=True)
class Layout:
    """The bytes of an entity; `tag_sections` is how many sections for tagged fields it has."""

    body: bytearray = field(default_factory=bytearray)
    lengths: list[Length] = field(default_factory=list)
    tag_sections: int = 0


def lay_out(entity: Any, *, unknown_tag_at: range = range(0)) -> Layout:
    """Writes the entity, with an unknown tagged field in the sections of these numbers."""
    layout = Layout()
    _entity(layout, entity, unknown_tag_at)
    return layout


def _entity(layout: Layout, entity: Any, unknown_tag_at: range) -> None:
    shape = shape_of(type(entity))
    for described in shape.plain:
        _value(layout, described, getattr(entity, described.name), shape.is_flexible, unknown_tag_at)
    if shape.is_flexible:
        _tagged(layout, entity, unknown_tag_at)


def _tagged(layout: Layout, entity: Any, unknown_tag_at: range) -> None:
    has_unknown = layout.tag_sections in unknown_tag_at
    layout.tag_sections += 1
    shape = shape_of(type(entity))
    present = [f for f in shape.tagged if getattr(entity, f.name) not in (None, f.default)]
    layout.body += uvarint(len(present) + has_unknown)
    for described in present:
        inner = Layout(tag_sections=layout.tag_sections)
        _value(inner, described, getattr(entity, described.name), True, unknown_tag_at)
        layout.body += uvarint(described.tag or 0) + uvarint(len(inner.body))
        start = len(layout.body)
        layout.lengths += [Length(start + mark.position, mark.kind, mark.size) for mark in inner.lengths]
        layout.body += inner.body
        layout.tag_sections = inner.tag_sections
    if has_unknown:
        layout.body += UNKNOWN_TAG + uvarint(len(UNKNOWN_CONTENT)) + UNKNOWN_CONTENT


def _value(layout: Layout, described: Field, value: Any, is_flexible: bool, unknown_tag_at: range) -> None:
    if not described.is_array:
        _element(layout, described, value, is_flexible, unknown_tag_at)
        return
    _length(layout, "int32", None if value is None else len(value), is_flexible)
    for element in value or ():
        _element(layout, described, element, is_flexible, unknown_tag_at)


def _element(layout: Layout, described: Field, value: Any, is_flexible: bool, unknown_tag_at: range) -> None:
    if described.entity is not None:
        if described.is_nullable and described.tag is None and not described.is_array:
            layout.body += b"\xff" if value is None else b"\x01"
        if value is not None:
            _entity(layout, value, unknown_tag_at)
    elif described.kafka_type in ("string", "bytes", "records"):
        content = value.encode() if isinstance(value, str) else value
        kind: Kind = "int16" if described.kafka_type == "string" else "int32"
        _length(layout, kind, None if content is None else len(content), is_flexible)
        layout.body += content or b""
    else:
        layout.body += _fixed(described.kafka_type, value)


def _length(layout: Layout, kind: Kind, length: int | None, is_flexible: bool) -> None:
    written = length_bytes("uvarint" if is_flexible else kind, -1 if length is None else length)
    layout.lengths.append(Length(len(layout.body), "uvarint" if is_flexible else kind, len(written)))
    layout.body += written


def length_bytes(kind: Kind, length: int) -> bytes:
    """Encodes a length; -1 is null."""
    if kind == "uvarint":
        return uvarint(length + 1)
    return struct.pack(">h" if kind == "int16" else ">i", length)


def _fixed(kafka_type: str, value: Any) -> bytes:
    if kafka_type == "uuid":
        return bytes(16) if value is None else bytes(value.bytes)
    if isinstance(value, timedelta):
        value //= timedelta(milliseconds=1)
    elif isinstance(value, datetime):
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    elif value is None:
        value = -1
    return struct.pack(_formats[kafka_type], value)
