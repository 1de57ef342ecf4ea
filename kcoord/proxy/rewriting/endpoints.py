"""Endpoints (host and port) and their two encodings in answers: a string and 4 bytes."""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kcoord.endpoints import format_endpoint
from kcoord.protocol.varint import uvarint

_LENGTH: Final = Struct(">h")
_PORT: Final = Struct(">i")


class Endpoint(NamedTuple):
    """Host and port of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_endpoint(self.host, self.port)


EndpointOf = Callable[[int], Endpoint]
"""Returns the endpoint at which clients reach the broker of an id."""


def encode(endpoint: Endpoint) -> bytes:
    """Encodes an endpoint as responses of non-flexible versions have it: host with a 2-byte length, 4-byte port."""
    host = endpoint.host.encode()
    return _LENGTH.pack(len(host)) + host + _PORT.pack(endpoint.port)


def encode_compact(endpoint: Endpoint) -> bytes:
    """Encodes an endpoint as responses of flexible versions have it: host with a varint length, 4-byte port."""
    host = endpoint.host.encode()
    return uvarint(len(host) + 1) + host + _PORT.pack(endpoint.port)
