"""Frames to kio's entities and back. Every body is validated before kio reads it."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from kcoord.api_keys import ApiKey
from kcoord.protocol.encode import SplitWriter, Write, compiled_writer, split_writer
from kcoord.protocol.frames import frame_pieces, framed
from kcoord.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from kcoord.protocol.native_reader import SerialError, entity_reader
from kcoord.protocol.validate import (
    CorruptMessage,
    Search,
    Skip,
    apply_patches,
    compiled_search,
    compiled_skip,
    compiled_validator,
)

MAX_REQUEST_ELEMENTS: Final = 100_000
"""The array elements that one request may hold in all: a frame of empty strings must not become gigabytes
of objects.
"""
_NO_ELEMENT_LIMIT: Final = 2**31  # For responses: kcoord chose the server that sends them.

Read = Callable[[bytes, int], Any]


class Codec:
    """Decodes and encodes the requests and responses of one version of one Kafka API as kio's entities (kio's class per
    message and version). Each reader and writer is made when it is first used."""

    def __init__(self, api_key: int, api_version: int) -> None:
        self._request_type: Any = load_request_schema(api_key, api_version)
        self._response_type: Any = load_response_schema(api_key, api_version)
        self.request_header_version = 2 if self._request_type.__flexible__ else 1
        # ApiVersions answers with header version 0 for ever: its client does not know yet what the server speaks
        # (KIP-511).
        has_tags = self._response_type.__flexible__ and api_key != ApiKey.API_VERSIONS
        self.response_header_version = 1 if has_tags else 0

    @cached_property
    def read_request(self) -> Read:
        """The reader of request bodies: it takes a frame and the position of the body, and returns kio's entity. Raises
        CorruptMessage."""
        return validating_reader(self._request_type, MAX_REQUEST_ELEMENTS)

    def find_in_request(self, field_name: str) -> Search:
        """Returns a search for the values of this field in request bodies, which builds no entity: it gives the
        position and struct format of each."""
        return compiled_search(self._request_type, field_name)

    def find_in_response(self, field_name: str, *, last_field: str | None = None) -> Search:
        """Returns a search for the values of this field in response bodies, which builds no entity: it gives the
        position and struct format of each. It reads nothing behind `last_field`."""
        return compiled_search(self._response_type, field_name, last_field)

    @cached_property
    def read_response(self) -> Read:
        """The reader of response bodies: it takes a frame and the position of the body, and returns kio's entity.
        Raises CorruptMessage."""
        return validating_reader(self._response_type, _NO_ELEMENT_LIMIT)

    @cached_property
    def find_response_tags(self) -> Skip:
        """A function that returns the position at which the tagged fields at the end of a response body begin."""
        return compiled_skip(self._response_type)

    @cached_property
    def write_request(self) -> Write:
        """The writer of request bodies: it takes an entity, and a list that it appends bytes to."""
        return compiled_writer(self._request_type)

    @cached_property
    def write_response(self) -> Write:
        """The writer of response bodies: it takes an entity or a version-free reply, and a list that it appends bytes
        to."""
        return compiled_writer(self._response_type)

    def response_pieces(self, correlation_id: int, response: Any) -> list[bytes]:
        """Encodes a response as a frame with its length, in pieces that are to be sent one after the other; large
        pieces are not copied."""
        parts = [write_response_header(correlation_id, self.response_header_version)]
        self.write_response(response, parts)
        return frame_pieces(parts)

    def split_response_writer(self, field_name: str) -> SplitWriter:
        """Returns writers of the response body in three parts: up to this field, the field, and the rest."""
        return split_writer(self._response_type, field_name)


@cache
def codec(api_key: int, api_version: int) -> Codec:
    """Returns the codec of this version of this API, which kio must know; it is made once."""
    return Codec(api_key, api_version)


def known_versions(api_key: int) -> range:
    """Returns the versions of an API that kio can decode; none if it does not know the API."""
    name = api_key_map.get(api_key)
    versions = schema_name_map[name] if name else {}
    known = [version for version, entities in versions.items() if EntityType.request in entities]
    return range(min(known), max(known) + 1) if known else range(0)


def request_type(api_key: int, api_version: int) -> type:
    """Returns kio's class of the request in this version of this API."""
    return load_request_schema(api_key, api_version)


def response_type(api_key: int, api_version: int) -> type:
    """Returns kio's class of the response in this version of this API."""
    return load_response_schema(api_key, api_version)


def decode_request(frame: bytes, api_key: int, api_version: int) -> tuple[RequestHeader, Any]:
    """Decodes a request frame, without its length, whose API and version are known to be served: returns its header and
    kio's entity. Raises CorruptMessage."""
    request_codec = codec(api_key, api_version)
    header, position = read_request_header(frame, request_codec.request_header_version)
    return header, request_codec.read_request(frame, position)


def decode_response(frame: bytes, api_key: int, api_version: int) -> tuple[int, Any]:
    """Decodes a response frame, without its length: returns its correlation id and kio's entity. Raises
    CorruptMessage."""
    response_codec = codec(api_key, api_version)
    correlation_id, position = read_response_header(frame, response_codec.response_header_version)
    return correlation_id, response_codec.read_response(frame, position)


def encode_request(header: RequestHeader, request: Any) -> bytes:
    """Encodes kio's entity of a request, with this header, as a frame with its length."""
    request_codec = codec(header.api_key, header.api_version)
    parts = [write_request_header(header, request_codec.request_header_version)]
    request_codec.write_request(request, parts)
    return framed(parts)


def encode_response(header: RequestHeader, response: Any) -> bytes:
    """Encodes the response to a request with this header, kio's entity or a version-free reply, as a frame with its
    length."""
    return b"".join(codec(header.api_key, header.api_version).response_pieces(header.correlation_id, response))


def validating_reader(entity_type: Any, max_elements: int) -> Read:
    """Returns a reader of untrusted bodies of an entity class: it checks the bytes, which kio would trust, before it
    lets kio decode them. It raises CorruptMessage."""
    validate = compiled_validator(entity_type, max_elements)
    native_read = entity_reader(entity_type)

    def read(frame: bytes, position: int) -> Any:
        patches = validate(frame, position)
        if patches:
            frame = apply_patches(frame, patches)
        try:
            entity, _ = native_read(frame, position)
        except (SerialError, ValueError, OverflowError, TypeError) as error:
            raise CorruptMessage(f"{type(error).__name__}: {error}") from None
        return entity

    return read
