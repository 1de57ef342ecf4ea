"""Marks of records: enough of a record to recognise it in another log, without the record itself.

Headers are left out of the checksum, since a mirror may add its own. A mark is for finding that two logs differ; it is
no proof that they are the same, since a checksum of 32 bits and a time are all that it has.
"""

from dataclasses import dataclass
from struct import Struct

_LENGTH = Struct(">i")
_NULL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMark:
    """The offset of a record, its time in ms since 1970, and the checksum of its key and value.

    None is what is not known: a record may have no time, and older exports hold only times. `is_append_time` is True
    where the broker set the time when it wrote the record (message.timestamp.type=LogAppendTime).
    """

    offset: int | None = None
    timestamp: int | None = None
    is_append_time: bool = False
    checksum: str | None = None


def checksum_of(key: bytes | None, value: bytes | None) -> str:
    """The CRC-32C of key and value, each after its length in 4 bytes (-1: null), as 8 hexadecimal digits."""
    from crc32c import crc32c  # imported here: the package looks up its own version, for which every command would wait

    framed = b"".join(_framed(part) for part in (key, value))
    return f"{crc32c(framed):08x}"


def _framed(part: bytes | None) -> bytes:
    return _LENGTH.pack(_NULL) if part is None else _LENGTH.pack(len(part)) + part
