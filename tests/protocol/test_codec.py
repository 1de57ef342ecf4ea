"""What must hold for every API and version that kio knows, served or not."""

import io
import random
from contextlib import suppress
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import (
    MAX_REQUEST_ELEMENTS,
    codec,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kcoord.protocol.encode import compiled_writer
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.validate import CorruptMessage, compiled_validator
from tests.support.entities import random_entity

_every_version = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]


def _both(key: int, version: int) -> list[Any]:
    return [load_request_schema(key, version), load_response_schema(key, version)]


def _written(entity: Any) -> bytes:
    parts: list[bytes] = []
    entity_type: Any = type(entity)
    compiled_writer(entity_type)(entity, parts)
    return b"".join(parts)


@pytest.mark.parametrize(("key", "version"), _every_version)
def test_the_writer_writes_what_kio_writes_and_the_check_lets_it_pass(key: int, version: int) -> None:
    rng = random.Random(key * 100 + version)
    for entity_type in _both(key, version):
        for _ in range(3):
            entity = random_entity(entity_type, rng)
            by_kio = io.BytesIO()
            entity_writer(entity_type)(by_kio, entity)
            written = _written(entity)
            assert written == by_kio.getvalue()
            assert compiled_validator(entity_type, MAX_REQUEST_ELEMENTS)(written, 0) is None


@pytest.mark.parametrize(("key", "version"), _every_version)
def test_whatever_is_done_to_a_body_reading_it_ends_in_an_entity_or_a_bad_body(key: int, version: int) -> None:
    rng = random.Random(key * 100 + version)
    served = codec(key, version)
    for entity_type, read in zip(_both(key, version), (served.read_request, served.read_response), strict=True):
        good = _written(random_entity(entity_type, rng))
        for _ in range(30):
            with suppress(CorruptMessage):
                read(_mutated(good, rng), 0)
        for end in range(len(good)):
            with pytest.raises(CorruptMessage):
                read(good[:end], 0)


def _mutated(body: bytes, rng: random.Random) -> bytes:
    mutated = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(4):
            case 0:
                mutated[at : at + 1] = rng.randbytes(1)
            case 1:
                mutated[at:at] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", rng.randbytes(3)))
            case 2:
                del mutated[at : at + rng.randrange(1, 9)]
            case _:
                del mutated[at:]
    return bytes(mutated)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_unknown_tagged_fields_are_skipped_at_every_level(version: int) -> None:
    entity = random_entity(load_request_schema(ApiKey.METADATA, version), random.Random(1))
    plain = _written(entity)
    assert plain.endswith(b"\0")
    tagged = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\x7f\x00"
    assert codec(ApiKey.METADATA, version).read_request(tagged, 0) == entity


def test_an_unknown_tag_beside_a_known_one_leaves_the_known_one() -> None:
    entity = build_entity(load_request_schema(ApiKey.FETCH, 12), {"cluster_id": "c"})
    body = _written(entity)
    known = b"\x00\x02\x02c"
    assert body.endswith(b"\x01" + known)
    tagged = body[: -len(known) - 1] + b"\x02" + known + b"\x63\x02hi"
    assert codec(ApiKey.FETCH, 12).read_request(tagged, 0) == entity


def test_an_unknown_tag_in_an_array_element_is_skipped() -> None:
    # Metadata 9: an array of one topic, whose only field is the name, then its tags.
    body = b"\x02" + b"\x04abc" + b"\x01\x07\x02hi" + b"\x01\x00\x00" + b"\x00"
    entity = codec(ApiKey.METADATA, 9).read_request(body, 0)
    assert [topic.name for topic in entity.topics] == ["abc"]


@pytest.mark.fact("A-409")
@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\x00\x0f\xff\xff"])
def test_an_array_length_that_lies_is_refused_before_anything_is_allocated(length: bytes) -> None:
    with pytest.raises(CorruptMessage, match="longer than its body"):
        codec(ApiKey.METADATA, 1).read_request(length, 0)


def test_a_body_of_millions_of_empty_elements_is_refused() -> None:
    body = (MAX_REQUEST_ELEMENTS + 1).to_bytes(4) + b"\0\0" * (MAX_REQUEST_ELEMENTS + 1)
    with pytest.raises(CorruptMessage, match="array elements"):
        codec(ApiKey.METADATA, 1).read_request(body, 0)


@pytest.mark.fact("A-409")
def test_a_null_array_where_none_may_be_is_refused() -> None:
    with pytest.raises(CorruptMessage, match="a null array of topics"):
        codec(ApiKey.LIST_OFFSETS, 1).read_request(b"\xff\xff\xff\xff" * 2, 0)


def test_any_boolean_but_0_is_true_as_kafka_reads_it() -> None:
    body = b"\0\0\0\0" + b"\x02" + b"\x01" + b"\xff"
    entity = codec(ApiKey.METADATA, 8).read_request(body, 0)
    assert entity.allow_auto_topic_creation is True
    assert entity.include_topic_authorized_operations is True


def test_bytes_behind_the_body_are_ignored_as_the_broker_does() -> None:
    entity = random_entity(load_request_schema(ApiKey.METADATA, 8), random.Random(2))
    assert codec(ApiKey.METADATA, 8).read_request(_written(entity) + b"trailing", 0) == entity


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.API_VERSIONS, 4),
        (ApiKey.METADATA, 8),
        (ApiKey.METADATA, 13),
        (ApiKey.JOIN_GROUP, 9),
    ],
)
def test_requests_and_responses_come_back_from_their_frames(key: int, version: int) -> None:
    rng = random.Random(version)
    header = RequestHeader(api_key=key, api_version=version, correlation_id=5, client_id="c")
    request, response = (random_entity(entity_type, rng) for entity_type in _both(key, version))
    assert decode_request(encode_request(header, request)[4:], key, version) == (header, request)
    assert decode_response(encode_response(header, response)[4:], key, version) == (5, response)


@pytest.mark.fact("A-402")
def test_the_response_header_of_api_versions_is_always_version_0() -> None:
    assert [codec(ApiKey.API_VERSIONS, version).response_header_version for version in range(5)] == [0] * 5
    assert codec(ApiKey.METADATA, 13).response_header_version == 1
