"""Answers are recognized as needing no rewrite only if they have no addresses; the common ones are recognized."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import known_versions
from kcoord.protocol.frames import CorruptMessage, framed
from kcoord.proxy.rewriting.broker_addresses import find_addresses
from kcoord.proxy.rewriting.fetch_scanner import FIRST_WITH_ENDPOINTS
from kcoord.proxy.rewriting.passthrough import (
    fetch_needs_no_rewrite,
    produce_by_id_needs_no_rewrite,
    produce_by_name_needs_no_rewrite,
)
from tests.proxy.answers import frame_of, random_answer

FETCHES = [
    (ApiKey.FETCH, version, fetch_needs_no_rewrite)
    for version in range(FIRST_WITH_ENDPOINTS, known_versions(ApiKey.FETCH).stop)
]
PRODUCES = [(ApiKey.PRODUCE, version, produce_by_name_needs_no_rewrite) for version in (10, 11, 12)]
PRODUCES += [
    (ApiKey.PRODUCE, version, produce_by_id_needs_no_rewrite)
    for version in range(13, known_versions(ApiKey.PRODUCE).stop)
]
every_version = pytest.mark.parametrize(("api_key", "version", "is_plain"), FETCHES + PRODUCES)
seeds = st.integers(0, 1_000_000)


def plain(answer: Any) -> Any:
    """Removes all errors and tagged fields from an answer: no partition has moved, and nothing went wrong."""
    topics = tuple(
        replace(topic, **{name: tuple(map(_plain_partition, getattr(topic, name))) for name in _partition_lists(topic)})
        for topic in answer.responses
    )
    return replace(answer, responses=topics, node_endpoints=())


def _partition_lists(topic: Any) -> list[str]:
    return [field.name for field in fields(topic) if field.name in ("partitions", "partition_responses")]


def _plain_partition(partition: Any) -> Any:
    unusual = ("aborted_transactions", "record_errors")
    empty_fields: dict[str, Any] = {field.name: () for field in fields(partition) if field.name in unusual}
    error_fields = ("error_message", "diverging_epoch", "current_leader", "snapshot_id")
    empty_fields |= {name: _default(partition, name) for name in error_fields if hasattr(partition, name)}
    return replace(partition, **empty_fields)


def _default(entity: Any, name: str) -> Any:
    (field,) = [field for field in fields(entity) if field.name == name]
    return None if name == "error_message" else field.default


@every_version
@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_usual_answers_are_plain_and_those_that_tell_of_brokers_are_not(
    api_key: int, version: int, is_plain: Callable[[bytes], bool], seed: int
) -> None:
    answer = random_answer(api_key, version, random.Random(seed))
    assert is_plain(framed([frame_of(api_key, version, plain(answer))]))
    if answer.node_endpoints:
        moved = replace(plain(answer), node_endpoints=answer.node_endpoints)
        assert not is_plain(framed([frame_of(api_key, version, moved)]))


@every_version
@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_where_anything_unusual_is_told_an_answer_is_plain_only_if_it_has_no_addresses(
    api_key: int, version: int, is_plain: Callable[[bytes], bool], seed: int
) -> None:
    frame = frame_of(api_key, version, random_answer(api_key, version, random.Random(seed)))
    if is_plain(framed([frame])):
        assert find_addresses(frame, api_key, version) is None


@every_version
@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_a_broken_answer_is_plain_only_if_it_has_no_addresses(
    api_key: int, version: int, is_plain: Callable[[bytes], bool], seed: int
) -> None:
    rng = random.Random(seed)
    frame = bytearray(frame_of(api_key, version, plain(random_answer(api_key, version, rng))))
    for _ in range(rng.randint(1, 3)):
        frame[rng.randrange(4, len(frame))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if is_plain(framed([bytes(frame)])):
        with suppress(CorruptMessage):  # such as a null array: the client gets it unchanged
            assert find_addresses(bytes(frame), api_key, version) is None


@every_version
def test_an_answer_that_is_too_short_or_too_long_is_not_plain(
    api_key: int, version: int, is_plain: Callable[[bytes], bool]
) -> None:
    answers = (random_answer(api_key, version, random.Random(seed)) for seed in range(100))
    answer = framed([frame_of(api_key, version, plain(next(each for each in answers if each.responses)))])
    assert is_plain(answer)
    assert not is_plain(answer + b"\0")
    assert not any(is_plain(answer[:end]) for end in range(len(answer)))


def test_what_no_layout_fits_is_not_plain() -> None:
    with pytest.raises(CorruptMessage):
        find_addresses(bytes(5) + b"\xff" * 5, ApiKey.FETCH, FETCHES[0][1])
    for _, _, is_plain in FETCHES + PRODUCES:
        assert not is_plain(bytes(8) + b"\xff" * 40)
