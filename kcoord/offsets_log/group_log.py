"""The journal: facts of groups in the partitions of `__consumer_offsets`, in Kafka's format.

    append ─► records of each partition are pending, in batches ─► flush ─► one write per partition, then responses
    read   ◄─ facts, from the log's beginning on

Everything decided in one round of the event loop waits for the same flush, so many requests share one write. Kafka's
rule assigns a group to its partition; the number of partitions must not change.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, NodeId, Partition
from kcoord.broker.describe_cluster import offsets_partition
from kcoord.broker.log.partition_log import Refused
from kcoord.exceptions import CorruptData
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.offsets_log.commit_templates import CommitEncoder, CommitEncoders
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.offsets_log.pending_batches import Pending, add_fact
from kcoord.protocol.records.batch import Batch, has_valid_crc, split_batches
from kcoord.storage.superseded import SupersededBatches

_BATCHES_AT_ONCE: Final = 64
_READ_BYTES: Final = 1 << 18
"""Read at once: the event loop that loads groups must have time for other work in between."""


log = logging.getLogger("kcoord.storage")


class CorruptPartition(CorruptData, OSError):
    """Raised when a partition of `__consumer_offsets` is corrupt: it cannot be read to its end, however often that is
    tried."""


class GroupLog:
    """The log of all groups: writes their records to the partitions of `__consumer_offsets` and reads them back at
    start. Records are pending until `flush` writes all of them at once. The topic must exist with its final number of
    partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._partitions: Sequence[Partition] = cluster.topics[OFFSETS_TOPIC].partitions
        self._count = len(self._partitions)
        self._pending: dict[int, Pending] = {}
        self._encoders = CommitEncoders()
        self._superseded = [SupersededBatches() for _ in self._partitions]
        self.flushed: Collection[int] = ()  # The partitions that the last flush wrote to.

    @property
    def partitions(self) -> Sequence[Partition]:
        """The partitions of `__consumer_offsets`."""
        return self._partitions

    @property
    def leaders(self) -> Sequence[NodeId]:
        """The node that coordinates the groups of each partition of `__consumer_offsets`."""
        return [partition.leader for partition in self._partitions]

    @property
    def is_ready(self) -> bool:
        """Whether the log can be read now, which is always so here; in a proxy's log it may not be."""
        return True

    def partitions_to_load(self) -> Collection[int]:
        """Returns the partitions of `__consumer_offsets` that hold records, or whose log has failed."""
        return [each.index for each in self._partitions if each.log.size or each.log.is_failed]

    def partition_of(self, group_id: str) -> int:
        """Returns the partition of `__consumer_offsets` that holds the group."""
        return offsets_partition(group_id, self._count)

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Makes these records of groups pending, in their order; the next flush writes them."""
        for record in records:
            pending = self._pending_of(record.group_id)
            if isinstance(record, RepeatedCommit):
                self._encoders.encoder_of(record.partitions).add(pending, record, now_ms)
            else:
                add_fact(pending, record, now_ms)

    def appender(self, partitions: CommitPartitions) -> "CommitAppender":
        """Returns an object that appends a member's repeated OffsetCommits to these partitions as `append` does, in
        fewer steps."""
        return CommitAppender(
            self._pending, offsets_partition(partitions.group_id, self._count), self._encoders.encoder_of(partitions)
        )

    def _pending_of(self, group_id: str) -> Pending:
        return self._pending.setdefault(offsets_partition(group_id, self._count), [])

    def flush(self, now_ms: int) -> dict[int, str]:
        """Writes all pending records to the partitions' logs. Returns the reason for each partition of which some could
        not be written; an empty dict if all were."""
        if not self._pending:
            self.flushed = ()
            return {}
        pending = self._pending.copy()
        self._pending.clear()
        self.flushed = pending.keys()
        failed = {}
        for index, batches in pending.items():
            try:
                if refused := self._write(self._partitions[index], batches, now_ms):
                    failed[index] = refused.message or refused.error.name
            except Exception as bug:  # One partition must not stop the others.
                log.exception("bug partition=%s: what waits cannot be written", index)
                failed[index] = repr(bug)
        return failed

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns which batches of this partition are superseded, so that compaction need not read them."""
        return self._superseded[index]

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """Yields the records of groups in this partition, from its beginning on, a list of some at a time. Raises
        CorruptPartition, or OSError where the disk fails."""
        log = self._partitions[index].log
        offset, end = log.start_offset, log.end_offset
        if log.is_failed:
            raise CorruptPartition("its log has failed")
        while offset < end:
            facts: list[Fact] = []
            try:
                content = log.read_internal(offset, max_bytes=_READ_BYTES)
                if not content:
                    break
                for batch in _valid_batches(content):
                    facts += reader.read(batch)
                    offset = batch.header.last_offset + 1
            except CorruptData as error:
                raise CorruptPartition(str(error)) from error
            yield facts

    def _write(self, partition: Partition, pending: Pending, now_ms: int) -> Refused | None:
        """Writes the batches at once, or in several writes if there are many; an earlier one may succeed and a later
        one fail.
        """
        for start in range(0, len(pending), _BATCHES_AT_ONCE):
            batches, base_offset = pending[start : start + _BATCHES_AT_ONCE], partition.log.end_offset
            outcome = partition.log.append_internal([batch.sealed() for batch in batches], now_ms)
            if isinstance(outcome, Refused):
                return outcome
            self._superseded[partition.index].on_written(batches, base_offset)
            self._cluster.appended(partition, outcome)
        return None


class CommitAppender:
    """Appends repeated OffsetCommits of one member, always to the same partitions, to the log of `__consumer_offsets`,
    in fewer steps than `GroupLog.append`."""

    __slots__ = ("_encoder", "_partition", "_pending")

    def __init__(self, pending: dict[int, Pending], partition: int, encoder: CommitEncoder) -> None:
        self._pending = pending
        self._partition = partition
        self._encoder = encoder

    def append(self, record: RepeatedCommit, now_ms: int) -> None:
        """Makes a repeated commit pending; the next flush of the log writes it."""
        batches = self._pending.get(self._partition)
        if batches is None:
            batches = self._pending[self._partition] = []
        self._encoder.add(batches, record, now_ms)


def _valid_batches(content: bytes) -> Iterator[Batch]:
    for batch in split_batches(content):
        if not has_valid_crc(batch):
            raise CorruptPartition(f"the batch of offset {batch.header.base_offset} is damaged: its checksum is wrong")
        yield batch
