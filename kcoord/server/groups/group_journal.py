"""The journal of groups' records, as the group runtime uses it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from kcoord.broker.cluster import NodeId
from kcoord.exceptions import RemoteFailure
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.storage.superseded import SupersededBatches


class JournalLost(RemoteFailure):
    """Raised when the journal (the log of groups' records) is lost while it is read: nothing that was read counts,
    until it is ready again."""


class JournalAppender(Protocol):
    """Appends commits that a client repeats for the same partitions to the journal (the log of groups' records), faster
    than `Journal.append`."""

    def append(self, record: RepeatedCommit, now_ms: int) -> None:
        """Appends one commit; the next flush makes it durable."""


class Journal(Protocol):
    """The log of groups' records (Kafka's __consumer_offsets), as the group runtime uses it: a GroupLog, unless another
    implementation is given."""

    @property
    def flushed(self) -> Collection[int]:
        """The partitions of the journal (the log of groups' records) that the last flush wrote to."""

    @property
    def leaders(self) -> Sequence[NodeId]:
        """The node that coordinates the groups of each partition of the journal (the log of groups' records), by
        partition number."""

    @property
    def is_ready(self) -> bool:
        """Whether the journal (the log of groups' records) can be read now."""

    def partitions_to_load(self) -> Collection[int]:
        """Returns the partitions of the journal (the log of groups' records) that must be loaded before their groups
        are available."""

    def partition_of(self, group_id: str) -> int:
        """Returns the number of the partition that has the group's records, as in __consumer_offsets."""

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Appends groups' records in order; the next flush makes them durable."""

    def appender(self, partitions: CommitPartitions) -> JournalAppender:
        """Returns an appender for repeated commits to these topic partitions, with the effect of `append`."""

    def flush(self, now_ms: int) -> dict[int, str]:
        """Makes all appended records durable; returns the reason of the failure for each partition of the journal that
        failed."""

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns the batches of a journal partition that compaction need not read, because later records supersede all
        of theirs."""

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """Yields the decoded records (facts) of a journal partition in parts. Raises CorruptPartition, OSError if a
        retry may succeed, or JournalLost."""
