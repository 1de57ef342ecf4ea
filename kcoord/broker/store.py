"""Where the bytes of a segment are kept.

Nothing is opened here: whoever makes the cluster hands in how stores are made. journal/file_store has those with files.
"""

from collections.abc import Callable
from typing import Protocol


class Store(Protocol):
    """Bytes that grow at their end. What the system refuses is an OSError."""

    @property
    def size(self) -> int: ...

    def append(self, content: bytearray) -> None:
        """Take all of it in; if that fails, nothing of it is there."""

    def read(self, position: int, size: int) -> bytes:
        """So many bytes from this position on, fewer where the store ends."""

    def truncate(self, size: int) -> None:
        """Keep the first so many bytes."""

    def close(self) -> None:
        """Give back what was taken from the system; the store is not used again."""


MakeStore = Callable[[], Store]


class MemoryStore:
    """All of it in memory: for what ends with a test."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def size(self) -> int:
        return len(self._bytes)

    def append(self, content: bytearray) -> None:
        self._bytes += content

    def read(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._bytes)[position : position + size])

    def truncate(self, size: int) -> None:
        del self._bytes[size:]

    def close(self) -> None:
        self._bytes.clear()
