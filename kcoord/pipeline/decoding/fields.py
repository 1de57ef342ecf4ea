"""Reads the fields of a schema from many records at once, as `offsets_log.record_codec` reads them from one.

It is for schemas of numbers, texts and at most one tagged field, as those of commits are. Anything irregular (an
unknown tag, an impossible length) makes the record invalid here, which only means that it is to be read alone.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kcoord.offsets_log.record_schemas import default_of
from kcoord.pipeline.decoding.byte_columns import Cursor, Positions
from kcoord.protocol.schema.notation import INTEGERS, LONGEST_STRING, Field, Schema

UUID_BYTES: Final = 16


class Spans(NamedTuple):
    """Where a text or a uuid lies in each of many records, as starts and ends. An absent one ends where it starts."""

    starts: Positions
    ends: Positions


Column = npt.NDArray[Any] | Spans


def read_fields(schema: Schema, version: int, cursor: Cursor) -> Mapping[str, Column]:
    """Reads the fields of a schema in this version from many records at once: returns a column by field name, numbers
    or positions of texts. A field that the version lacks has its default."""
    is_flexible = schema.is_flexible(version)
    columns: dict[str, Column] = {}
    for field in schema.fields:
        if not field.is_in(version):
            columns[field.name] = _absent(field, cursor)
        elif field.tag is None:
            columns[field.name] = _read_plain(field, version, cursor, is_flexible)
    if is_flexible:
        columns |= _read_tagged([each for each in schema.fields if each.tag is not None], cursor)
    return columns


def _read_plain(field: Field, version: int, cursor: Cursor, is_flexible: bool) -> Column:
    assert not field.is_array, field.name
    if field.type in INTEGERS:
        return cursor.number(INTEGERS[field.type])
    assert field.type == "string", field.type
    assert not field.is_nullable(version), field.name
    sizes = cursor.uvarint() - 1 if is_flexible else cursor.number("h").astype(np.int64)
    cursor.require((sizes >= 0) & (sizes <= LONGEST_STRING))
    return Spans(*cursor.span(sizes))


def _read_tagged(fields: list[Field], cursor: Cursor) -> Mapping[str, Column]:
    """Reads the tagged fields, which must be none or the one that the schema has."""
    count = cursor.uvarint()
    if not fields:
        cursor.require(count == 0)
        return {}
    (field,) = fields
    assert field.type == "uuid", field.type
    assert field.tag is not None
    starts = cursor.at
    if not count.any():
        return {field.name: Spans(starts, starts)}
    tag, size = cursor.buffer.numbers("B", starts), cursor.buffer.numbers("B", np.minimum(starts + 1, cursor.ends))
    is_there = (count == 1) & (tag == field.tag) & (size == UUID_BYTES)
    cursor.require((count == 0) | is_there)
    cursor.skip(np.where(is_there, 2 + UUID_BYTES, 0))
    starts = np.where(is_there, starts + 2, starts)
    return {field.name: Spans(starts, np.where(is_there, starts + UUID_BYTES, starts))}


def _absent(field: Field, cursor: Cursor) -> Column:
    default = default_of(field)
    if field.type in INTEGERS:
        return np.full(len(cursor.at), default, np.dtype(INTEGERS[field.type]))
    return Spans(cursor.at, cursor.at)
