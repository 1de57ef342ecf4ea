"""The answer to a refused request, for every API and version: the protocol's own error code, where clients look.

Theory of operation. Kafka's responses say in one of two places that something failed:

    top level     error_code beside the rest (Heartbeat, JoinGroup, EndTxn): the lists below stay empty
    per element   one error_code for each topic, partition, group or resource that was asked for (Produce, DeleteGroups)

Which of the two a version has is read from kio's classes. In the second case the response repeats the names of what
was asked: each list of the response that leads to an error code mirrors a list of the request, and takes over the
fields of the same name. Which list it mirrors needs no table but for a few APIs: it is the one of the same name, or
the only one.

A newer field `error_message` says in words why; clients put it into their exceptions.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kcoord.client.kio_codec import build
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import codec, response_type
from kcoord.protocol.entity_fields import Field, Shape, shape_of

_FETCH: Final = 1
_METADATA: Final = 3
_ALTER_REPLICA_LOG_DIRS: Final = 34
_DESCRIBE_LOG_DIRS: Final = 35
_ALTER_USER_SCRAM_CREDENTIALS: Final = 51

_TOLD_BELOW: Final = frozenset({_FETCH, _METADATA})
"""They have an error code at the top, too, from some version on, but consumers take that one for a matter of the
session or the connection and ask again, for ever; what is said of a partition or a topic reaches the application."""

_ASKED: Final[Mapping[int, Callable[[Any], Iterable[object]]]] = MappingProxyType(
    {
        _FETCH: lambda request: request.topics,
        _ALTER_REPLICA_LOG_DIRS: lambda request: [topic for folder in request.dirs for topic in folder.topics],
        _DESCRIBE_LOG_DIRS: lambda _: (),  # before version 3: to list no folder is to refuse
        _ALTER_USER_SCRAM_CREDENTIALS: lambda request: dict.fromkeys(
            alteration.name for alteration in (*request.deletions, *request.upsertions)
        ),
    }
)
"""What the response lists, where the request has it in another arrangement."""

_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"partition_index": "partition", "topic_name": "name", "index": "partition"}
)
"""Fields of a response that are called something else in the request."""

_BLANKS: Final[Mapping[str, object]] = MappingProxyType(
    dict.fromkeys(["base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"], -1)
)
"""Fields for which Kafka puts -1 into a response that has nothing to tell, without its schemas saying so."""

_PART_OF_A_NAME: Final = "entity"  # of a quota: the one list that is no list of results but says what was asked for


class Refusal(NamedTuple):
    error: ErrorCode
    message: str
    throttle_time: timedelta = timedelta(0)
    """How long the client shall wait before it asks anything again (KIP-219)."""


def refusal_pieces(api_key: int, api_version: int, correlation_id: int, request: Any, refusal: Refusal) -> list[bytes]:
    """The refused request's answer as the pieces of a frame; `request` is kio's entity of the same version."""
    response = refused_response(api_key, api_version, request, refusal)
    return codec(api_key, api_version).response_pieces(correlation_id, response)


def refused_response(
    api_key: int, api_version: int, request: Any, refusal: Refusal, *, is_told_below: bool = False
) -> Any:
    """kio's entity of the response that refuses all that the request asks for.

    `is_told_below`: per element also where there is an error code at the top, which would be about all of the request.
    """
    entity_type = response_type(api_key, api_version)
    shape = _shape_of(entity_type)
    is_below = api_key in _TOLD_BELOW or (is_told_below and any(_leads_to_error(each) for each in shape.plain))
    is_told_here = _has_error(shape) and not is_below
    told = {"error_message": refusal.message, "throttle_time": refusal.throttle_time}
    values: dict[str, object] = {}
    for field in shape.plain:
        if field.is_array:
            asked = () if is_told_here or not _leads_to_error(field) else _asked(api_key, field, request)
            values[field.name] = [_element(field, each, refusal) for each in asked]
        elif field.kafka_type == "error_code":
            values[field.name] = refusal.error if is_told_here else ErrorCode.none
        else:
            values[field.name] = told.get(field.name) or _blank(field)
    return build(entity_type, values)


def result_list(api_key: int, api_version: int) -> str:
    """The one list at the top of a response that has an element, with an error code, for each thing asked for."""
    shape = _shape_of(response_type(api_key, api_version))
    (name,) = [field.name for field in shape.plain if field.is_array and _leads_to_error(field)]
    return name


@cache
def _shape_of(entity_type: Any) -> Shape:
    return shape_of(entity_type)


def _asked(api_key: int, field: Field, request: Any) -> Iterable[object]:
    listed = _ASKED.get(api_key)
    return listed(request) if listed else _mirrored(field, request)


def _mirrored(field: Field, asked: Any) -> Iterable[object]:
    """What was asked for, of which this list of the response tells the outcome. A null list asks for all there is."""
    lists = [each.name for each in _shape_of(asked.__class__).plain if each.is_array]
    name = field.name if field.name in lists else lists[0]
    assert field.name in lists or len(lists) == 1, f"{field.name} mirrors one of {lists}"
    return getattr(asked, name) or ()


def _element(field: Field, asked: Any, refusal: Refusal) -> dict[str, object]:
    """One element of a list in the response, about one of the request: an entity, or a bare name or number."""
    assert field.entity is not None
    shape = _shape_of(field.entity)
    is_told_here = _has_error(shape)
    values: dict[str, object] = {}
    for inner in shape.plain:
        if inner.kafka_type == "error_code":
            values[inner.name] = refusal.error
        elif inner.name == "error_message":
            values[inner.name] = refusal.message
        elif inner.is_array and not is_told_here and _leads_to_error(inner):
            values[inner.name] = [_element(inner, each, refusal) for each in _mirrored(inner, asked)]
        elif inner.is_array and inner.name != _PART_OF_A_NAME:
            values[inner.name] = []
        else:
            values[inner.name] = _taken_over(inner, asked, is_key=inner is _key(shape))
    return values


def _taken_over(field: Field, asked: Any, *, is_key: bool) -> object:
    if isinstance(asked, (int, str)):
        return asked if is_key else _blank(field)
    for name in (field.name, _OTHER_NAMES.get(field.name, "")):
        if hasattr(asked, name):
            value = getattr(asked, name)
            return _blank(field) if value is None and not field.is_nullable else value
    return _blank(field)


def _key(shape: Shape) -> Field:
    """What names an element, of which the request has the bare name or number."""
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
