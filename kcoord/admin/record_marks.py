"""Marks of records: enough to recognise a record in another log, without the record itself.

Headers are not part of the checksum, since a mirror may add its own. A mark can show that two logs differ. It cannot
prove that they are the same, since it holds no more than a checksum of 32 bits and a time.
"""

from dataclasses import dataclass
from struct import Struct

_LENGTH = Struct(">i")
_NULL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMark:
    """A short description of a record by which it is recognised in another log: its offset, its time in ms since 1970,
    and the checksum of its key and value.

    None stands for an unknown value: a record may have no time, and older exports hold only times. `is_append_time` is
    True if the broker set the time when it wrote the record (message.timestamp.type=LogAppendTime).
    """

    offset: int | None = None
    timestamp: int | None = None
    is_append_time: bool = False
    checksum: str | None = None


def checksum_of(key: bytes | None, value: bytes | None) -> str:
    """Computes the checksum of a record: the CRC-32C of key and value, each after its length in 4 bytes (-1: null), as
    8 hexadecimal digits."""
    from crc32c import crc32c  # imported here: the package reads its version metadata, which would delay every command

    framed = b"".join(_framed(part) for part in (key, value))
    return f"{crc32c(framed):08x}"


def _framed(part: bytes | None) -> bytes:
    return _LENGTH.pack(_NULL) if part is None else _LENGTH.pack(len(part)) + part
