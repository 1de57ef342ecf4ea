"""Work that is cut into slices, so that one request keeps nobody waiting: what Produce and ListOffsets by time cost.

Theory of operation. A batch of a few kilobytes may hold half a million records, and every one must be looked at. What
decides such a request is a generator, still synchronous and pure, that gives way from time to time:

    yields None             after a slice of work: whoever drives it lets others have their turn, and goes on
    yields a Decompression  before much memory is needed: whoever drives it has it run, somewhere else if it can, and
                            sends the plain bytes, or throws the BadBatch that it raised

and returns the reply. A request that costs less than a slice, as almost all do, ends without having yielded once. What
was looked up before a yield may have changed behind it.
"""

from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import BadBatch, Batch
from kcoord.protocol.records.record import plain_records

T = TypeVar("T")

SLICE: Final = 1000
"""Units of work until others have their turn: records, headers, kibibytes. A unit takes some microseconds."""
FIRST_SLICE: Final = 250
"""Units of work at once, when a request has come: that of many clients may come together."""
SMALL_BYTES: Final = 1 << 20
"""What is decompressed without asking; a request that waits for its next slice holds no more than that."""


class Decompression(NamedTuple):
    """A batch to be decompressed, apart from all else: it takes long, and memory up to twice its limit."""

    batch: Batch
    limit: int

    def run(self) -> bytes:
        """The batch's plain records. Raises BadBatch."""
        return plain_records(self.batch, limit=self.limit)


Slices = Generator[Decompression | None, bytes | None, T]


class Effort:
    """Counts the work that was done since others had their turn."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = FIRST_SLICE

    @property
    def left(self) -> int:
        """How much may still be done in this slice, at least one unit."""
        return max(self._left, 1)

    def spend(self, units: int) -> Slices[None]:
        self._left -= units
        if self._left <= 0:
            self._left = SLICE
            yield None


def decompress(batch: Batch, *, limit: int) -> Slices[bytes]:
    """The batch's plain records: here and now if they are small, else as whoever drives this sees fit.

    Raises BadBatch.
    """
    if limit <= SMALL_BYTES or not batch.header.codec:
        return plain_records(batch, limit=limit)
    try:
        return plain_records(batch, limit=SMALL_BYTES)
    except BadBatch as bad:
        if bad.error is not ErrorCode.message_too_large:
            raise
    plain = yield Decompression(batch, limit)
    assert plain is not None
    return plain
