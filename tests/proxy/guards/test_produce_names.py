"""The names in a Produce request are found without reading its records."""

import random

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import encode_request, known_versions, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.guards.produce_names import names_in_produce
from tests.proxy.forwarding_scene import request
from tests.support.entities import random_entity


@pytest.mark.parametrize("version", known_versions(ApiKey.PRODUCE))
def test_every_name_of_any_request_is_in_what_is_found(version: int) -> None:
    rng = random.Random(version)
    for _ in range(200):
        entity = random_entity(request_type(ApiKey.PRODUCE, version), rng)
        frame = encode_request(RequestHeader(ApiKey.PRODUCE, version, 7, "client"), entity)[4:]
        found = names_in_produce(frame, version)
        names = [
            topic.name.encode() if hasattr(topic, "name") else topic.topic_id.bytes
            for topic in entity.topic_data
            if getattr(topic, "topic_id", topic) is not None
        ]
        names += [entity.transactional_id.encode()] if entity.transactional_id else []
        assert all(name in found for name in names)


@pytest.mark.parametrize("version", range(9, known_versions(ApiKey.PRODUCE).stop))
def test_records_are_not_in_what_is_found(version: int) -> None:
    frame = _produced(version, b"__journal" * 1000)
    assert b"__journal" not in names_in_produce(frame, version)


@pytest.mark.parametrize("version", known_versions(ApiKey.PRODUCE))
def test_a_request_that_ends_too_early_or_goes_on_is_searched_whole(version: int) -> None:
    frame = _produced(version, b"records")
    for broken in (frame[:-1], frame[:-9], frame[:11], frame + b"x"):
        assert names_in_produce(broken, version) == broken


def _produced(version: int, records: bytes) -> bytes:
    parts = [{"index": 0, "records": records}] * 2
    topics = [{"name": "t", "partition_data": parts}] * 2
    return request(ApiKey.PRODUCE, version, 1, acks=1, topic_data=topics)[4:]
