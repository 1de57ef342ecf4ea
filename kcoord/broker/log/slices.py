"""Requests that are decided in slices, so that one does not delay the others: Produce, and ListOffsets by time.

Theory of operation. A batch of a few kilobytes may hold half a million records, and every one must be read. Such a
request is decided by a generator, still synchronous and pure, that yields from time to time:

    yields None             after a slice of work: its driver runs other work, and resumes it
    yields a Decompression  before it needs much memory: its driver runs it, in another thread if it can, and sends the
                            plain bytes, or throws the CorruptBatch that it raised

and that returns the reply. A request that costs less than a slice, as almost all do, ends without a yield. A lookup
before a yield may be outdated after it.
"""

from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import Batch, CorruptBatch
from kcoord.protocol.records.record import plain_records

T = TypeVar("T")

SLICE: Final = 1000
"""The units of work between two yields: records, headers, kibibytes. A unit takes some microseconds."""
FIRST_SLICE: Final = 250
"""The units of work before the first yield: requests of many clients may arrive together."""
SMALL_BYTES: Final = 1 << 20
"""The bytes that are decompressed without a yield; a request that waits for its next slice holds no more than that."""


class Decompression(NamedTuple):
    """A batch to decompress separately, because it takes long, and memory up to twice its limit in bytes. A request
    that is decided in slices yields it, and its driver runs it, in another thread if it can.
    """

    batch: Batch
    limit: int

    def run(self) -> bytes:
        """Decompresses the batch's records. Raises CorruptBatch."""
        return plain_records(self.batch, limit=self.limit)


Slices = Generator[Decompression | None, bytes | None, T]


class Effort:
    """Counts the units of work (records, headers, kibibytes) that a long request has done since it last yielded, so
    that it is decided in slices and other requests run in between.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = FIRST_SLICE

    @property
    def left(self) -> int:
        """The units of work that may still be done before the next yield, at least one."""
        return max(self._left, 1)

    def spend(self, units: int) -> Slices[None]:
        """Counts work that was done, and yields to other requests if the slice is used up."""
        self._left -= units
        if self._left <= 0:
            self._left = SLICE
            yield None


def decompress(batch: Batch, *, limit: int) -> Slices[bytes]:
    """Decompresses the batch's records, up to `limit` bytes: at once if they are small, else by yielding a
    Decompression for the driver to run.

    Raises CorruptBatch.
    """
    if limit <= SMALL_BYTES or not batch.header.codec:
        return plain_records(batch, limit=limit)
    try:
        return plain_records(batch, limit=SMALL_BYTES)
    except CorruptBatch as bad:
        if bad.error is not ErrorCode.message_too_large:
            raise
    plain = yield Decompression(batch, limit)
    assert plain is not None
    return plain
