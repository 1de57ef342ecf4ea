"""Builds the response to a refused request, for every API and version, with the error code where clients expect it.

Theory of operation. Kafka's responses carry errors at one of two levels:

    top level     one error_code for the whole request (Heartbeat, JoinGroup, EndTxn); the lists stay empty
    per element   one error_code for each requested topic, partition, group or resource (Produce, DeleteGroups)

Which of the two a version has is read from kio's classes. At the second level the response repeats the names in the
request: each response list that contains error codes mirrors a request list, and copies the fields of the same name. A
few APIs need a table of which list is mirrored; for all others it is the one of the same name, or the only one.

Newer versions have a field `error_message` with the reason as text; clients put it into their exceptions.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, response_type
from kcoord.protocol.entity_fields import Field, Shape, shape_of

_ERROR_PER_ELEMENT: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs that have a top-level error code, too, from some version on. Consumers take that one for an error of the session
or connection and retry forever, whereas the error of a partition or topic reaches the application."""

_REQUESTED: Final[Mapping[int, Callable[[Any], Iterable[object]]]] = MappingProxyType(
    {
        ApiKey.FETCH: lambda request: request.topics,
        ApiKey.ALTER_REPLICA_LOG_DIRS: lambda request: [topic for folder in request.dirs for topic in folder.topics],
        ApiKey.DESCRIBE_LOG_DIRS: lambda _: (),  # versions before 3 have no error code: an empty list is the refusal
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda request: dict.fromkeys(
            alteration.name for alteration in (*request.deletions, *request.upsertions)
        ),
    }
)
"""Returns the elements that the response lists, for APIs whose request arranges them differently."""

_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"partition_index": "partition", "topic_name": "name", "index": "partition"}
)
"""Response fields that have another name in the request."""

_BLANKS: Final[Mapping[str, object]] = MappingProxyType(
    dict.fromkeys(["base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"], -1)
)
"""Fields that Kafka sets to -1 in error responses, although its schemas do not state that default."""

_PART_OF_A_NAME: Final = "entity"  # a quota's entity: the one list that is part of a name and not of results


class Refusal(NamedTuple):
    """The error code, message and throttle time with which a guard refuses a request."""

    error: ErrorCode
    message: str
    throttle_time: timedelta = timedelta(0)
    """How long the client should wait before its next request (KIP-219)."""


def refusal_pieces(api_key: int, api_version: int, correlation_id: int, request: Any, refusal: Refusal) -> list[bytes]:
    """Encodes the response that refuses a request, as the pieces of a frame; `request` is kio's entity of the same
    version.
    """
    response = refused_response(api_key, api_version, request, refusal)
    return codec(api_key, api_version).response_pieces(correlation_id, response)


def refused_response(
    api_key: int, api_version: int, request: Any, refusal: Refusal, *, is_per_element: bool = False
) -> Any:
    """Builds kio's response entity that refuses everything in the request.

    `is_per_element` sets the error per element even if there is a top-level error code, which would concern the whole
    request.
    """
    entity_type = response_type(api_key, api_version)
    shape = _shape_of(entity_type)
    uses_elements = api_key in _ERROR_PER_ELEMENT or (
        is_per_element and any(_leads_to_error(each) for each in shape.plain)
    )
    has_error_here = _has_error(shape) and not uses_elements
    common_values = {"error_message": refusal.message, "throttle_time": refusal.throttle_time}
    values: dict[str, object] = {}
    for field in shape.plain:
        if field.is_array:
            asked = () if has_error_here or not _leads_to_error(field) else _asked(api_key, field, request)
            values[field.name] = [_element(field, each, refusal) for each in asked]
        elif field.kafka_type == "error_code":
            values[field.name] = refusal.error if has_error_here else ErrorCode.none
        else:
            values[field.name] = common_values.get(field.name) or _blank(field)
    return build_entity(entity_type, values)


def result_list(api_key: int, api_version: int) -> str:
    """Returns the name of the top-level list in an API's response that has an error code for each element of the
    request.
    """
    shape = _shape_of(response_type(api_key, api_version))
    (name,) = [field.name for field in shape.plain if field.is_array and _leads_to_error(field)]
    return name


@cache
def _shape_of(entity_type: Any) -> Shape:
    return shape_of(entity_type)


def _asked(api_key: int, field: Field, request: Any) -> Iterable[object]:
    listed = _REQUESTED.get(api_key)
    return listed(request) if listed else _mirrored(field, request)


def _mirrored(field: Field, asked: Any) -> Iterable[object]:
    """Returns the request's elements that this response list mirrors; none for null, which requests everything."""
    lists = [each.name for each in _shape_of(asked.__class__).plain if each.is_array]
    name = field.name if field.name in lists else lists[0]
    assert field.name in lists or len(lists) == 1, f"{field.name} mirrors one of {lists}"
    return getattr(asked, name) or ()


def _element(field: Field, asked: Any, refusal: Refusal) -> dict[str, object]:
    """Builds a response element for a request element, which is an entity or a bare name or number."""
    assert field.entity is not None
    shape = _shape_of(field.entity)
    has_error_here = _has_error(shape)
    values: dict[str, object] = {}
    for inner in shape.plain:
        if inner.kafka_type == "error_code":
            values[inner.name] = refusal.error
        elif inner.name == "error_message":
            values[inner.name] = refusal.message
        elif inner.is_array and not has_error_here and _leads_to_error(inner):
            values[inner.name] = [_element(inner, each, refusal) for each in _mirrored(inner, asked)]
        elif inner.is_array and inner.name != _PART_OF_A_NAME:
            values[inner.name] = []
        else:
            values[inner.name] = _copied_value(inner, asked, is_key=inner is _key(shape))
    return values


def _copied_value(field: Field, asked: Any, *, is_key: bool) -> object:
    if isinstance(asked, (int, str)):
        return asked if is_key else _blank(field)
    for name in (field.name, _OTHER_NAMES.get(field.name, "")):
        if hasattr(asked, name):
            value = getattr(asked, name)
            return _blank(field) if value is None and not field.is_nullable else value
    return _blank(field)


def _key(shape: Shape) -> Field:
    """Returns the field that names an element, for requests that have only the name or number."""
    return next(field for field in shape.plain if field.kafka_type != "error_code" and field.name != "error_message")


def _blank(field: Field) -> object:
    if field.entity is not None:
        return None if field.is_nullable else {}
    return _BLANKS.get(field.name, field.default)


def _has_error(shape: Shape) -> bool:
    return any(field.kafka_type == "error_code" for field in shape.plain)


def _leads_to_error(field: Field) -> bool:
    if field.entity is None:
        return False
    shape = _shape_of(field.entity)
    return _has_error(shape) or any(_leads_to_error(inner) for inner in shape.plain if inner.is_array)
