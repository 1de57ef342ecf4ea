"""The committed offsets of a group: the last one of each partition.

Members commit to the same partitions over and over, far more often than anybody reads the offsets. So a repeated commit
is only staged, replacing the member's last one, and all staged commits are folded in when the offsets are read or when
there are many. Staging a hundred offsets costs no more than staging one.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final

from kcoord.groups.records import CommitInfo, CommitPartitions, OffsetDeleted, OffsetsStored, RepeatedCommit
from kcoord.groups.usage import bytes_of_text

OffsetAndMetadata = tuple[int, int, str, CommitInfo]  # offset, leader epoch, metadata
"""A committed offset with its metadata and commit info. It does not refer to its record, which holds many offsets."""

_OFFSET_BYTES: Final = 200  # in memory, besides its metadata: a tuple, its commit info, and an entry in a dict
_TOPIC_BYTES: Final = 500
_MAX_STAGED: Final = 50_000  # offsets; a reader waits until they are folded in: 10 ms, or 40 if all are new


class CommittedOffsets:
    """The committed offsets of one group in memory: the last one of each partition. Repeated commits are staged, and
    folded in when the offsets are read."""

    __slots__ = ("_by_topic", "_has_metadata", "_staged", "_staged_count", "held_bytes")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, OffsetAndMetadata]] = {}
        self._staged: dict[CommitPartitions, RepeatedCommit] = {}  # the last commit to each, in commit order
        self._staged_count = 0  # offsets
        self._has_metadata = False
        self.held_bytes = 0  # without staged commits

    def bytes_added_by(self, topic: str, partitions: Sequence[int], metadata: Sequence[str]) -> int:
        """Returns how many bytes of memory a commit to these partitions of a topic would add at most. Metadata that it
        replaces is not subtracted."""
        committed = self._by_topic.get(topic)
        if committed is None:
            return _TOPIC_BYTES + len(partitions) * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))
        new = len(partitions) - len(committed.keys() & partitions)
        return new * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))

    def by_topic(self) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Returns all committed offsets by topic and partition."""
        if self._staged:
            self._fold_staged()
        return self._by_topic

    def apply(self, record: OffsetsStored) -> None:
        """Stores the offsets of a commit to one topic."""
        if self._staged:
            self._fold_staged()
        partitions = self._by_topic.get(record.topic)
        if partitions is None:
            partitions = self._by_topic[record.topic] = {}
            self.held_bytes += _TOPIC_BYTES
        info = CommitInfo(record.committed_at_ms, record.expires_at_ms, record.topic_id)
        if len(record.partitions) == 1:
            partition, text = record.partitions[0], record.metadata[0]
            old = partitions.get(partition)
            partitions[partition] = (record.offsets[0], record.leader_epochs[0], text, info)
            self.held_bytes += bytes_of_text(text) + (_OFFSET_BYTES if old is None else -bytes_of_text(old[2]))
            self._has_metadata = self._has_metadata or bool(text)
            return
        self._has_metadata = self._has_metadata or any(record.metadata)
        before = self._bytes_of(partitions)
        # zip is faster than a Python loop, and commits of a hundred partitions are common.
        entries = zip(record.offsets, record.leader_epochs, record.metadata, repeat(info), strict=False)
        partitions.update(zip(record.partitions, entries, strict=False))
        self.held_bytes += self._bytes_of(partitions) - before

    def apply_repeated(self, record: RepeatedCommit) -> None:
        """Stages a repeated commit, which replaces the last staged one to the same partitions."""
        staged, partitions = self._staged, record.partitions
        if staged.pop(partitions, None) is None:
            self._staged_count += partitions.count
        staged[partitions] = record
        if self._staged_count > _MAX_STAGED:
            self._fold_staged()

    def forget(self, record: OffsetDeleted) -> None:
        """Removes the offset that the tombstone names, if there is one."""
        if self._staged:
            self._fold_staged()
        partitions = self._by_topic.get(record.topic, {})
        old = partitions.pop(record.partition, None)
        self.held_bytes -= _OFFSET_BYTES + bytes_of_text(old[2]) if old is not None else 0
        if not partitions and self._by_topic.pop(record.topic, None) is not None:
            self.held_bytes -= _TOPIC_BYTES

    def _bytes_of(self, partitions: Mapping[int, OffsetAndMetadata]) -> int:
        texts = sum(bytes_of_text(entry[2]) for entry in partitions.values()) if self._has_metadata else 0
        return len(partitions) * _OFFSET_BYTES + texts

    def _fold_staged(self) -> None:
        """Folds all staged commits in."""
        staged, self._staged = self._staged, {}
        self._staged_count = 0
        for record in staged.values():
            for stored in record.expand():
                self.apply(stored)
