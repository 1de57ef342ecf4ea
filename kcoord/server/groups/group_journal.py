"""The journal of groups' records, as the group runtime uses it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from kcoord.broker.cluster import NodeId
from kcoord.exceptions import RemoteFailure
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.storage.superseded import SupersededBatches


class JournalLost(RemoteFailure):
    """Raised when the journal of groups is lost while it is read: nothing that was read counts, until it is ready
    again."""


class JournalAppender(Protocol):
    """Appends repeated commits to the same partitions to the journal, faster than `Journal.append`."""

    def append(self, record: RepeatedCommit, now_ms: int) -> None:
        """Appends one commit; the next flush makes it durable."""


class Journal(Protocol):
    """The log of groups' records (Kafka's __consumer_offsets), as the group runtime uses it: a GroupLog, unless another
    implementation is given."""

    @property
    def flushed(self) -> Collection[int]:
        """The journal partitions that the last flush wrote to."""

    @property
    def leaders(self) -> Sequence[NodeId]:
        """The node that coordinates the groups of each journal partition, by partition number."""

    @property
    def is_ready(self) -> bool:
        """Whether the journal can be read now."""

    def partitions_to_load(self) -> Collection[int]:
        """Returns the journal partitions that must be loaded before their groups are available."""

    def partition_of(self, group_id: str) -> int:
        """Returns the number of the journal partition that has the group's records."""

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Appends records in order; the next flush makes them durable."""

    def appender(self, partitions: CommitPartitions) -> JournalAppender:
        """Returns an appender for repeated commits to these topic partitions, with the effect of `append`."""

    def flush(self, now_ms: int) -> dict[int, str]:
        """Makes all appended records durable; returns the reason of the failure for each journal partition
        that failed.
        """

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns the batches of a journal partition that compaction need not read, since later records
        supersede them.
        """

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """Yields the decoded records (facts) of a journal partition in parts. Raises CorruptPartition, OSError if a
        retry may succeed, or JournalLost."""
