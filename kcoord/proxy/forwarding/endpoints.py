"""Where something listens, and how answers say so: a text and 4 bytes."""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kcoord.protocol.varint import uvarint

_LENGTH: Final = Struct(">h")
_PORT: Final = Struct(">i")


class Place(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


PlaceOf = Callable[[int], Place]
"""Where clients find the broker of an id."""


def plain(place: Place) -> bytes:
    host = place.host.encode()
    return _LENGTH.pack(len(host)) + host + _PORT.pack(place.port)


def compact(place: Place) -> bytes:
    host = place.host.encode()
    return uvarint(len(host) + 1) + host + _PORT.pack(place.port)
