"""Where records of groups are kept, as the runtime of groups asks for it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from kcoord.broker.cluster import NodeId
from kcoord.groups.records import Record, StoredAgain, UsualPlaces
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.storage.superseded import Overtaken


class JournalLost(Exception):
    """While it was read: nothing of that counts, and whoever drives it says when it is ready again."""


class Appending(Protocol):
    def append(self, record: StoredAgain, now_ms: int) -> None: ...


class Journal(Protocol):
    """Where records of groups are kept: a GroupLog, unless somebody brings another."""

    @property
    def flushed(self) -> Collection[int]:
        """The partitions that the last flush wrote to."""

    @property
    def leaders(self) -> Sequence[NodeId]:
        """By partition, the node that coordinates its groups."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be read now."""

    def unread(self) -> Collection[int]:
        """The partitions that are to be read before their groups can be asked for."""

    def partition_of(self, group_id: str) -> int: ...

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Have these kept with the next flush, in their order."""

    def appending(self, places: UsualPlaces) -> Appending:
        """How to append commits to these places, as `append` does."""

    def flush(self, now_ms: int) -> dict[int, str]:
        """Keep all that waits, and say why not of the partitions of which something is not kept."""

    def overtaken_in(self, index: int) -> Overtaken:
        """What compaction of the partition need not read."""

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """What the partition holds, some at a time. Raises Unsound, OSError where it may be otherwise later, or
        JournalLost."""
