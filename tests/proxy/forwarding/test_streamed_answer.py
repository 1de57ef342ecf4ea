"""An answer that streams through: its bytes are forwarded as they come, and only a tail with fields is held."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.api_keys import ApiKey
from kcoord.protocol.frames import CorruptMessage, framed
from kcoord.proxy.forwarding.streamed_answer import StreamedAnswer
from kcoord.proxy.rewriting.fetch_scanner import FetchScanner
from tests.proxy.answers import frame_of, random_answer
from tests.proxy.rewriting.test_passthrough import plain

VERSION = 17
PREFIX = 4


def streamed(answer: StreamedAnswer, frame: bytes, cuts: list[int]) -> bytes:
    """Returns what was forwarded of a framed answer that came in parts, each behind three bytes of another answer."""
    forwarded = b""
    for start, end in pairwise([0, *cuts, len(frame)]):
        chunk = bytes(3) + frame[start:end]
        forwarded_end, part_end = answer.take(chunk, 3)
        assert part_end == len(chunk)
        forwarded += chunk[3:forwarded_end]
    assert answer.remaining == 0
    return forwarded


def fetch_answer(seed: int, *, has_endpoints: bool) -> bytes:
    answers: Any = (random_answer(ApiKey.FETCH, VERSION, random.Random(seed + each)) for each in range(1000))
    found = next(each for each in answers if each.node_endpoints)
    return framed([frame_of(ApiKey.FETCH, VERSION, found if has_endpoints else plain(found))])


def test_an_answer_without_a_scanner_is_forwarded() -> None:
    frame = framed([b"0123456789"])
    answer = StreamedAnswer(10)
    assert streamed(answer, frame, [4, 5, 9]) == frame
    assert answer.finish() is None


def test_the_part_of_an_answer_ends_where_the_next_answer_begins() -> None:
    answer = StreamedAnswer(10)
    assert answer.take(framed([b"0123456789"]) + b"more", 0) == (14, 14)
    assert answer.remaining == 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 20), data=st.data())
def test_a_tail_with_fields_is_held_wherever_the_answer_is_cut(seed: int, data: st.DataObject) -> None:
    frame = fetch_answer(seed, has_endpoints=True)
    answer = StreamedAnswer(len(frame) - PREFIX, FetchScanner())
    forwarded = streamed(answer, frame, _cuts(frame, data))
    tail = answer.finish()
    assert answer.holds_tail
    assert tail is not None
    assert forwarded + tail == frame
    assert tail[0] == 1, "it has one tagged field"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 20), data=st.data())
def test_a_tail_without_fields_is_forwarded_wherever_the_answer_is_cut(seed: int, data: st.DataObject) -> None:
    frame = fetch_answer(seed, has_endpoints=False)
    answer = StreamedAnswer(len(frame) - PREFIX, FetchScanner())
    assert streamed(answer, frame, _cuts(frame, data)) == frame
    assert not answer.holds_tail
    assert answer.finish() is None


def _cuts(frame: bytes, data: st.DataObject) -> list[int]:
    """Draws where the answer is cut; its first part has the length prefix."""
    return sorted(data.draw(st.lists(st.integers(PREFIX, len(frame)), max_size=12)))


def test_an_answer_that_ends_before_its_tail_is_corrupt() -> None:
    answer = StreamedAnswer(6, FetchScanner())
    streamed(answer, framed([bytes(6)]), [])
    with pytest.raises(CorruptMessage, match="ends too early"):
        answer.finish()
