"""The codec of records of `__consumer_offsets`: bytes to plain values under Kafka's names and back.

A struct is a dict that always has every field of its schema: a field that the version lacks is there with its default,
as in Kafka's own classes. Arrays are tuples, a uuid is a UUID, bytes are bytes.

Any bytes may come, and give values or an UnreadableRecord. What Kafka tolerates is tolerated here too: unknown tagged
fields, bytes behind the last field (CoordinatorRecordSerde), and bytes in a string that are no UTF-8.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from uuid import UUID

from kcoord.exceptions import CorruptData
from kcoord.offsets_log.record_schemas import RECORD_TYPES
from kcoord.protocol.schema.notation import Field, Fields, Schema
from kcoord.protocol.schema.readers import BadLength, Form, Read, schema_reader
from kcoord.protocol.varint import BadVarint

__all__ = [
    "CorruptRecord",
    "UnknownType",
    "UnknownVersion",
    "UnreadableRecord",
    "Values",
    "read_key",
    "read_value",
    "read_versioned",
]

Values = dict[str, Any]

_FIRST: Final = struct.Struct(">h")
_FIRST_BYTES: Final = _FIRST.size
_read_int16: Final = _FIRST.unpack_from
_SHOWN: Final = 64  # The most bytes of a malformed record in an error message.


class UnreadableRecord(CorruptData, ValueError):
    """The base of the errors for a record of `__consumer_offsets` that cannot be decoded."""


class UnknownType(UnreadableRecord):
    """Raised for a record of a type that Kafka 4.3 does not have: such records are skipped
    (UnknownRecordTypeException)."""

    def __init__(self, number: int) -> None:
        super().__init__(f"no record type has the number {number}")
        self.number = number


class UnknownVersion(UnreadableRecord):
    """Raised for a value of a version that Kafka 4.3 does not have: a newer Kafka wrote it
    (UnknownRecordVersionException)."""

    def __init__(self, what: str, version: int) -> None:
        super().__init__(f"{what} has no version {version}")
        self.version = version


class CorruptRecord(UnreadableRecord):
    """Raised for the bytes of a key or value that do not match their type and version."""


def read_key(key: bytes) -> tuple[int, Values]:
    """Decodes the key of a record of `__consumer_offsets`: returns the number of the record's type, and the fields by
    name. Raises UnknownType or CorruptRecord."""
    number = _read_first(key, "a key")
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        raise UnknownType(number)
    return number, _read_rest(_reader(record_type.key, 0), key, record_type.name)


def read_value(number: int, value: bytes) -> tuple[int, Values]:
    """Decodes the value of a record of `__consumer_offsets` of the type with this number: returns its version, and the
    fields by name. Raises UnreadableRecord."""
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        raise UnknownType(number)
    return read_versioned(record_type.value, value, what=record_type.name)


def read_versioned(schema: Schema, content: bytes, *, what: str) -> tuple[int, Values]:
    """Decodes bytes that begin with a version of this schema, such as a consumer's subscription: returns the version,
    and the fields by name. `what` names them in errors. Raises UnknownVersion or CorruptRecord."""
    version = _read_first(content, what)
    if version not in schema.versions:
        raise UnknownVersion(what, version)
    return version, _read_rest(_reader(schema, version), content, what)


def _read_first(content: bytes, what: str) -> int:
    """Reads the two bytes of the type or version."""
    try:
        number: int = _read_int16(content)[0]
    except struct.error:
        raise CorruptRecord(f"{what} of {len(content)} bytes") from None
    return number


def _read_rest(read: Read, content: bytes, what: str) -> Values:
    try:
        values: Values = read(content, _FIRST_BYTES)[0]
    except (struct.error, IndexError):
        raise CorruptRecord(f"{what} breaks off: {content[:_SHOWN].hex()}") from None
    except (BadLength, BadVarint) as error:
        raise CorruptRecord(f"{what}: {error}: {content[:_SHOWN].hex()}") from None
    return values


@cache
def _reader(schema: Schema, version: int) -> Read:
    return schema_reader(schema, version, _VALUES)


def _dict_of(fields: Fields) -> Callable[[list[Any]], Values]:
    """Returns a function that is compiled, since a display of a dict is made much sooner than dict(zip(...))."""
    items = ", ".join(f"{field.name!r}: values[{index}]" for index, field in enumerate(fields))
    make: Callable[[list[Any]], Values] = eval(f"lambda values: {{{items}}}")  # noqa: S307 - names of our own schemas
    return make


def _text(content: bytes) -> str:
    """Decodes a text. Bytes that are no UTF-8 are rare: finding them by an exception makes all others faster."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode(errors="replace")


def _uuid(content: bytes) -> UUID:
    return UUID(bytes=content)


def _bad_length(field: Field, length: int, left: int) -> str:
    return f"{field.name} claims a length of {length}, {left} bytes are left"


def _bad_tag(tag: int, size: int, left: int) -> str:
    return f"the tagged field {tag} claims {size} bytes, {left} are left"


_VALUES: Final = Form(
    struct_type=_dict_of,
    has_columns=False,
    decode=_text,
    read_id=_uuid,
    bad_length=_bad_length,
    bad_tag=_bad_tag,
)
