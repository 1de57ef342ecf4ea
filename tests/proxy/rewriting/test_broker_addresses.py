"""In every answer that may have addresses, in every version, they become the proxy's, and nothing else changes."""

import random
from collections.abc import Mapping

import pytest
from kio.index import load_response_schema
from kio.schema.index import api_key_map

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import decode_response, known_versions
from kcoord.protocol.entity_fields import shape_of
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.routes import version_limits
from kcoord.proxy.rewriting import broker_addresses as rewriting
from kcoord.proxy.rewriting.broker_addresses import find_addresses, rewritable_versions
from kcoord.proxy.rewriting.endpoints import Endpoint
from tests.proxy.answers import CORRELATION_ID, frame_of, here, moved, random_answer

BEARING = [
    (api_key, version)
    for api_key in range(200)
    for version in known_versions(api_key)
    if rewriting.may_have_addresses(api_key, version)
]
ANSWERS = 15


def rewrite(frame: bytes, api_key: int, version: int) -> bytes:
    found = find_addresses(frame, api_key, version)
    return found.rewritten(here) if found else frame


def brokers(frame: bytes, api_key: int, version: int) -> Mapping[int, Endpoint]:
    found = find_addresses(frame, api_key, version)
    return found.brokers if found else {}


def test_the_apis_that_bear_addresses_are_these() -> None:
    assert sorted({api_key for api_key, _ in BEARING}) == [0, 1, 3, 10, 60, 78, 79]


def test_no_other_answer_to_a_client_has_a_host_and_a_port() -> None:
    """The check covers all APIs of kio for clients: a new one with addresses has to be rewritten, or listed here."""
    limits = version_limits(())
    bearing = [
        (api_key, version)
        for api_key in api_key_map
        for version in known_versions(api_key)
        if version in limits.get(api_key, known_versions(api_key))
        and {"host", "port"} <= _field_names(load_response_schema(api_key, version))
    ]
    between_brokers = {52, 53, 54, 59, 82}  # Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, UpdateRaftVoter
    streams = {88, 89}  # endpoints of applications, which they announce themselves
    others = between_brokers | streams
    assert sorted(each for each in bearing if each[0] not in others) == sorted(BEARING)


def test_where_controllers_are_is_not_told() -> None:
    assert rewritable_versions(ApiKey.DESCRIBE_QUORUM) == range(2)
    assert "host" in _field_names(load_response_schema(ApiKey.DESCRIBE_QUORUM, 2))


def _field_names(entity_type: type) -> set[str]:
    shape = shape_of(entity_type)
    described = (*shape.plain, *shape.tagged)
    return {field.name for field in described}.union(
        *(_field_names(field.entity) for field in described if field.entity)
    )


@pytest.mark.parametrize(("api_key", "version"), BEARING)
def test_only_addresses_differ(api_key: int, version: int) -> None:
    rng = random.Random(f"{api_key} {version}")
    for _ in range(ANSWERS):
        answer = random_answer(api_key, version, rng)
        frame = rewrite(frame_of(api_key, version, answer), api_key, version)
        assert decode_response(frame, api_key, version) == (CORRELATION_ID, moved(answer))


@pytest.mark.parametrize(("api_key", "version"), BEARING)
def test_every_broker_of_an_answer_is_told_where_it_is(api_key: int, version: int) -> None:
    rng = random.Random(f"{api_key} {version} places")
    checked = 0
    for _ in range(ANSWERS):
        frame = frame_of(api_key, version, random_answer(api_key, version, rng))
        before = brokers(frame, api_key, version)
        after = brokers(rewrite(frame, api_key, version), api_key, version)
        checked += len(before)
        assert after == {node_id: here(node_id) for node_id in before}
    assert checked


@pytest.mark.parametrize(("api_key", "version"), BEARING)
def test_a_broken_answer_is_an_error_and_nothing_worse(api_key: int, version: int) -> None:
    rng = random.Random(f"{api_key} {version} broken")
    refused = 0
    for _ in range(ANSWERS):
        frame = bytearray(frame_of(api_key, version, random_answer(api_key, version, rng)))
        del frame[rng.randrange(len(frame)) :]
        for _ in range(rng.randrange(4)):
            if frame:
                frame[rng.randrange(len(frame))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            rewrite(bytes(frame), api_key, version)
        except CorruptMessage:
            refused += 1
    assert refused


@pytest.mark.parametrize("version", known_versions(ApiKey.FIND_COORDINATOR))
def test_a_coordinator_that_was_not_found_stays_nowhere(version: int) -> None:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    answer_type = load_response_schema(ApiKey.FIND_COORDINATOR, version)
    answer = build_entity(answer_type, {"coordinators": [{"key": "g", **nowhere}]} if version >= 4 else nowhere)
    frame = frame_of(ApiKey.FIND_COORDINATOR, version, answer)
    assert rewrite(frame, ApiKey.FIND_COORDINATOR, version) == frame


def test_versions_without_addresses_pass_even_if_nobody_knows_them() -> None:
    assert rewritable_versions(ApiKey.FETCH) == range(known_versions(ApiKey.FETCH).stop)
    assert rewritable_versions(ApiKey.METADATA) == known_versions(ApiKey.METADATA)
    assert rewritable_versions(ApiKey.HEARTBEAT) is None


def test_a_place_is_written_as_people_write_it() -> None:
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"
    assert str(Endpoint("proxy", 9092)) == "proxy:9092"
