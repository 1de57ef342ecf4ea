"""Frames to kio's entities and back. Every body is validated before kio reads it."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from kcoord.protocol.encode import Around, Write, compiled_writer, writers_around
from kcoord.protocol.frames import frame_pieces, framed
from kcoord.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from kcoord.protocol.native_reader import SerialError, entity_reader
from kcoord.protocol.validate import BadBody, Search, Skip, compiled_check, compiled_search, compiled_skip, without

API_VERSIONS: Final = 18

MAX_REQUEST_ELEMENTS: Final = 100_000
"""The array elements that one request may hold in all: a frame of empty strings must not become gigabytes
of objects.
"""
_ANY_NUMBER: Final = 2**31  # For responses: kcoord chose the server that sends them.

Read = Callable[[bytes, int], Any]


class Codec:
    """Reads and writes one version of one API. Each reader and writer is made when it is first used."""

    def __init__(self, api_key: int, api_version: int) -> None:
        self._request_type: Any = load_request_schema(api_key, api_version)
        self._response_type: Any = load_response_schema(api_key, api_version)
        self.request_header_version = 2 if self._request_type.__flexible__ else 1
        # ApiVersions answers with header version 0 for ever: its client does not know yet what the server speaks
        # (KIP-511).
        has_tags = self._response_type.__flexible__ and api_key != API_VERSIONS
        self.response_header_version = 1 if has_tags else 0

    @cached_property
    def read_request(self) -> Read:
        return checked_reader(self._request_type, MAX_REQUEST_ELEMENTS)

    def find_in_request(self, field_name: str) -> Search:
        """Returns a search for the values of this field in request bodies."""
        return compiled_search(self._request_type, field_name)

    def find_in_response(self, field_name: str, *, last_field: str | None = None) -> Search:
        """Returns a search for the values of this field in response bodies; it reads nothing behind `last_field`."""
        return compiled_search(self._response_type, field_name, last_field)

    @cached_property
    def read_response(self) -> Read:
        return checked_reader(self._response_type, _ANY_NUMBER)

    @cached_property
    def tags_of_response(self) -> Skip:
        """A function that finds where the tagged fields at the end of a response begin."""
        return compiled_skip(self._response_type)

    @cached_property
    def write_request(self) -> Write:
        return compiled_writer(self._request_type)

    @cached_property
    def write_response(self) -> Write:
        return compiled_writer(self._response_type)

    def response_pieces(self, correlation_id: int, response: Any) -> list[bytes]:
        """Encodes the response as the pieces of a frame, with its length; large pieces are not copied."""
        parts = [write_response_header(correlation_id, self.response_header_version)]
        self.write_response(response, parts)
        return frame_pieces(parts)

    def write_response_around(self, field_name: str) -> Around:
        """Returns writers of the response in three parts: up to this field, the field, and the rest."""
        return writers_around(self._response_type, field_name)


@cache
def codec(api_key: int, api_version: int) -> Codec:
    """Returns the codec of a version that kio knows."""
    return Codec(api_key, api_version)


def known_versions(api_key: int) -> range:
    """Returns the versions of an API that have codecs; none if kio does not know the API."""
    name = api_key_map.get(api_key)
    versions = schema_name_map[name] if name else {}
    known = [version for version, entities in versions.items() if EntityType.request in entities]
    return range(min(known), max(known) + 1) if known else range(0)


def request_type(api_key: int, api_version: int) -> type:
    """Returns kio's class of a request."""
    return load_request_schema(api_key, api_version)


def response_type(api_key: int, api_version: int) -> type:
    """Returns kio's class of a response."""
    return load_response_schema(api_key, api_version)


def decode_request(frame: bytes, api_key: int, api_version: int) -> tuple[RequestHeader, Any]:
    """Decodes a request frame whose key and version are known to be served. Raises CorruptMessage."""
    served = codec(api_key, api_version)
    header, position = read_request_header(frame, served.request_header_version)
    return header, served.read_request(frame, position)


def decode_response(frame: bytes, api_key: int, api_version: int) -> tuple[int, Any]:
    """Decodes the correlation id and the entity of a response frame. Raises CorruptMessage."""
    asked = codec(api_key, api_version)
    correlation_id, position = read_response_header(frame, asked.response_header_version)
    return correlation_id, asked.read_response(frame, position)


def encode_request(header: RequestHeader, request: Any) -> bytes:
    """Encodes the request as a frame with its length."""
    asked = codec(header.api_key, header.api_version)
    parts = [write_request_header(header, asked.request_header_version)]
    asked.write_request(request, parts)
    return framed(parts)


def encode_response(header: RequestHeader, response: Any) -> bytes:
    """Encodes the response to a request with this header, as a frame with its length."""
    return b"".join(codec(header.api_key, header.api_version).response_pieces(header.correlation_id, response))


def checked_reader(entity_type: Any, max_elements: int) -> Read:
    """Returns a reader of untrusted bytes: it validates a body, patches it, and lets kio read it. It raises
    CorruptMessage.
    """
    check = compiled_check(entity_type, max_elements)
    native_read = entity_reader(entity_type)

    def read(frame: bytes, position: int) -> Any:
        cuts = check(frame, position)
        if cuts:
            frame = without(frame, cuts)
        try:
            entity, _ = native_read(frame, position)
        except (SerialError, ValueError, OverflowError, TypeError) as error:
            raise BadBody(f"{type(error).__name__}: {error}") from None
        return entity

    return read
