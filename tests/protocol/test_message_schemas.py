"""The API schemas match kio's in every version; what they write and read is what kio writes and reads."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema

from kcoord.admin.wire import apis
from kcoord.api_keys import ApiKey
from kcoord.client.client_codec import schema_codec
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import encode_request, encode_response
from kcoord.protocol.entity_fields import Shape, shape_of
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.schema.columns import columns_of
from kcoord.protocol.schema.messages import apis_with_schema, schema_of
from kcoord.protocol.schema.notation import Fields
from kcoord.protocol.schema.writers import Unwritable
from tests.support.entities import random_entity

KAFKA_TYPES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "records": "bytes", "error_code": "error"}


def all_versions(key: int) -> range:
    schema = schema_of(key)
    assert schema
    return schema.versions


EVERY_VERSION = [(key, version) for key in apis_with_schema() for version in all_versions(key)]


def plain(value: Any) -> Any:
    """Converts a value of a kio entity to the form that schemas use."""
    match value:
        case timedelta():
            return value // timedelta(milliseconds=1)
        case UUID():
            return value.bytes
        case _:
            return value


def header_of(key: int, version: int) -> RequestHeader:
    return RequestHeader(api_key=key, api_version=version, correlation_id=7, client_id="c")


# The schemas themselves


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_every_version_of_a_schema_has_the_fields_that_kio_has(key: int, version: int) -> None:
    schema = schema_of(key)
    assert schema
    for fields, entity_type in (
        (schema.request.fields, load_request_schema(key, version)),
        (schema.response.fields, load_response_schema(key, version)),
    ):
        assert entity_type.__flexible__ is schema.is_flexible(version)
        assert_same(fields, shape_of(entity_type), version)


def assert_same(fields: Fields, shape: Shape, version: int) -> None:
    present = [field for field in fields if field.is_in(version)]
    assert [field.name for field in present] == [field.name for field in shape.plain]
    for ours, theirs in zip(present, shape.plain, strict=True):
        kind = "{}" if theirs.entity else KAFKA_TYPES.get(theirs.kafka_type, theirs.kafka_type)
        assert (ours.name, ours.type, ours.is_array) == (theirs.name, kind, theirs.is_array)
        if kind != "uuid":  # kio's entities have None for the zero id.
            assert ours.is_nullable(version) is theirs.is_nullable, ours.name
        if theirs.entity:
            assert_same(ours.fields, shape_of(theirs.entity), version)
        elif not theirs.is_array:
            assert ours.default == plain(theirs.default), ours.name


def test_every_api_of_the_admin_client_has_a_schema_in_every_version() -> None:
    for api in [api for api in vars(apis).values() if isinstance(api, apis.Api)]:
        schema = schema_of(api.key)
        assert schema, api.name
        assert schema.versions == range(api.oldest, api.newest + 1), api.name


# Writing and reading with the schemas


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_a_request_is_written_as_kio_writes_it(key: int, version: int) -> None:
    rng = random.Random(key * 100 + version)
    for _ in range(5):
        request = untagged(random_entity(load_request_schema(key, version), rng))
        header = header_of(key, version)
        assert schema_codec(key, version).encode_request(header, values_of(request)) == encode_request(header, request)


def untagged(entity: Any) -> Any:
    tagged = shape_of(type(entity)).tagged
    return replace(entity, **{field.name: field.default for field in tagged})


def values_of(entity: Any) -> dict[str, Any]:
    """Returns the fields of an entity as a caller of a client would pass them."""

    def value_of(value: Any) -> Any:
        if isinstance(value, tuple):
            return [value_of(each) for each in value]
        return values_of(value) if hasattr(value, "__flexible__") else plain(value)

    return {field.name: value_of(getattr(entity, field.name)) for field in shape_of(type(entity)).plain}


def test_a_request_without_values_has_its_defaults() -> None:
    for key, version in EVERY_VERSION:
        header = header_of(key, version)
        defaults = build_entity(load_request_schema(key, version), {})
        assert schema_codec(key, version).encode_request(header, {}) == encode_request(header, defaults)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"topics": [{"name": "n" * 32_768}]}, "name is too long: 32768 bytes"),
        ({"topics": [{"name": None}]}, "name is never null"),
    ],
)
@pytest.mark.parametrize("version", [8, 9])
def test_a_value_that_its_field_cannot_hold_is_refused_before_it_is_sent(
    version: int, values: dict[str, Any], why: str
) -> None:
    """Kafka's own clients refuse both: "'name' field is too long to be serialized"."""
    with pytest.raises(Unwritable, match=why):
        schema_codec(ApiKey.METADATA, version).encode_request(header_of(ApiKey.METADATA, version), values)


def test_values_that_a_version_does_not_have_are_left_out() -> None:
    header = header_of(ApiKey.OFFSET_FETCH, 5)
    asked = {"group_id": "g", "topics": None, "groups": [{"group_id": "g", "topics": None}], "require_stable": False}
    older = build_entity(load_request_schema(ApiKey.OFFSET_FETCH, 5), {"group_id": "g", "topics": None})
    assert schema_codec(ApiKey.OFFSET_FETCH, 5).encode_request(header, asked) == encode_request(header, older)


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_a_response_is_read_as_kio_wrote_it(key: int, version: int) -> None:
    rng = random.Random(key * 100 + version)
    for _ in range(5):
        response = random_entity(load_response_schema(key, version), rng)
        correlation_id, row = schema_codec(key, version).decode_response(frame_of(key, version, response))
        assert correlation_id == 7
        assert_row_equals(row, response)


def frame_of(key: int, version: int, response: Any) -> bytes:
    return encode_response(header_of(key, version), response)[4:]


def assert_row_equals(row: Any, entity: Any) -> None:
    for field in shape_of(type(entity)).plain:
        ours, theirs = getattr(row, field.name), getattr(entity, field.name)
        if field.entity is None or theirs is None:
            assert ours == plain(theirs), field.name
        elif not field.is_array:
            assert_row_equals(ours, theirs)
        else:
            assert len(ours) == len(theirs)
            for each, other in zip(ours, theirs, strict=True):
                assert_row_equals(each, other)


def test_what_a_version_does_not_have_is_there_with_its_default() -> None:
    response = build_entity(load_response_schema(ApiKey.OFFSET_FETCH, 2), {"topics": [offsets_of(2, metadata="m")]})
    _, row = schema_codec(ApiKey.OFFSET_FETCH, 2).decode_response(frame_of(ApiKey.OFFSET_FETCH, 2, response))
    assert (row.groups, row.error_code) == ((), ErrorCode.none)
    assert [each.committed_leader_epoch for each in row.topics[0].partitions] == [-1, -1]


# Arrays that are read as columns


def offsets_of(count: int, **values: Any) -> dict[str, Any]:
    base = {"committed_offset": 70, "committed_leader_epoch": 3, "metadata": "", "error_code": ErrorCode.none}
    return {"name": "orders", "partitions": [{"partition_index": each, **base, **values} for each in range(count)]}


def read_offsets(version: int, topic: dict[str, Any]) -> Any:
    values = {"topics": [topic], "groups": [{"group_id": "g", "topics": [topic]}]}
    response = build_entity(load_response_schema(ApiKey.OFFSET_FETCH, version), values)
    _, row = schema_codec(ApiKey.OFFSET_FETCH, version).decode_response(
        frame_of(ApiKey.OFFSET_FETCH, version, response)
    )
    ours, theirs = (row.groups[0], response.groups[0]) if version >= 8 else (row, response)
    assert_row_equals(ours.topics[0], theirs.topics[0])
    return ours.topics[0].partitions


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("metadata", ["", None, "m"])
@pytest.mark.parametrize("count", [1, 8, 9, 200])
def test_many_rows_are_read_as_one_is(version: int, metadata: str | None, count: int) -> None:
    rows = read_offsets(version, offsets_of(count, metadata=metadata))
    numbers, offsets, _, texts, errors = columns_of(rows)
    assert list(numbers) == list(range(count))
    assert (set(offsets), set(texts), set(errors)) == ({70}, {metadata}, {ErrorCode.none})


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("index", [0, 1, 30, 59])
@pytest.mark.parametrize("odd", [{"metadata": "m"}, {"metadata": None}, {"error_code": ErrorCode.not_coordinator}])
def test_a_row_that_is_not_like_the_others_is_read_as_it_is(version: int, index: int, odd: dict[str, Any]) -> None:
    topic = offsets_of(60)
    topic["partitions"][index] |= odd
    rows = read_offsets(version, topic)
    assert [list(column)[index] for column in columns_of(rows)] == list(list(rows)[index])


def test_rows_that_are_alike_may_be_gone_through_again() -> None:
    rows = read_offsets(9, offsets_of(50))
    assert list(rows) == list(rows)
    assert len(list(rows)) == len(rows) == 50


def test_rows_that_break_off_are_refused() -> None:
    response = build_entity(
        load_response_schema(ApiKey.OFFSET_FETCH, 9), {"groups": [{"group_id": "g", "topics": [offsets_of(50)]}]}
    )
    frame = frame_of(ApiKey.OFFSET_FETCH, 9, response)
    for cut in range(5, len(frame)):
        with pytest.raises(CorruptMessage):
            schema_codec(ApiKey.OFFSET_FETCH, 9).decode_response(frame[:cut])


# Responses that no broker sends


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_whatever_is_done_to_a_response_reading_it_ends_in_a_row_or_a_bad_body(key: int, version: int) -> None:
    rng = random.Random(key * 100 + version)
    asking = schema_codec(key, version)
    good = frame_of(key, version, random_entity(load_response_schema(key, version), rng))
    refused = 0
    for _ in range(100):
        try:
            asking.decode_response(mutated(good, rng))
        except CorruptMessage:
            refused += 1
    assert 0 < refused < 100, "some changes break a response, and some only change a value in it"


def mutated(frame: bytes, rng: random.Random) -> bytes:
    changed = bytearray(frame)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                changed[at:at] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", rng.randbytes(3)))
            case 2:
                del changed[at : at + rng.randrange(1, 9)]
            case _:
                del changed[at:]
    return bytes(changed)


def test_unknown_tagged_fields_are_stepped_over_at_every_level() -> None:
    # Metadata 9: no brokers, no cluster id, a controller, one topic without partitions; tags behind the topic and the
    # body.
    tags = b"\x02" + b"\x05\x03abc" + b"\xff\x7f\x00"
    topic = b"\0\0" + b"\x02t" + b"\0" + b"\x01" + bytes(4) + tags
    body = bytes(4) + b"\x01" + b"\0" + b"\0\0\0\x09" + b"\x02" + topic + bytes(4) + tags
    _, row = schema_codec(ApiKey.METADATA, 9).decode_response(bytes(4) + b"\0" + body)
    assert (row.controller_id, [each.name for each in row.topics]) == (9, ["t"])


@pytest.mark.parametrize(
    ("key", "version", "body", "why"),
    [
        (ApiKey.API_VERSIONS, 0, b"\0\0" + b"\x7f\xff\xff\xff", "an array of api_keys longer than its body"),
        (ApiKey.API_VERSIONS, 0, b"\0\0" + b"\xff\xff\xff\xff", "a null array of api_keys"),
        (ApiKey.API_VERSIONS, 0, b"\0\0" + b"\xff\xff\xff\xf0", "a negative length"),
        (ApiKey.API_VERSIONS, 0, b"\0", "the body ends too early"),
        (ApiKey.API_VERSIONS, 0, b"\x70\0" + bytes(4), "no error has the number 28672"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\0\0" + b"\0\0\0\1" + b"\xff\xff", "mechanisms is null"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\0\0" + b"\0\0\0\1" + b"\0\1\xff", "invalid start byte"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\0\0" + b"\0\0\0\1" + b"\0\7few", "the body ends too early"),
        (ApiKey.SASL_HANDSHAKE, 1, b"\0\0" + b"\0\0\0\1" + b"\0\7\xe2\x82", "the body ends too early"),
        (ApiKey.METADATA, 9, bytes(4) + b"\x01" + b"\x81\x80\x02" + bytes(32_768), "cluster_id of 32768 bytes"),
        (ApiKey.METADATA, 9, bytes(4) + b"\xff\xff\xff\xff\xff\x7f", "a varint of more than 5 bytes"),
    ],
)
def test_a_response_that_cannot_be_is_refused_with_the_reason(key: int, version: int, body: bytes, why: str) -> None:
    """A length is compared with the bytes that are left, and with the longest string, before anything is decoded, as
    Kafka's clients do: "string field clusterId had invalid length 32768".
    """
    head = bytes(4) + (b"\0" if version == 9 else b"")
    with pytest.raises(CorruptMessage, match=why):
        schema_codec(key, version).decode_response(head + body)


def test_an_api_or_a_version_without_a_schema_is_encoded_by_kio() -> None:
    header = header_of(ApiKey.DELETE_TOPICS, 4)
    request = build_entity(load_request_schema(ApiKey.DELETE_TOPICS, 4), {"topic_names": ["t"]})
    encoded = schema_codec(ApiKey.DELETE_TOPICS, 4).encode_request(header, {"topic_names": ["t"]})
    assert encoded == encode_request(header, request)
    newer = build_entity(load_response_schema(ApiKey.METADATA, 13), {})
    _, entity = schema_codec(ApiKey.METADATA, 13).decode_response(frame_of(ApiKey.METADATA, 13, newer))
    assert entity == newer
