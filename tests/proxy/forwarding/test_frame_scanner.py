"""The frame scanner forwards and takes every byte once and in order, however the stream is cut."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.proxy.forwarding.frame_scanner import FrameScanner

HEADER_BYTES = 5
"""The length, and one letter that decides: p passes, w is needed whole, c is whole and cut out, s stops the scanner."""


def frame(kind: str, size: int = 10) -> bytes:
    return size.to_bytes(4) + kind.encode() * size


class Reader:
    """Drives a scanner by the letters of the frames."""

    def __init__(self) -> None:
        self.scanner = FrameScanner(HEADER_BYTES)
        self.runs: list[bytes] = []
        self.taken: list[bytes] = []

    @property
    def forwarded(self) -> bytes:
        return b"".join(self.runs)

    def feed(self, *chunks: bytes) -> None:
        for chunk in chunks:
            if self.scanner.feed(chunk) or self.scanner.begin_held():
                self.scan()

    def resume(self) -> None:
        if self.scanner.resume():
            self.scan()

    def scan(self) -> None:
        scanner = self.scanner
        while scanner.find_frame():
            length = int.from_bytes(scanner.chunk[scanner.position : scanner.position + 4])
            kind = chr(scanner.chunk[scanner.position + 4])
            if kind == "p":
                scanner.pass_frame(length)
            elif (taken := scanner.take_frame(length)) is not None:
                self.taken.append(taken)
                if kind != "w":
                    self._add(scanner.cut())
                if kind == "s":
                    scanner.stop()
        self._add(scanner.finish())

    def _add(self, run: bytes | memoryview) -> None:
        if run:
            self.runs.append(bytes(run))


def test_frames_that_pass_are_one_run() -> None:
    reader = Reader()
    reader.feed(frame("p") + frame("w") + frame("p"))
    assert reader.runs == [frame("p") + frame("w") + frame("p")]
    assert reader.scanner.is_at_boundary


def test_a_chunk_that_passes_whole_is_not_copied() -> None:
    scanner, chunk = FrameScanner(HEADER_BYTES), frame("p") * 2
    assert scanner.feed(chunk)
    while scanner.find_frame():
        scanner.pass_frame(10)
    assert scanner.finish() is chunk


def test_a_frame_that_passes_is_not_waited_for() -> None:
    reader = Reader()
    reader.feed(frame("p", 1000)[:100])
    assert (len(reader.forwarded), reader.scanner.remaining, reader.scanner.held_bytes) == (100, 904, 0)
    assert not reader.scanner.is_at_boundary
    reader.feed(frame("p", 1000)[100:] + frame("w")[:7])
    assert reader.forwarded == frame("p", 1000)
    assert (reader.scanner.remaining, reader.scanner.held_bytes) == (0, 7)


def test_a_chunk_that_only_continues_a_frame_passes_as_it_is() -> None:
    reader = Reader()
    reader.feed(frame("p", 100)[:50])
    assert reader.scanner.pass_chunk(53)
    assert (reader.scanner.remaining, reader.scanner.is_at_boundary) == (1, False)
    assert not reader.scanner.pass_chunk(2)
    assert reader.scanner.pass_chunk(1)
    assert reader.scanner.is_at_boundary
    assert not reader.scanner.pass_chunk(1)


def test_a_frame_that_is_needed_whole_is_held_until_it_is() -> None:
    reader = Reader()
    reader.feed(*(bytes([byte]) for byte in frame("w")[:-1]))
    assert (reader.taken, reader.forwarded, reader.scanner.held_bytes) == ([], b"", 13)
    reader.feed(frame("w")[-1:])
    assert reader.taken == [b"w" * 10]
    assert reader.runs == [frame("w")]
    assert reader.scanner.is_at_boundary


def test_a_frame_that_is_cut_out_is_not_forwarded() -> None:
    reader = Reader()
    reader.feed(frame("p") + frame("c") + frame("w"))
    assert reader.runs == [frame("p"), frame("w")]
    assert len(reader.taken) == 2


def test_a_caller_may_hold_a_frame_until_it_knows_more_of_it() -> None:
    scanner = FrameScanner(HEADER_BYTES)
    scanner.feed(frame("p")[:6])
    assert scanner.find_frame()
    scanner.hold_until(12)
    assert not scanner.find_frame()
    assert scanner.finish() == b""
    assert not scanner.feed(frame("p")[6:11])
    assert not scanner.begin_held()
    assert not scanner.feed(frame("p")[11:12])
    assert scanner.begin_held()
    assert scanner.find_frame()


def test_a_stopped_scanner_holds_everything_and_goes_on_where_it_stopped() -> None:
    reader = Reader()
    reader.feed(frame("p") + frame("s") + frame("w"), frame("p"))
    assert (reader.taken, reader.forwarded) == ([b"s" * 10], frame("p"))
    assert (reader.scanner.held_bytes, reader.scanner.is_at_boundary) == (28, False)
    reader.resume()
    assert reader.taken == [b"s" * 10, b"w" * 10]
    assert reader.runs == [frame("p"), frame("w") + frame("p")]
    assert (reader.scanner.held_bytes, reader.scanner.is_at_boundary) == (0, True)


def test_a_scanner_that_is_resumed_with_nothing_held_is_at_a_boundary() -> None:
    reader = Reader()
    reader.feed(frame("s"))
    assert not reader.scanner.is_at_boundary
    reader.resume()
    assert reader.scanner.is_at_boundary


def test_a_closed_scanner_holds_nothing_and_finds_nothing() -> None:
    reader = Reader()
    reader.feed(frame("s") + frame("p"))
    reader.scanner.close()
    assert reader.scanner.held_bytes == 0
    reader.resume()
    reader.feed(frame("p"))
    assert (reader.forwarded, reader.scanner.held_bytes) == (b"", 0)


def test_what_was_found_before_a_scanner_was_closed_is_still_forwarded() -> None:
    scanner = FrameScanner(HEADER_BYTES)
    scanner.feed(frame("p") + frame("w"))
    scanner.pass_frame(10)
    scanner.close()
    assert not scanner.find_frame()
    assert scanner.finish() == frame("p")
    assert scanner.held_bytes == 0


@settings(deadline=None)
@given(
    frames=st.lists(st.tuples(st.sampled_from("pwcs"), st.integers(1, 40)), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_every_byte_is_forwarded_or_taken_once_and_in_order(frames: list[tuple[str, int]], cuts: list[int]) -> None:
    stream = b"".join(frame(kind, size) for kind, size in frames)
    ends = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = Reader()
    for start, end in pairwise(ends):
        if start < end:
            reader.feed(stream[start:end])
    while reader.scanner.is_stopped:
        reader.resume()
    assert reader.forwarded == b"".join(frame(kind, size) for kind, size in frames if kind in "pw")
    assert reader.taken == [frame(kind, size)[4:] for kind, size in frames if kind != "p"]
    assert (reader.scanner.held_bytes, reader.scanner.remaining, reader.scanner.is_at_boundary) == (0, 0, True)
