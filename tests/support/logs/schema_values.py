"""Random values of a schema, for hypothesis."""

from typing import Any, Final

from hypothesis import strategies as st

from kcoord.offsets_log.record_schemas import RECORD_TYPES, default_of
from kcoord.protocol.schema.notation import INTEGERS, Field, Fields, Schema

TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}

SCHEMAS: Final = [
    *((f"key-{each.name}", each.key) for each in RECORD_TYPES.values()),
    *((f"value-{each.name}", each.value) for each in RECORD_TYPES.values()),
]
EVERY_VERSION: Final = [(name, schema, version) for name, schema in SCHEMAS for version in schema.versions]


def values_of(schema: Schema, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Draws every field of the schema; those that the version lacks have their defaults."""
    return _struct(schema.fields, version)


def _struct(fields: Fields, version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _field(field, version) for field in fields})


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    if not field.is_in(version):
        return st.just(default_of(field))
    strategy = _plain(field, version)
    return st.none() | strategy if field.is_nullable(version) else strategy


def _plain(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.is_array:
        element = field._replace(is_array=False)
        return st.lists(_plain(element, version), max_size=3).map(tuple)
    match field.type:
        case "{}":
            return _struct(field.fields, version)
        case "string":
            return TEXTS
        case "bytes":
            return st.binary(max_size=12)
        case "uuid":
            return st.uuids()
        case "uint16":
            return st.integers(0, 2**16 - 1)
    bits = _BITS[INTEGERS[field.type]]
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
