"""The journal of groups' records, as the group runtime uses it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from kcoord.broker.cluster import NodeId
from kcoord.exceptions import RemoteFailure
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.storage.superseded import SupersededBatches


class JournalLost(RemoteFailure):
    """The journal was lost while it was being read: nothing that was read counts, until it is ready again."""


class JournalAppender(Protocol):
    def append(self, record: RepeatedCommit, now_ms: int) -> None: ...


class Journal(Protocol):
    """Stores the records of groups: a GroupLog, unless another implementation is given."""

    @property
    def flushed(self) -> Collection[int]:
        """The partitions that the last flush wrote to."""

    @property
    def leaders(self) -> Sequence[NodeId]:
        """The node that coordinates the groups of each partition."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be read now."""

    def partitions_to_load(self) -> Collection[int]:
        """Returns the partitions that must be loaded before their groups are available."""

    def partition_of(self, group_id: str) -> int: ...

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Appends records in order; the next flush makes them durable."""

    def appender(self, partitions: CommitPartitions) -> JournalAppender:
        """Returns an appender for repeated commits to these partitions, with the effect of `append`."""

    def flush(self, now_ms: int) -> dict[int, str]:
        """Makes all appended records durable; returns the reason for each partition that failed."""

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns the batches of the partition that compaction need not read."""

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """Yields the contents of the partition in parts. Raises CorruptPartition, OSError if a retry may succeed, or
        JournalLost."""
