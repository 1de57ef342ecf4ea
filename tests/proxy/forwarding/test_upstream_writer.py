"""The upstream writer sends everything in its order, whenever the broker is connected."""

from kcoord.proxy.forwarding.backpressure import MAX_UNSENT_BYTES
from kcoord.proxy.forwarding.upstream_writer import UpstreamWriter
from tests.proxy.forwarding_scene import Link


class Calls:
    """Counts how often the writer reports buffered bytes, and how often it needs a broker for them."""

    def __init__(self) -> None:
        self.writer = UpstreamWriter(self._on_buffered)
        self.buffered = self.connects = 0

    def _on_buffered(self) -> None:
        self.buffered += 1
        self.connects += self.writer.needs_broker


def test_what_is_written_before_there_is_a_broker_is_sent_first() -> None:
    calls, link = Calls(), Link()
    calls.writer.write(b"one")
    calls.writer.write(memoryview(b"two"))
    assert (calls.buffered, calls.connects, calls.writer.unsent_bytes) == (2, 1, 6)
    assert calls.writer.connect(link)
    calls.writer.write(b"three")
    assert link.written == b"onetwothree"
    assert (calls.buffered, calls.writer.unsent_bytes) == (2, 0)


def test_a_broker_that_finds_nothing_buffered_gets_nothing() -> None:
    calls, link = Calls(), Link()
    assert not calls.writer.connect(link)
    assert link.writes == []


def test_another_broker_is_needed_with_the_first_write_after_the_last_one_has_gone() -> None:
    calls, another = Calls(), Link()
    calls.writer.connect(Link())
    calls.writer.disconnect()
    assert calls.connects == 0
    calls.writer.write(b"one")
    assert calls.connects == 1
    calls.writer.connect(another)
    assert another.written == b"one"


def test_a_writer_is_full_with_more_than_may_wait() -> None:
    calls = Calls()
    calls.writer.write(bytes(MAX_UNSENT_BYTES))
    assert not calls.writer.is_full
    calls.writer.write(b".")
    assert calls.writer.is_full


def test_what_is_dropped_is_not_sent() -> None:
    calls, link = Calls(), Link()
    calls.writer.write(b"one")
    calls.writer.drop()
    assert calls.writer.unsent_bytes == 0
    assert not calls.writer.connect(link)
    assert link.written == b""
