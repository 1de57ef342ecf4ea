"""Zigzag varints, as records use them (ByteUtils.readVarint, readVarlong)."""

_INT_BYTES = 5
_LONG_BYTES = 10


class BadVarint(ValueError):
    """More bytes than a number of its kind has."""


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The 32-bit number at this position and the position behind it; IndexError if the buffer ends in its midst."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _INT_BYTES)


def read_varlong(buffer: bytes, position: int) -> tuple[int, int]:
    """As read_varint, for 64 bits."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, _LONG_BYTES)


def write_varint(out: bytearray, number: int) -> None:
    """For 32 and for 64 bits: the bytes are the same."""
    raw = (number << 1) ^ (number >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _read(buffer: bytes, position: int, most_bytes: int) -> tuple[int, int]:
    raw = 0
    for count in range(most_bytes):
        byte = buffer[position + count]
        raw |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + count + 1
    raise BadVarint(f"a varint of more than {most_bytes} bytes")
