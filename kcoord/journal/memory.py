"""A journal of a coordinator that is stopped and started within one process, as tests and simulations do."""

from collections.abc import Iterable, Sequence

from kcoord.groups.records import Record


class MemoryJournal:
    def __init__(self) -> None:
        self._records: list[Record] = []

    def append(self, records: Sequence[Record]) -> None:
        self._records += records

    def recover(self) -> Iterable[Record]:
        return tuple(self._records)
