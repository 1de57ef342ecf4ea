"""Headers of requests and responses."""

from struct import Struct, error
from typing import Final, NamedTuple

from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.tagged_fields import skip_tagged_fields
from kcoord.protocol.varint import BadVarint

_FIXED: Final = Struct(">hhi")
_LENGTH: Final = Struct(">h")
CORRELATION_ID: Final = Struct(">i")
_LONG_FIELD: Final = "a tagged field longer than its header"


class RequestHeader(NamedTuple):
    """The header of a Kafka request. The client id is None if it is null or the header version has none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def read_request_start(frame: bytes) -> RequestHeader:
    """Decodes the part of a request header that every header version has, for a request whose API or version is
    unknown: the client id is left out. Raises CorruptMessage."""
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
    except error:
        raise CorruptMessage("a frame too short for a request header") from None
    return RequestHeader(api_key, api_version, correlation_id)


def read_request_header(frame: bytes, header_version: int) -> tuple[RequestHeader, int]:
    """Decodes the header of a request frame, and returns it with the position of the body. Tagged fields are skipped:
    none is defined. Raises CorruptMessage."""
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
        client_id, position = _read_client_id(frame) if header_version >= 1 else (None, _FIXED.size)
        if header_version >= 2:
            position = skip_tagged_fields(frame, position)
    except (BadVarint, IndexError, error):
        raise CorruptMessage("the request header ends too early") from None
    if position > len(frame):
        raise CorruptMessage(_LONG_FIELD)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def write_request_header(header: RequestHeader, header_version: int) -> bytes:
    """Encodes the header of a request."""
    encoded = _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    if header_version >= 1:
        client_id = None if header.client_id is None else header.client_id.encode()
        encoded += _LENGTH.pack(-1) if client_id is None else _LENGTH.pack(len(client_id)) + client_id
    return encoded + (b"\0" if header_version >= 2 else b"")


def read_response_header(frame: bytes, header_version: int) -> tuple[int, int]:
    """Decodes the header of a response frame, and returns the correlation id and the position of the body. Raises
    CorruptMessage."""
    try:
        (correlation_id,) = CORRELATION_ID.unpack_from(frame)
        position = skip_tagged_fields(frame, 4) if header_version >= 1 else 4
    except (BadVarint, IndexError, error):
        raise CorruptMessage("the response header ends too early") from None
    if position > len(frame):
        raise CorruptMessage(_LONG_FIELD)
    return correlation_id, position


def write_response_header(correlation_id: int, header_version: int) -> bytes:
    """Encodes the header of a response."""
    return CORRELATION_ID.pack(correlation_id) + (b"\0" if header_version >= 1 else b"")


def _read_client_id(frame: bytes) -> tuple[str | None, int]:
    (length,) = _LENGTH.unpack_from(frame, _FIXED.size)
    start = _FIXED.size + _LENGTH.size
    if length < 0:
        return None, start
    if start + length > len(frame):
        raise CorruptMessage("a client id longer than its frame")
    # As Kafka does, malformed text is read with replacement characters: a client id is a label, not a name.
    return frame[start : start + length].decode(errors="replace"), start + length
