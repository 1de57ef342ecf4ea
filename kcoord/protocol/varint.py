"""Numbers of variable length: unsigned ones for lengths and tags, zigzag ones in records.

They follow ByteUtils.readUnsignedVarint, readVarint and readVarlong.
"""

from kcoord.exceptions import CorruptData

_INT_BYTES = 5
_LONG_BYTES = 10


class BadVarint(CorruptData, ValueError):
    """Raised for a variable-length number of more bytes than its type has."""


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Decodes an unsigned 32-bit varint at this position, and returns it with the position behind it. Raises BadVarint,
    or IndexError where the buffer ends early."""
    low = buffer[position]
    if low < 0x80:
        return low, position + 1
    high = buffer[position + 1]
    if high < 0x80:
        return low & 0x7F | high << 7, position + 2
    return _read_raw(buffer, position, _INT_BYTES)


def uvarint(number: int) -> bytes:
    """Encodes an unsigned varint."""
    if 0x7F < number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Decodes a signed (zigzag) 32-bit varint at this position, and returns it with the position behind it. Raises
    BadVarint, or IndexError where the buffer ends early."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _INT_BYTES)


def read_varlong(buffer: bytes, position: int) -> tuple[int, int]:
    """Decodes a signed (zigzag) 64-bit varint at this position, and returns it with the position behind it. Raises
    BadVarint, or IndexError where the buffer ends early."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _LONG_BYTES)


def write_varint(out: bytearray, number: int) -> None:
    """Appends a signed (zigzag) varint of 32 or 64 bits to `out`: the bytes are identical."""
    out += uvarint((number << 1) ^ (number >> 63))


def _read(buffer: bytes, position: int, most_bytes: int) -> tuple[int, int]:
    raw, position = _read_raw(buffer, position, most_bytes)
    return (raw >> 1) ^ -(raw & 1), position


def _read_raw(buffer: bytes, position: int, most_bytes: int) -> tuple[int, int]:
    raw = 0
    for count in range(most_bytes):
        byte = buffer[position + count]
        raw |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return raw, position + count + 1
    raise BadVarint(f"a varint of more than {most_bytes} bytes")
