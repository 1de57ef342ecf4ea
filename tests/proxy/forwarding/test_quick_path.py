"""Most frames take the fast path: they are forwarded unchanged and in one piece."""

import random
from dataclasses import replace
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_response, encode_response
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.backpressure import MAX_UNSENT_BYTES
from tests.proxy.answers import here, random_answer
from tests.proxy.forwarding_scene import RecordingInterceptor, Scene, produce, request
from tests.proxy.rewriting.test_passthrough import plain

LONG = 100_000


def fetch_answer(correlation_id: int, *, size: int, is_plain: bool = True) -> tuple[bytes, Any]:
    """Makes a Fetch answer with one partition that has so many bytes of records."""
    answers = (random_answer(ApiKey.FETCH, 18, random.Random(seed)) for seed in range(1000))
    found = next(each for each in answers if each.node_endpoints and any(topic.partitions for topic in each.responses))
    topic = next(topic for topic in found.responses if topic.partitions)
    partition = replace(plain(found).responses[found.responses.index(topic)].partitions[0], records=bytes(size))
    endpoints = () if is_plain else tuple(replace(each, node_id=1, host="h" * 60) for each in found.node_endpoints)
    entity = replace(found, responses=(replace(topic, partitions=(partition,)),), node_endpoints=endpoints)
    return encode_response(RequestHeader(ApiKey.FETCH, 18, correlation_id), entity), entity


def parts(answer: bytes) -> list[bytes]:
    """Splits an answer as a broker writes it: the head, the records, the tail."""
    return [answer[:70], answer[70:-3], answer[-3:]]


def test_a_short_fetch_answer_that_comes_in_parts_leaves_in_one_piece() -> None:
    scene = Scene()
    scene.ask(request(ApiKey.FETCH, 18, 1))
    answer, _ = fetch_answer(1, size=200)
    scene.answer(*parts(answer))
    assert scene.client_link.writes == [answer]
    assert not scene.client.pending


def test_the_next_answer_may_come_with_the_end_of_a_short_one() -> None:
    scene = Scene()
    scene.ask(request(ApiKey.FETCH, 18, 1) + request(ApiKey.FETCH, 18, 2) + request(ApiKey.FETCH, 18, 3))
    first, second, third = (fetch_answer(number, size=200 * number)[0] for number in (1, 2, 3))
    scene.answer(first[:100], first[100:] + second[:9], second[9:], third)
    assert scene.client_link.written == first + second + third
    assert not scene.client.pending


def test_a_long_fetch_answer_leaves_as_it_comes() -> None:
    scene = Scene()
    scene.ask(request(ApiKey.FETCH, 18, 1))
    answer, _ = fetch_answer(1, size=LONG)
    assert len(answer) < MAX_UNSENT_BYTES
    scene.answer(answer[:70])
    assert scene.client_link.written == answer[:70]
    scene.answer(answer[70:])
    assert scene.client_link.written == answer


@pytest.mark.parametrize("size", [200, LONG])
def test_addresses_do_not_take_it_however_short_the_answer_is_and_wherever_it_is_cut(size: int) -> None:
    answer, entity = fetch_answer(1, size=size, is_plain=False)
    for chunks in ([answer], parts(answer)):
        scene = Scene()
        scene.ask(request(ApiKey.FETCH, 18, 1))
        scene.answer(*chunks)
        _, read = decode_response(scene.client_link.written[4:], ApiKey.FETCH, 18)
        assert {each.host for each in entity.node_endpoints} == {"h" * 60}
        assert {each.host for each in read.node_endpoints} == {here(1).host}
        assert replace(read, node_endpoints=()) == replace(entity, node_endpoints=())


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_produce_and_its_answer_pass_as_they_are(version: int) -> None:
    scene = Scene()
    asked = produce(1, acks=1, version=version)
    scene.ask(asked)
    assert scene.broker_link.writes == [asked]
    entity = plain(random_answer(ApiKey.PRODUCE, version, random.Random(5)))
    answer = encode_response(RequestHeader(ApiKey.PRODUCE, version, 1), entity)
    scene.answer(answer)
    assert scene.client_link.writes == [answer]
    assert not scene.client.pending


def test_a_produce_that_is_longer_than_allowed_does_not_take_it() -> None:
    scene = Scene(max_frame_bytes=1000)
    scene.ask(produce(1, acks=1, size=2000))
    assert scene.client_link.is_closed
    assert not scene.broker_link.written


def test_a_produce_that_somebody_wants_to_see_is_seen() -> None:
    clerk = RecordingInterceptor(interests=[ApiKey.PRODUCE], observed=[ApiKey.PRODUCE])
    scene = Scene(clerk)
    scene.ask(produce(1, acks=1, version=12))
    entity = plain(random_answer(ApiKey.PRODUCE, 12, random.Random(5)))
    scene.answer(encode_response(RequestHeader(ApiKey.PRODUCE, 12, 1), entity))
    assert len(clerk.asked) == len(clerk.answered) == 1
