from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.protocol.frames import FrameSplitter, frame_pieces, framed


@given(frames=st.lists(st.binary(max_size=300)), cuts=st.lists(st.integers(0, 3000)))
def test_frames_come_out_whole_however_the_stream_is_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed([frame]) for frame in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = FrameSplitter(1000)
    came = [frame for start, end in pairwise(edges) for frame in splitter.feed(stream[start:end])]
    assert came == frames
    assert splitter.buffered_bytes == 0


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_length_that_no_frame_may_have_ends_the_stream(length: int) -> None:
    splitter = FrameSplitter(1000)
    assert splitter.feed(length.to_bytes(4, signed=True)) == []
    assert str(length) in str(splitter.error)
    assert splitter.feed(framed([b"good"])) == []
    assert splitter.buffered_bytes == 0


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"\x16\x03\x01\x02", "it speaks TLS, and this port does not"),  # A client's TLS handshake.
        (b"\x15\x03\x03\x00", "it speaks TLS"),  # A server's TLS alert.
        (b"GET ", "it sends an HTTP request, and this port speaks Kafka's protocol"),
        (b"POST", "it sends an HTTP request, and this port speaks Kafka's protocol"),
        (b"OPTI", "it sends an HTTP request, and this port speaks Kafka's protocol"),
        (b"PRI ", "it sends an HTTP request, and this port speaks Kafka's protocol"),  # The preface of HTTP/2.
        (b"HTTP", "it speaks HTTP"),  # The response of an HTTP server.
        (b"\x17\x03\x03\x00", "a frame length of 386073344, where 0 to 1000 is allowed"),
    ],
)
def test_the_beginning_of_tls_or_http_is_told_from_a_length(start: bytes, expected: str) -> None:
    splitter = FrameSplitter(1000)
    splitter.feed(start)
    assert str(splitter.error) == expected


def test_what_came_before_a_bad_length_comes_out() -> None:
    splitter = FrameSplitter(1000)
    assert splitter.feed(framed([b"good"]) + b"\0\0") == [b"good"]
    assert splitter.error is None
    assert splitter.feed(b"\0\1a" + framed([b"better"]) + b"\xff\xff\xff\xff") == [b"a", b"better"]
    assert splitter.error is not None


def test_an_empty_frame_is_a_frame() -> None:
    assert FrameSplitter(1000).feed(b"\0\0\0\0") == [b""]


def test_only_what_has_arrived_is_held_whatever_the_length_claims() -> None:
    splitter = FrameSplitter(2**31 - 1)
    assert splitter.feed(b"\x7f\xff\xff\xffabc") == []
    assert splitter.buffered_bytes == 7


def test_an_unfinished_frame_is_handed_over_to_who_reads_the_rest() -> None:
    splitter = FrameSplitter(1000)
    assert splitter.missing_bytes == 0
    assert splitter.feed(framed([b"good"]) + b"\0\0\0") == [b"good"]
    assert splitter.missing_bytes == 0, "its length is not known yet"
    assert splitter.feed(b"\x0aabc") == []
    assert splitter.missing_bytes == 7
    assert splitter.take_partial() == b"abc"
    assert (splitter.missing_bytes, splitter.buffered_bytes, splitter.has_partial) == (0, 0, False)
    assert splitter.feed(framed([b"next"])) == [b"next"]


def test_large_parts_of_a_frame_are_not_copied_and_small_ones_are_joined() -> None:
    large = bytes(100_000)
    pieces = frame_pieces([b"a", b"b", large, b"c", b"d"])
    assert [len(piece) for piece in pieces] == [6, 100_000, 2]
    assert pieces[1] is large
    assert FrameSplitter(1 << 20).feed(b"".join(pieces)) == [b"ab" + large + b"cd"]
