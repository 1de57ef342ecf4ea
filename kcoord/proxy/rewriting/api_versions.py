"""Limits ApiVersions answers to the versions that the proxy can forward. Pure.

| version | answer                                                                            |
|---------|-----------------------------------------------------------------------------------|
| 0       | error, array of (key, min, max)                                                   |
| 1, 2    | the same, throttle time                                                           |
| 3, 4    | compact array of (key, min, max, tags), throttle time, tags                       |
| others  | as 0, with UNSUPPORTED_VERSION: the client does not know the versions (KIP-511)   |

The bytes behind the array stay as they are. The header has no tagged fields in any version.
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.frames import CorruptMessage, framed
from kcoord.protocol.tagged_fields import skip_tagged_fields
from kcoord.protocol.varint import BadVarint, read_uvarint, uvarint

NEWEST: Final = 4
"""The newest version whose answers are known here; a request of a newer one gets UNSUPPORTED_VERSION."""

_FIRST_FLEXIBLE: Final = 3
_START: Final = Struct(">ih")  # correlation id, error
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">hhh")  # key, min, max

Limits = Mapping[int, range]
"""The versions that may be announced, by API key; APIs that are not in it keep the broker's range."""


def intersect_versions(frame: bytes, api_version: int, limits: Limits) -> bytes:
    """Returns the ApiVersions response with its version ranges cut to the limits, and without APIs whose range is then
    empty. Raises CorruptMessage.
    """
    try:
        _, code = _START.unpack_from(frame)
        if api_version < _FIRST_FLEXIBLE or code == ErrorCode.unsupported_version:
            return _intersect_fixed(frame, limits)
        return _intersect_compact(frame, limits)
    except (error, IndexError, BadVarint):
        raise CorruptMessage("an ApiVersions answer that ends too early") from None


def unsupported_version(correlation_id: int, newest: int) -> bytes:
    """Returns the response, with its length, to an ApiVersions request whose version is too new: UNSUPPORTED_VERSION,
    in version 0.
    """
    entries = _COUNT.pack(1) + _ENTRY.pack(ApiKey.API_VERSIONS, 0, newest)
    return framed([_START.pack(correlation_id, ErrorCode.unsupported_version), entries])


def _intersect_fixed(frame: bytes, limits: Limits) -> bytes:
    (count,) = _COUNT.unpack_from(frame, _START.size)
    position = _START.size + _COUNT.size
    entries = []
    for _ in range(count):
        if entry := _intersect(limits, *_ENTRY.unpack_from(frame, position)):
            entries.append(entry)
        position += _ENTRY.size
    return b"".join([frame[: _START.size], _COUNT.pack(len(entries)), *entries, frame[position:]])


def _intersect_compact(frame: bytes, limits: Limits) -> bytes:
    count, position = read_uvarint(frame, _START.size)
    entries = []
    for _ in range(count - 1):
        start, tags = position, position + _ENTRY.size
        position = skip_tagged_fields(frame, tags)
        if entry := _intersect(limits, *_ENTRY.unpack_from(frame, start)):
            entries += [entry, frame[tags:position]]
    return b"".join([frame[: _START.size], uvarint(len(entries) // 2 + 1), *entries, frame[position:]])


def _intersect(limits: Limits, key: int, oldest: int, newest: int) -> bytes:
    limit = limits.get(key)
    if limit is None:
        return _ENTRY.pack(key, oldest, newest)
    oldest, newest = max(oldest, limit.start), min(newest, limit.stop - 1)
    return _ENTRY.pack(key, oldest, newest) if oldest <= newest else b""
