"""Forwarded commits are counted and not changed."""

from typing import Any

import pytest
from kio.index import load_response_schema

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import encode_response
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.observing.commit_counter import CommitCounter
from tests.proxy.forwarding_scene import Scene, request

VERSION = 8


def answered(correlation_id: int, *errors: ErrorCode) -> bytes:
    lines = [{"partition_index": index, "error_code": error} for index, error in enumerate(errors)]
    values: dict[str, Any] = {"topics": [{"name": "t", "partitions": lines}]}
    response = build_entity(load_response_schema(ApiKey.OFFSET_COMMIT, VERSION), values)
    return encode_response(RequestHeader(ApiKey.OFFSET_COMMIT, VERSION, correlation_id), response)


@pytest.fixture
def counting() -> CommitCounter:
    return CommitCounter()


@pytest.fixture
def scene(counting: CommitCounter) -> Scene:
    return Scene(counting)


def commit(scene: Scene, correlation_id: int, *errors: ErrorCode) -> bytes:
    scene.ask(request(ApiKey.OFFSET_COMMIT, VERSION, correlation_id))
    scene.answer(answer := answered(correlation_id, *errors))
    return answer


def test_each_offset_that_was_committed_counts_also_when_the_same_is_answered_again(
    scene: Scene, counting: CommitCounter
) -> None:
    answers = [commit(scene, number, ErrorCode.none, ErrorCode.none) for number in range(3)]
    assert scene.client_link.written == b"".join(answers)
    assert (counting.offsets, counting.errors) == (6, {})


def test_what_is_refused_counts_by_the_first_error_of_its_answer(scene: Scene, counting: CommitCounter) -> None:
    stale = ErrorCode.illegal_generation
    commit(scene, 1, stale, stale)
    commit(scene, 2, ErrorCode.none, ErrorCode.offset_metadata_too_large)
    commit(scene, 3, stale, stale)
    assert counting.offsets == 1
    assert counting.errors == {"ILLEGAL_GENERATION": 2, "OFFSET_METADATA_TOO_LARGE": 1}


def test_an_answer_that_cannot_be_read_passes_uncounted(scene: Scene, counting: CommitCounter) -> None:
    scene.ask(request(ApiKey.OFFSET_COMMIT, VERSION, 1))
    broken = b"\0\0\0\7" + b"\0\0\0\1" + b"\0\xff\xff"
    scene.answer(broken)
    assert scene.client_link.written == broken
    assert counting.offsets == 0


def test_who_has_gone_is_forgotten(scene: Scene, counting: CommitCounter) -> None:
    commit(scene, 1, ErrorCode.none)
    counting.on_closed(scene.client)
    assert not counting._last
