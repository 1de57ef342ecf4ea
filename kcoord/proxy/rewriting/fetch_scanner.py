"""Scans a Fetch answer while it streams through, to find the tail that may have to be rewritten. Pure.

A Fetch answer may have 50 MB, and a consumer should not have to wait for the last of them to get the first. The only
part that may have to be rewritten is at its very end (node_endpoints.py). Before it, the scanner reads only lengths:

    correlation id, tags, throttle time, error, session
    topics:     id, partitions: index, error, 3 offsets, aborted transactions, replica, records, tags
    tail:       tagged fields
"""

from collections.abc import Generator
from typing import Final

from kcoord.protocol.frames import CorruptMessage

FIRST_WITH_ENDPOINTS: Final = 16
"""The first version that may have endpoints. All versions from there that kio knows have the same layout."""

_Steps = Generator[int, int, None]
"""Yields how many bytes to skip, and is sent the byte behind them."""


class FetchScanner:
    """Finds where the tail (the tagged fields, which may name brokers) begins in a Fetch response that streams through
    the proxy.
    """

    __slots__ = ("_skipped", "_steps", "is_at_tail")

    def __init__(self) -> None:
        self._steps = _scan()
        self._skipped = next(self._steps)
        self.is_at_tail = False

    def feed(self, chunk: bytes, position: int, end: int) -> int:
        """Scans the next bytes of the response, `chunk[position:end]`. Returns where its tail begins, or `end` if that
        has not come yet. Raises CorruptMessage.
        """
        step = self._steps.send
        position += self._skipped
        try:
            while position < end:
                position += step(chunk[position]) + 1
        except StopIteration:
            self.is_at_tail = True
            return position + 1
        self._skipped = position - end
        return end


def _scan() -> _Steps:
    yield from _tags((yield 4))
    topics = yield from _uvarint((yield 10))
    for _ in range(topics - 1):
        partitions = yield from _uvarint((yield 16))
        for _ in range(partitions - 1):
            aborted = yield from _uvarint((yield 30))
            for _ in range(aborted - 1):
                yield from _tags((yield 16))
            records = yield from _uvarint((yield 4))
            yield from _tags((yield max(records - 1, 0)))
        yield from _tags((yield 0))


def _uvarint(byte: int) -> Generator[int, int, int]:
    if byte < 0x80:
        return byte
    number = byte & 0x7F
    for shift in (7, 14, 21, 28):
        byte = yield 0
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
    raise CorruptMessage("a varint of more than 5 bytes in a Fetch answer")


def _tags(count: int) -> _Steps:
    skipped = 0
    for _ in range((yield from _uvarint(count))):
        yield from _uvarint((yield skipped))
        skipped = yield from _uvarint((yield 0))
    if skipped:
        yield skipped - 1
