"""ApiVersions answers for clients: the broker's versions, limited to those that the proxy can forward."""

import random
from dataclasses import replace

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.routes import version_limits
from kcoord.proxy.rewriting.api_versions import NEWEST, intersect_versions, unsupported_version
from tests.proxy.answers import CORRELATION_ID, frame_of, random_answer

OF_THE_FUTURE = 500
VERSIONS = range(NEWEST + 1)


def answer_of(version: int, ranges: dict[int, tuple[int, int]], **changes: object) -> bytes:
    answer = random_answer(ApiKey.API_VERSIONS, version, random.Random(version))
    line = next(
        each
        for seed in range(100)
        for each in random_answer(ApiKey.API_VERSIONS, version, random.Random(seed)).api_keys
    )
    lines = [replace(line, api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    changes.setdefault("error_code", ErrorCode.none)
    return frame_of(ApiKey.API_VERSIONS, version, replace(answer, api_keys=tuple(lines), **changes))


def ranges_of(frame: bytes, version: int) -> dict[int, tuple[int, int]]:
    correlation_id, answer = decode_response(frame, ApiKey.API_VERSIONS, version)
    assert correlation_id == CORRELATION_ID
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def test_the_newest_version_is_the_newest_that_is_known() -> None:
    assert known_versions(ApiKey.API_VERSIONS) == range(NEWEST + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_are_cut_and_others_stay(version: int) -> None:
    ranges = {ApiKey.FETCH: (4, 99), ApiKey.METADATA: (0, 5), ApiKey.CREATE_TOPICS: (2, 7), OF_THE_FUTURE: (0, 3)}
    frame = answer_of(version, ranges)

    sent = intersect_versions(frame, version, version_limits(()))

    newest = known_versions(ApiKey.FETCH)[-1]
    assert ranges_of(sent, version) == {**ranges, ApiKey.FETCH: (4, newest)}
    assert decode_response(sent, ApiKey.API_VERSIONS, version)[1] == replace(
        decode_response(frame, ApiKey.API_VERSIONS, version)[1],
        api_keys=decode_response(sent, ApiKey.API_VERSIONS, version)[1].api_keys,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_api_of_which_nothing_is_left_is_not_told_of(version: int) -> None:
    frame = answer_of(version, {ApiKey.FETCH: (90, 99), ApiKey.METADATA: (0, 5)})
    assert ranges_of(intersect_versions(frame, version, version_limits(())), version) == {ApiKey.METADATA: (0, 5)}


def test_an_answer_in_version_0_to_who_asked_in_another_is_cut_too() -> None:
    """A broker that does not know the version answers as in version 0 (KIP-511)."""
    frame = answer_of(0, {ApiKey.API_VERSIONS: (0, 99)}, error_code=ErrorCode.unsupported_version)
    assert ranges_of(intersect_versions(frame, 4, version_limits(())), 0) == {ApiKey.API_VERSIONS: (0, NEWEST)}


def test_a_version_that_is_not_known_is_answered_as_a_broker_would() -> None:
    frame = unsupported_version(CORRELATION_ID, NEWEST)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert ranges_of(frame[4:], 0) == {ApiKey.API_VERSIONS: (0, NEWEST)}
    assert decode_response(frame[4:], ApiKey.API_VERSIONS, 0)[1].error_code is ErrorCode.unsupported_version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broken_answer_is_an_error_and_nothing_worse(version: int) -> None:
    whole = answer_of(version, {ApiKey.FETCH: (4, 99), ApiKey.METADATA: (0, 5)})
    refused = 0
    for end in range(len(whole)):
        try:
            intersect_versions(whole[:end], version, version_limits(()))
        except CorruptMessage:
            refused += 1
    assert refused
