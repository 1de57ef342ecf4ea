"""Readers of messages, whose structs are rows: tuples with all fields of their schema, which are attributes as well.

There may be tens of thousands of rows. If all rows of an array have the shape of the first and no text, they are
unpacked at once and stored as columns (`schema.columns`): the offsets of a group come so, unless its members commit
metadata with them. An id is its 16 bytes, and None for the zero id.
"""

import struct
from functools import partial
from operator import itemgetter
from typing import Any, Final

from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.schema.notation import Field, Fields, Schema
from kcoord.protocol.schema.readers import BadLength, Form, Read, schema_reader
from kcoord.protocol.varint import BadVarint

_TOO_SHORT: Final = "the body ends too early"
_NO_ID: Final = bytes(16)


def body_reader(schema: Schema, version: int) -> Read:
    """Returns a reader of untrusted bytes. It raises CorruptMessage."""
    return _guarded(schema_reader(schema, version, _ROWS))


def lenient_reader(schema: Schema, version: int) -> Read:
    """Returns a reader of untrusted bytes that takes what Kafka's classes take: what is not UTF-8 in a text becomes the
    replacement character, U+FFFD, and any negative length is null where null is allowed. It raises CorruptMessage."""
    return _guarded(schema_reader(schema, version, _LENIENT_ROWS))


def _guarded(read: Read) -> Read:
    def read_body(content: bytes, position: int) -> tuple[Any, int]:
        try:
            return read(content, position)
        except (IndexError, struct.error):
            raise CorruptMessage(_TOO_SHORT) from None
        except (BadLength, BadVarint, UnicodeDecodeError, KeyError) as error:
            what = f"no error has the number {error}" if isinstance(error, KeyError) else str(error)
            raise CorruptMessage(what) from None

    return read_body


def _row_type(fields: Fields) -> type:
    """Makes a row type like a named tuple, without the code that is compiled for each of those."""
    names = {field.name: property(itemgetter(index)) for index, field in enumerate(fields)}
    return type("Row", (tuple,), {"__slots__": (), **names})


def _id(content: bytes) -> bytes | None:
    return None if content == _NO_ID else content


def _bad_length(field: Field, length: int, left: int) -> str:
    if length < -1:
        return "a negative length"
    if length < 0:
        return f"a null array of {field.name}" if field.is_array else f"{field.name} is null"
    if length <= left:
        return f"{field.name} of {length} bytes"
    return f"an array of {field.name} longer than its body" if field.is_array else _TOO_SHORT


def _bad_tag(tag: int, size: int, left: int) -> str:
    return _TOO_SHORT


_ROWS: Final = Form(
    struct_type=_row_type,
    has_columns=True,
    decode=bytes.decode,
    read_id=_id,
    bad_length=_bad_length,
    bad_tag=_bad_tag,
)
_LENIENT_ROWS: Final = _ROWS._replace(decode=partial(str, encoding="utf-8", errors="replace"), lowest_null=-(2**31))
