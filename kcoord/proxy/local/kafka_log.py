"""The journal on the upstream cluster, as the coordinator sees it: flushes are asynchronous.

Keys, values and the partition of each group are as in `__consumer_offsets` (offsets_log/encoding). A flush submits a
round to the writer's thread. Answers wait for it (held_responses); the event loop never does.

The loaded contents of a partition are dropped once they are read: later commits are only in the topic. If one
partition's groups are unloaded alone, as after a bug, the writer has to load the topic again.

A fenced proxy learns of it when it next writes. One that only answers heartbeats would go on forever. So no answer may
depend on a proof older than a few seconds: then even an empty flush submits a round.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from kcoord.broker.cluster import NodeId
from kcoord.broker.describe_cluster import offsets_partition
from kcoord.groups.records import CommitPartitions, Record, RepeatedCommit
from kcoord.metrics.counts import JournalCounts
from kcoord.offsets_log.decoding import Fact, FactReader
from kcoord.offsets_log.encoding import key_values
from kcoord.offsets_log.pending_batches import PendingBatch
from kcoord.protocol.records.batch import Batch
from kcoord.proxy.local.kafka_reader import Contents
from kcoord.proxy.local.kafka_writer import PROOF, Entry, Loaded, Round
from kcoord.server.groups.group_journal import JournalLost
from kcoord.storage.superseded import SupersededBatches

_TRUSTED: Final = 5.0
"""Seconds for which a committed transaction proves that this proxy is the writer."""


class _UnderWay(NamedTuple):
    """A round that is not committed yet."""

    begun_at: float
    size: int


class KafkaLog:
    """The journal of groups' records in a topic of the upstream cluster, as the group runtime uses it: a
    server.groups.group_journal.Journal whose flushes are asynchronous, and a held_responses.CommitSequence.

    `submit` passes a round of records to the writer's thread; `reload` makes it load the topic again unless that epoch
    is outdated.
    """

    def __init__(
        self, node_id: NodeId, partitions: int, submit: Callable[[Round], None], reload: Callable[[int], None]
    ) -> None:
        self.leaders: Sequence[NodeId] = [node_id] * partitions
        self.flushed: Collection[int] = range(partitions)  # all: a lost round takes all later ones with it
        self.is_ready = False
        self.submitted = self.committed = 0
        self._count = partitions
        self._submit = submit
        self._reload = reload
        self._epoch = 0
        self._pending: list[Entry] = []
        self._contents: list[Contents | None] = []  # by partition; None once it was read
        self._proven_at = 0.0
        self._under_way: dict[int, _UnderWay] = {}  # by the number of the round

    def partitions_to_load(self) -> Collection[int]:
        """Returns all partitions of the journal: none is read by a process that begins."""
        return range(self._count)

    def partition_of(self, group_id: str) -> int:
        """Returns the number of the journal partition that has the group's records."""
        return offsets_partition(group_id, self._count)

    def append(self, records: Sequence[Record], now_ms: int) -> None:
        """Appends all records for the next flush, or none if one of them cannot be encoded."""
        entries: list[Entry] = []
        for record in records:
            partition = self.partition_of(record.group_id)
            entries += [(partition, key, value) for key, value in key_values(record)]
        self._pending += entries

    def appender(self, partitions: CommitPartitions) -> "_Appender":
        """Returns an appender for repeated commits to these topic partitions."""
        return _Appender(self)

    def flush(self, now_ms: int) -> dict[int, str]:
        """Submits everything appended since the last flush to the writer thread, as a round to commit. It never fails
        here: the writer reports losses later.
        """
        now = time.monotonic()
        if (
            not self._pending
            and self.is_ready
            and self.committed == self.submitted
            and now - self._proven_at > _TRUSTED
        ):
            self._pending.append(PROOF)
        if self._pending:
            entries, self._pending = self._pending, []
            self.submitted += 1
            size = sum(len(key) + len(value or b"") for _, key, value in entries)
            self._under_way[self.submitted] = _UnderWay(begun_at=now, size=size)
            self._submit(Round(self.submitted, self._epoch, entries, now_ms))
        return {}

    def superseded_in(self, index: int) -> SupersededBatches:
        """Returns no batches: the upstream's broker compacts the topic."""
        return SupersededBatches()

    def read(self, index: int, reader: FactReader) -> Iterator[list[Fact]]:
        """Yields the decoded records of a partition of the journal, as they were loaded, in batches. Raises
        JournalLost.
        """
        epoch = self._epoch
        self._ensure_epoch(epoch)
        contents = self._contents[index]
        if contents is None:
            self._reload(epoch)
            raise JournalLost
        for batch in _batches(contents):
            yield list(reader.read(batch))
            self._ensure_epoch(epoch)
        self._contents[index] = None

    def _ensure_epoch(self, epoch: int) -> None:
        if not self.is_ready or self._epoch != epoch:
            raise JournalLost

    # The writer's reports

    def on_loaded(self, loaded: Loaded) -> None:
        """Takes the contents of the journal (the topic with groups' records), when the writer thread has read it."""
        self._epoch = loaded.epoch
        self._contents = [*loaded.partitions]
        self._proven_at = loaded.proven_at
        self.is_ready = True

    def on_committed(self, number: int, counts: JournalCounts) -> None:
        """Notes that all rounds up to this number are committed, and counts them in `counts`."""
        self.committed = number
        for earlier in [begun for begun in self._under_way if begun <= number]:
            round_ = self._under_way.pop(earlier)
            self._proven_at = round_.begun_at
            counts.written_bytes += round_.size
            counts.transactions.add(time.monotonic() - round_.begun_at)

    def on_lost(self) -> None:
        """Drops the rounds of records that are not committed: the journal will be read again."""
        self.is_ready = False
        self.committed = self.submitted
        self._under_way.clear()
        self._pending.clear()


def _batches(contents: Contents) -> Iterator[Batch]:
    """Packs contents into record batches, so that the readers of logs can read them."""
    pending = PendingBatch(0)
    for key, value in contents.items():
        if not pending.has_room_at(0):
            yield pending.sealed()
            pending = PendingBatch(0)
        pending.add(key, value, 0)
    if pending.count:
        yield pending.sealed()


class _Appender:
    """Appends repeated commits, each as an ordinary record."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log

    def append(self, record: RepeatedCommit, now_ms: int) -> None:
        self._log.append((record,), now_ms)
