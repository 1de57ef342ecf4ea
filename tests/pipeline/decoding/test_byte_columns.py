"""Numbers read at many positions at once equal those read one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.pipeline.decoding.byte_columns import ByteBuffer, Cursor
from kcoord.protocol.varint import read_uvarint, read_varlong, uvarint, write_varint

VARINTS = st.lists(st.integers(0, 2**28 - 1) | st.integers(0, 300), min_size=1, max_size=50)


def cursor_over(*contents: bytes) -> Cursor:
    ends = np.cumsum([len(content) for content in contents])
    starts = ends - np.array([len(content) for content in contents])
    return Cursor(ByteBuffer.of(*contents), starts, ends)


@settings(deadline=None)
@given(numbers=VARINTS)
def test_varints_of_up_to_four_bytes_are_read_at_once(numbers: list[int]) -> None:
    contents = [uvarint(number) for number in numbers]
    cursor = cursor_over(*contents)
    assert cursor.uvarint().tolist() == [read_uvarint(content, 0)[0] for content in contents] == numbers
    assert cursor.is_valid.all()
    assert (cursor.at == cursor.ends).all()


@settings(deadline=None)
@given(numbers=st.lists(st.integers(-(2**55), 2**55 - 1), min_size=1, max_size=50))
def test_zigzag_varints_are_read_at_once(numbers: list[int]) -> None:
    contents = []
    for number in numbers:
        content = bytearray()
        write_varint(content, number)
        contents.append(bytes(content))
    cursor = cursor_over(*contents)
    assert cursor.varlong().tolist() == [read_varlong(content, 0)[0] for content in contents] == numbers
    assert cursor.is_valid.all()


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x80", b"\x80\x80\x80", b"\x80\x80\x80\x80\x01", b"\xff" * 12])
def test_a_varint_that_breaks_off_or_is_too_long_is_not_good(content: bytes) -> None:
    cursor = cursor_over(b"\x05", content, b"\x85\x01", b"\x80\x80\x01")
    values = cursor.uvarint()
    assert cursor.is_valid.tolist() == [True, False, True, True]
    assert values[[0, 2, 3]].tolist() == [5, 133, 1 << 14]
    assert (cursor.at <= cursor.ends).all()


@settings(deadline=None)
@given(contents=st.lists(st.binary(max_size=12), min_size=1, max_size=20))
def test_numbers_that_do_not_fit_in_their_spans_are_not_good(contents: list[bytes]) -> None:
    cursor = cursor_over(*contents)
    values = cursor.number("q")
    fits = [len(content) >= 8 for content in contents]
    assert cursor.is_valid.tolist() == fits
    expected = [int.from_bytes(content[:8], "big", signed=True) for content in contents if len(content) >= 8]
    assert values[fits].tolist() == expected


@settings(deadline=None)
@given(parts=st.lists(st.tuples(st.binary(max_size=5), st.text(max_size=9)), max_size=30))
def test_texts_are_taken_out_from_between_other_bytes(parts: list[tuple[bytes, str]]) -> None:
    contents = [(gap, text.encode()) for gap, text in parts]
    arena = ByteBuffer.of(*(piece for pair in contents for piece in pair))
    ends = np.cumsum([len(gap) + len(text) for gap, text in contents]).astype(np.int64)
    starts = ends - np.array([len(text) for _, text in contents], np.int64)
    assert arena.texts(starts, ends).to_pylist() == [text for _, text in parts]
    assert arena.spans(starts, ends).to_pylist() == [text for _, text in contents]
