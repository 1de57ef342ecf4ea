"""Writes any record of `__consumer_offsets` by its schema. The product writes those that it needs by templates."""

import struct
from collections.abc import Mapping
from typing import Any, Final

from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.protocol.schema.notation import Schema
from kcoord.protocol.schema.writers import schema_writer

_FIRST: Final = struct.Struct(">h")


def write_key(number: int, values: Mapping[str, Any]) -> bytes:
    """Encodes a key. Fields that are not given take their defaults."""
    return _written(RECORD_TYPES[number].key, 0, number, values)


def write_value(number: int, values: Mapping[str, Any], *, version: int | None = None) -> bytes:
    """Encodes a value, by default in the version that Kafka 4.3 writes. Fields that the version lacks are left out."""
    record_type = RECORD_TYPES[number]
    return write_versioned(record_type.value, record_type.written if version is None else version, values)


def write_versioned(schema: Schema, version: int, values: Mapping[str, Any]) -> bytes:
    """Encodes values in a version of any schema."""
    assert version in schema.versions
    return _written(schema, version, version, values)


def _written(schema: Schema, version: int, first: int, values: Mapping[str, Any]) -> bytes:
    out = bytearray(_FIRST.pack(first))
    schema_writer(schema, version)(out, values)
    return bytes(out)
