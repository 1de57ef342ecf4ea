"""Writes a client's requests to its broker, and buffers them while there is none."""

from collections.abc import Callable
from typing import Protocol

from kcoord.proxy.forwarding.backpressure import MAX_UNSENT_BYTES


class Writable(Protocol):
    """A connection that can be written to, such as an asyncio transport."""

    def write(self, data: bytes | memoryview, /) -> None: ...

    def writelines(self, pieces: list[bytes | memoryview], /) -> None: ...


class UpstreamWriter:
    """Writes to the broker's transport once there is one; what is written earlier is sent first, in its order."""

    __slots__ = ("_on_buffered", "_unsent", "unsent_bytes", "write")

    def __init__(self, on_buffered: Callable[[], None]) -> None:
        """`on_buffered` is called after each write while no broker is connected."""
        self.write: Callable[[bytes | memoryview], None] = self._buffer
        self.unsent_bytes = 0
        self._unsent: list[bytes | memoryview] = []
        self._on_buffered = on_buffered

    @property
    def needs_broker(self) -> bool:
        """Whether the first bytes have just been buffered, so that a broker has to be connected."""
        return len(self._unsent) == 1

    @property
    def is_full(self) -> bool:
        return self.unsent_bytes > MAX_UNSENT_BYTES

    def connect(self, transport: Writable) -> bool:
        """Writes to this transport from now on; returns whether buffered bytes were sent."""
        self.write = transport.write
        if not self._unsent:
            return False
        transport.writelines(self._unsent)
        self.drop()
        return True

    def disconnect(self) -> None:
        """Buffers what is written, until the next `connect`."""
        self.write = self._buffer

    def drop(self) -> None:
        """Discards buffered bytes."""
        self._unsent, self.unsent_bytes = [], 0

    def _buffer(self, part: bytes | memoryview) -> None:
        self._unsent.append(part)
        self.unsent_bytes += len(part)
        self._on_buffered()
