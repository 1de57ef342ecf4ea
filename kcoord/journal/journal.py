"""What a journal is, and the one of a coordinator that keeps nothing beyond its process."""

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
    def append(self, records: Sequence[Record]) -> None:
        pass

    def recover(self) -> Iterable[Record]:
        return ()
