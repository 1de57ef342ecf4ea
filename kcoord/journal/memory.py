"""What a journal is, and the two that keep nothing beyond the process."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from kcoord.groups.records import Record


class CannotAppend(OSError):
    """Records could not be kept; none of those that were given at once is."""


class Journal(Protocol):
    def append(self, records: Sequence[Record]) -> None:
        """Keep all of these or none. Raises CannotAppend."""

    def recover(self) -> Iterable[Record]:
        """What was kept, the oldest first."""


class NoJournal:
    """Of a coordinator whose groups end with the process."""

    def append(self, records: Sequence[Record]) -> None:
        pass

    def recover(self) -> Iterable[Record]:
        return ()


class MemoryJournal:
    """Of a coordinator that is stopped and started within one process."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def append(self, records: Sequence[Record]) -> None:
        self._records += records

    def recover(self) -> Iterable[Record]:
        return tuple(self._records)
