"""The codecs of record batches, in the framings that Kafka's Java client reads and writes.

| codec  | framing                                                                            |
|--------|------------------------------------------------------------------------------------|
| gzip   | RFC 1952                                                                           |
| snappy | xerial's: a magic, two versions, then blocks, each behind its size; a raw block is read too (librdkafka) |
| lz4    | the LZ4 frame with independent blocks: Java's Lz4BlockInputStream reads no others  |
| zstd   | a Zstandard frame                                                                  |

A batch's claims about its size are not trusted: decompression writes into a buffer that grows up to the limit.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

import cramjam

from kcoord.exceptions import CorruptData


class Codec(IntEnum):
    """The compression types of record batches, by their numbers in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BadCompression(CorruptData, ValueError):
    """Raised for bytes that cannot be decompressed."""


class DecompressedTooLarge(BadCompression):
    """Raised for a batch that decompresses to more than the limit."""


class _DecompressInto(Protocol):
    def __call__(self, source: bytes | memoryview, target: bytearray, /) -> int: ...


def compress(codec: Codec, plain: bytes) -> bytes:
    """Compresses a batch's records, in the framing that Kafka's Java client uses."""
    return _COMPRESS[codec](plain)


def decompress(codec: Codec, packed: bytes | memoryview, *, limit: int) -> bytes:
    """Decompresses a batch's records to at most `limit` bytes. Raises BadCompression, or DecompressedTooLarge over the
    limit."""
    match codec:
        case Codec.NONE:
            return bytes(packed)
        case Codec.SNAPPY:
            return _decompress_snappy(packed, limit)
        case Codec.GZIP:
            return _decompress_growing(cramjam.gzip.decompress_into, packed, limit)
        case Codec.LZ4:
            return _decompress_growing(cramjam.lz4.decompress_into, packed, limit)
        case Codec.ZSTD:
            return _decompress_growing(cramjam.zstd.decompress_into, packed, limit)


_FIRST_GUESS = 64 * 1024
_OVERFLOW = "failed to write whole buffer"


def _decompress_growing(decompress_into: _DecompressInto, packed: bytes | memoryview, limit: int) -> bytes:
    # cramjam's streaming decompressors return all output, so only a buffer of fixed size bounds them.
    room = min(limit, max(_FIRST_GUESS, 8 * len(packed)))
    while True:
        target = bytearray(room)
        try:
            size = decompress_into(packed, target)
        except cramjam.DecompressionError as error:
            if str(error) != _OVERFLOW:
                raise BadCompression(str(error)) from error
            if room == limit:
                raise DecompressedTooLarge(f"decompresses to more than {limit} bytes") from error
            room = min(limit, 8 * room)
            continue
        with memoryview(target) as view:
            return bytes(view[:size])


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")


def _compress_snappy(plain: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(plain), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(packed: bytes | memoryview, limit: int) -> bytes:
    view = memoryview(packed)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    parts = []
    position, left = len(_XERIAL_HEADER), limit
    while position < len(view):
        size = _xerial_block_size(view, position)
        position += _BLOCK_SIZE.size
        parts.append(_decompress_snappy_block(view[position : position + size], left))
        position += size
        left -= len(parts[-1])
    return b"".join(parts)


def _xerial_block_size(view: memoryview, position: int) -> int:
    left = len(view) - position - _BLOCK_SIZE.size
    if left < 0:
        raise BadCompression("a snappy block is cut short")
    size: int = _BLOCK_SIZE.unpack_from(view, position)[0]
    if not 0 <= size <= left:
        raise BadCompression(f"a snappy block claims {size} bytes, {left} are left")
    return size


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        # One byte of a block yields at most 64: so a wrong size is found before it is allocated.
        if size > 64 * len(block):
            raise BadCompression(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if size > limit:
            raise DecompressedTooLarge(f"decompresses to more than {limit} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise BadCompression(str(error)) from error


# Version 1, independent blocks, no checksums, blocks of 64 KiB. The third byte is the header's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_SIZE = struct.Struct("<I")
_LZ4_STORED = 0x8000_0000
_LZ4_END = _LZ4_SIZE.pack(0)


def _compress_lz4(plain: bytes) -> bytes:
    # cramjam's own frames link their blocks, which Kafka's Java client refuses.
    parts = [_LZ4_HEADER]
    for start in range(0, len(plain), _LZ4_BLOCK):
        block = plain[start : start + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_SIZE.pack(len(packed)), packed)
        else:
            parts += (_LZ4_SIZE.pack(len(block) | _LZ4_STORED), block)
    return b"".join([*parts, _LZ4_END])


_COMPRESS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: lambda plain: plain,
    Codec.GZIP: lambda plain: bytes(cramjam.gzip.compress(plain)),
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: lambda plain: bytes(cramjam.zstd.compress(plain)),
}
