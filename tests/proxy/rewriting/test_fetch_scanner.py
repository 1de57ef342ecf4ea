"""A Fetch answer that is streamed: nothing in it changes except the addresses at its end."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_response, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.rewriting.fetch_scanner import FIRST_WITH_ENDPOINTS, FetchScanner
from kcoord.proxy.rewriting.node_endpoints import brokers_in, rewrite_same_length
from tests.proxy.answers import CORRELATION_ID, frame_of, here, moved, random_answer

VERSIONS = range(FIRST_WITH_ENDPOINTS, known_versions(ApiKey.FETCH).stop)
UNKNOWN_TAG = b"\x63\x03abc"  # 99


def long_hosts(answer: Any) -> Any:
    """Gives an answer's endpoints long host names, so that the proxy's endpoints fit into their bytes."""
    brokers = tuple(replace(each, node_id=abs(each.node_id), host="h" * 130) for each in answer.node_endpoints)
    return replace(answer, node_endpoints=brokers)


def is_at_tail(walk: FetchScanner) -> bool:
    return walk.is_at_tail


def walked(frame: bytes, cuts: list[int]) -> bytes:
    """Returns the answer after it was scanned in parts."""
    walk, passed, tail = FetchScanner(), bytearray(), b""
    for start, end in zip([0, *cuts], [*cuts, len(frame)], strict=True):
        chunk = frame[start:end]
        position = 0 if is_at_tail(walk) else walk.feed(chunk, 0, len(chunk))
        passed += chunk[:position]
        tail += chunk[position:]
    assert walk.is_at_tail
    return bytes(passed) + (tail if tail == b"\0" else rewrite_same_length(tail, here))


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(), data=st.data())
def test_wherever_it_is_cut_only_addresses_differ(version: int, seed: int, data: st.DataObject) -> None:
    answer = long_hosts(random_answer(ApiKey.FETCH, version, random.Random(seed)))
    frame = frame_of(ApiKey.FETCH, version, answer)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frame)), max_size=12)))

    sent = walked(frame, cuts)

    assert len(sent) == len(frame)
    assert decode_response(sent, ApiKey.FETCH, version) == (CORRELATION_ID, moved(answer))


def test_byte_by_byte_it_is_the_same() -> None:
    answer = long_hosts(random_answer(ApiKey.FETCH, VERSIONS[-1], random.Random(5)))
    frame = frame_of(ApiKey.FETCH, VERSIONS[-1], answer)
    assert walked(frame, list(range(1, len(frame)))) == walked(frame, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_addresses_that_do_not_fit_are_left_out(version: int) -> None:
    answer = random_answer(ApiKey.FETCH, version, random.Random(3))
    endpoint = _endpoint(version)
    answer = replace(answer, node_endpoints=(replace(endpoint, node_id=3, host="k", port=9092, rack=None),))
    frame = frame_of(ApiKey.FETCH, version, answer)

    sent = walked(frame, [])

    assert len(sent) == len(frame)
    assert decode_response(sent, ApiKey.FETCH, version) == (CORRELATION_ID, replace(answer, node_endpoints=()))


def _endpoint(version: int) -> Any:
    seeds = (random_answer(ApiKey.FETCH, version, random.Random(seed)) for seed in range(100))
    return next(answer.node_endpoints[0] for answer in seeds if answer.node_endpoints)


@pytest.mark.parametrize("host_length", range(len(here(3).host) - 3, len(here(3).host) + 140))
def test_every_difference_of_lengths_is_made_up_for(host_length: int) -> None:
    version = VERSIONS[-1]
    endpoint = replace(_endpoint(version), node_id=3, host="x" * host_length, port=1, rack="r")
    answer = replace(random_answer(ApiKey.FETCH, version, random.Random(3)), node_endpoints=(endpoint,))
    frame = frame_of(ApiKey.FETCH, version, answer)

    sent = walked(frame, [])
    _, read = decode_response(sent, ApiKey.FETCH, version)

    assert len(sent) == len(frame)
    assert b"x" * 4 not in sent
    fits = host_length >= len(here(3).host) and host_length != len(here(3).host) + 1  # no padding tag has only 1 byte
    assert read.node_endpoints == ((moved(endpoint),) if fits else ())


def test_tagged_fields_that_nobody_knows_yet_stay() -> None:
    endpoints = b"\2" + bytes(3) + b"\3" + b"\3kk" + bytes(4) + b"\0\0"
    tail = b"\2" + b"\0" + bytes([len(endpoints)]) + endpoints + UNKNOWN_TAG
    assert brokers_in(tail) == {3: Endpoint("kk", 0)}

    sent = rewrite_same_length(tail, here)

    assert len(sent) == len(tail)
    assert UNKNOWN_TAG in sent
    assert b"kk" not in sent


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(), junk=st.binary(max_size=6), data=st.data())
def test_a_broken_answer_is_an_error_and_nothing_worse(seed: int, junk: bytes, data: st.DataObject) -> None:
    frame = frame_of(ApiKey.FETCH, VERSIONS[-1], random_answer(ApiKey.FETCH, VERSIONS[-1], random.Random(seed)))
    at = data.draw(st.integers(0, len(frame)))
    broken = frame[:at] + junk + frame[at + data.draw(st.integers(0, 4)) :]
    walk = FetchScanner()
    try:
        position = walk.feed(broken, 0, len(broken))
        if walk.is_at_tail:
            tail = broken[position:]
            if len(tail) > 1:
                brokers_in(tail)
                assert len(rewrite_same_length(tail, here)) == len(tail)
    except CorruptMessage:
        pass
