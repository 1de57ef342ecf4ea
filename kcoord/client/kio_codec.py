"""A client codec that uses kio's classes: requests from plain values, responses as kio's entities."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.entity_fields import Field, shape_of
from kcoord.protocol.headers import RequestHeader

_shape_of = cache(shape_of)


class KioCodec:
    """A codec of one version of any API that kio knows, made of kio's entity classes: see ClientCodec."""

    def __init__(self, api_key: int, api_version: int) -> None:
        self._api = (api_key, api_version)
        self._request_type = request_type(api_key, api_version)

    def encode_request(self, header: RequestHeader, values: Mapping[str, Any]) -> bytes:
        """Encodes the request of these field values, as a frame with its length prefix."""
        return encode_request(header, build_entity(self._request_type, values))

    def decode_response(self, frame: bytes) -> tuple[int, Any]:
        """Decodes a response frame: returns its correlation id and kio's entity. Raises CorruptMessage."""
        return decode_response(frame, *self._api)


def build_entity(entity_type: Any, values: Mapping[str, Any]) -> Any:
    """Builds an entity of kio from plain values: nested entities are dicts, and missing fields take their defaults.

    Values that the version does not have are ignored, so one call serves every version.
    """
    shape = _shape_of(entity_type)
    described = (*shape.plain, *shape.tagged)
    return entity_type(**{field.name: _built(field, values.get(field.name, field.default)) for field in described})


def _built(field: Field, value: Any) -> Any:
    if field.is_array and value is not None:
        return tuple(_built_element(field, element) for element in value)
    return _built_element(field, value)


def _built_element(field: Field, value: Any) -> Any:
    return build_entity(field.entity, value) if field.entity is not None and isinstance(value, dict) else value
