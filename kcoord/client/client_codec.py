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
from kcoord.protocol.schema.messages import schema_of
from kcoord.protocol.schema.notation import ApiSchema
from kcoord.protocol.schema.writers import Write, schema_writer


class ClientCodec(Protocol):
    """The interface of a codec of one version of one API: it encodes requests and decodes responses."""

    def encode_request(self, header: RequestHeader, values: Mapping[str, Any]) -> bytes:
        """Encodes the request of these field values, as a frame with its length."""

    @property
    def decode_response(self) -> Callable[[bytes], tuple[int, Any]]:
        """A function that decodes a response frame and returns its correlation id and the response. It raises
        CorruptMessage.
        """


CodecFactory = Callable[[int, int], ClientCodec]


@cache
def kio_codec(api_key: int, api_version: int) -> ClientCodec:
    """Returns the codec that uses kio's classes for this version of an API. Its responses are kio's entities."""
    from kcoord.client.kio_codec import KioCodec  # Imported here because many clients never need kio.

    return KioCodec(api_key, api_version)


@cache
def schema_codec(api_key: int, api_version: int) -> ClientCodec:
    """Returns the codec that uses our schema of this API, or kio's codec if there is no schema of this version."""
    schema = schema_of(api_key)
    if schema is None or api_version not in schema.versions:
        return kio_codec(api_key, api_version)
    return _SchemaCodec(schema, api_version)


class _SchemaCodec:
    """A codec made from a schema. Writer and reader are made when they are first needed: the reader while the broker
    works.
    """

    def __init__(self, schema: ApiSchema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._is_flexible = schema.is_flexible(version)

    def encode_request(self, header: RequestHeader, values: Mapping[str, Any]) -> bytes:
        body = bytearray()
        self._write(body, values)
        return framed([write_request_header(header, 2 if self._is_flexible else 1), bytes(body)])

    @cached_property
    def decode_response(self) -> Callable[[bytes], tuple[int, Any]]:
        header_version = 1 if self._is_flexible else 0
        read = body_reader(self._schema.response, self._version)

        def read_frame(frame: bytes) -> tuple[int, Any]:
            correlation_id, position = read_response_header(frame, header_version)
            row, _ = read(frame, position)
            return correlation_id, row

        return read_frame

    @cached_property
    def _write(self) -> Write:
        return schema_writer(self._schema.request, self._version)
