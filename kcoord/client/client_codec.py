"""How a client encodes requests and decodes responses: with kio's classes, or with schemas, which start sooner.

kio_codec        every API; responses are kio's entities
schema_codec     APIs that have a schema (protocol/schema/messages), whose responses are rows; kio for all others
"""

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, Protocol

from kcoord.protocol.frames import framed
from kcoord.protocol.headers import RequestHeader, read_response_header, write_request_header
from kcoord.protocol.schema.message_readers import body_reader
from kcoord.protocol.schema.message_writers import Write, struct_writer
from kcoord.protocol.schema.messages import Layout, layout_of


class Asking(Protocol):
    """Encodes requests and decodes responses of one version of one API."""

    def request(self, header: RequestHeader, values: Mapping[str, Any]) -> bytes:
        """Encodes the request of these field values, as a frame with its length."""

    @property
    def response(self) -> Callable[[bytes], tuple[int, Any]]:
        """A function that reads the correlation id and the response of a frame. It raises CorruptMessage."""


AskingOf = Callable[[int, int], Asking]


@cache
def by_kio(api_key: int, api_version: int) -> Asking:
    from kcoord.client.kio_codec import KioAsking  # Imported here because many clients never need kio.

    return KioAsking(api_key, api_version)


@cache
def by_layouts(api_key: int, api_version: int) -> Asking:
    layout = layout_of(api_key)
    if layout is None or api_version not in layout.versions:
        return by_kio(api_key, api_version)
    return _LayoutAsking(layout, api_version)


class _LayoutAsking:
    """A codec made from a schema. Writer and reader are made when they are first needed: the reader while the broker
    works.
    """

    def __init__(self, layout: Layout, version: int) -> None:
        self._layout = layout
        self._version = version
        self._is_flexible = layout.is_flexible(version)

    def request(self, header: RequestHeader, values: Mapping[str, Any]) -> bytes:
        body = bytearray()
        self._write(body, values)
        return framed([write_request_header(header, 2 if self._is_flexible else 1), bytes(body)])

    @cached_property
    def response(self) -> Callable[[bytes], tuple[int, Any]]:
        header_version = 1 if self._is_flexible else 0
        read = body_reader(self._layout.response, self._version, is_flexible=self._is_flexible)

        def read_frame(frame: bytes) -> tuple[int, Any]:
            correlation_id, position = read_response_header(frame, header_version)
            row, _ = read(frame, position)
            return correlation_id, row

        return read_frame

    @cached_property
    def _write(self) -> Write:
        return struct_writer(self._layout.request, self._version, is_flexible=self._is_flexible)
