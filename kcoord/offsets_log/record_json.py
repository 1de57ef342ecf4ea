"""Values of records as JSON, as Kafka's tools show them.

A field is there if its version has it; a tagged one only if it is not its default. A uuid is its 22 characters in
base64, bytes are base64 too. For a classic group of consumers, the members' subscriptions and assignments are decoded
as well.
"""

import base64
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from kcoord.offsets_log.record_codec import UnreadableRecord, Values, read_versioned
from kcoord.offsets_log.record_schemas import (
    CONSUMER_ASSIGNMENT,
    CONSUMER_SUBSCRIPTION,
    GROUP_METADATA,
    RECORD_TYPES,
    default_of,
)
from kcoord.protocol.schema.notation import Field, Fields, Schema
from kcoord.protocol.uuids import format_uuid

Json = Any
_Format = Callable[[Any], Json]


def key_json(number: int, key: Values) -> Json:
    """Formats the decoded key of a record of `__consumer_offsets` as JSON, as kafka-dump-log shows it."""
    return _schema_formatter(RECORD_TYPES[number].key, 0)(key)


def value_json(number: int, version: int, value: Values) -> Json:
    """Formats the decoded value of a record of `__consumer_offsets` as JSON, as kafka-dump-log shows it; the
    subscriptions and assignments of consumers are decoded too."""
    shown = _schema_formatter(RECORD_TYPES[number].value, version)(value)
    if number == GROUP_METADATA.number and value["protocolType"] == "consumer":
        for member, described in zip(value["members"], shown["members"], strict=True):
            described["subscription"] = _embedded_json(CONSUMER_SUBSCRIPTION, member["subscription"])
            described["assignment"] = _embedded_json(CONSUMER_ASSIGNMENT, member["assignment"])
    return shown


def base64_of(content: bytes) -> str:
    """Returns the bytes in base64, as text."""
    return base64.b64encode(content).decode()


def _embedded_json(schema: Schema, content: bytes) -> Json:
    """Formats a subscription or an assignment. Consumers may use their own format, which stays base64
    (OffsetsMessageParser).
    """
    try:
        version, values = read_versioned(schema, content, what="a consumer's bytes")
    except UnreadableRecord:
        return base64_of(content)
    return _schema_formatter(schema, version)(values)


@cache
def _schema_formatter(schema: Schema, version: int) -> _Format:
    return _struct_formatter(schema.fields, version)


def _struct_formatter(fields: Fields, version: int) -> _Format:
    """Returns a formatter of structs of this version."""
    present = [(field, _field_formatter(field, version)) for field in fields if field.is_in(version)]
    plain = [(field.name, show) for field, show in present if field.tag is None]
    tagged = [(field.name, default_of(field), show) for field, show in present if field.tag is not None]

    def show(values: Values) -> Json:
        shown = {name: show_value(values[name]) for name, show_value in plain}
        for name, default, show_value in tagged:
            if values[name] != default:
                shown[name] = show_value(values[name])
        return shown

    return show


def _field_formatter(field: Field, version: int) -> _Format:
    match field.type:
        case "{}" if field.is_array:
            show_element = _struct_formatter(field.fields, version)
            return _unless_null(lambda elements: [show_element(element) for element in elements])
        case "{}":
            return _unless_null(_struct_formatter(field.fields, version))
        case "bytes":
            return _unless_null(base64_of)
        case "uuid":
            return _uuid_json
        case _:
            return _as_it_is


def _unless_null(show: _Format) -> _Format:
    return lambda value: None if value is None else show(value)


def _uuid_json(value: UUID) -> Json:
    return format_uuid(value.bytes)


def _as_it_is(value: Any) -> Json:
    return list(value) if isinstance(value, tuple) else value
