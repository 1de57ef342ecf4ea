"""An answer that is forwarded while it arrives. Pure.

A Fetch answer may name brokers in its tail, the tagged fields at its end (node_endpoints). All that comes before the
tail is forwarded, and the tail is held until it is whole. A tail of one byte has no fields and is not held.
"""

from kcoord.protocol.frames import LENGTH_BYTES, CorruptMessage
from kcoord.proxy.rewriting.fetch_scanner import FetchScanner


class StreamedAnswer:
    """One broker's answer that is forwarded while it arrives. Each received chunk that has a part of it goes through
    `take`; what names brokers at its end, its tail, is held back so that it can be rewritten."""

    __slots__ = ("_prefix_bytes", "_scanner", "_tail", "remaining")

    def __init__(self, length: int, scanner: FetchScanner | None = None) -> None:
        """Begins an answer of this length, its prefix not counted. With a scanner its tail is held back."""
        self.remaining = LENGTH_BYTES + length
        self._prefix_bytes = LENGTH_BYTES
        self._scanner = scanner
        self._tail: bytearray | None = None

    @property
    def holds_tail(self) -> bool:
        """Whether the tail of the answer, which may name brokers, has begun: no further byte is forwarded as it is."""
        return self._tail is not None

    def take(self, chunk: bytes, position: int) -> tuple[int, int]:
        """Takes the part of the answer that begins at this position of the chunk; the first part has the whole length
        prefix.

        Returns two positions in the chunk: where the bytes end that may be forwarded now, and where the part ends. The
        bytes between them are held back. Raises CorruptMessage.
        """
        end = min(position + self.remaining, len(chunk))
        forwarded_end = position if self._tail is not None else end
        if self._scanner:
            forwarded_end = self._scanner.feed(chunk, position + self._prefix_bytes, end)
            self._prefix_bytes = 0
            if self._scanner.is_at_tail:
                self._scanner = None
                if self.remaining - (forwarded_end - position) == 1:
                    forwarded_end = end
                else:
                    self._tail = bytearray()
        if self._tail is not None:
            self._tail += memoryview(chunk)[forwarded_end:end]
        self.remaining -= end - position
        return forwarded_end, end

    def finish(self) -> bytes | None:
        """Returns the tail that was held back, for it to be rewritten, when the whole answer has arrived; None if
        nothing was. Raises CorruptMessage if the answer ended before its tail."""
        if self._scanner:
            raise CorruptMessage("a Fetch answer that ends too early")
        return None if self._tail is None else bytes(self._tail)
