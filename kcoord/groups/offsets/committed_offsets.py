"""The committed offsets of a group: the last one of each partition.

Members commit to the same partitions over and over, far more often than anybody reads the offsets. So a repeated commit
is only staged, replacing the member's last one, and all staged commits are folded in when the offsets are read or when
there are many. Staging a hundred offsets costs no more than staging one.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final

from kcoord.groups.records import OffsetDeleted, OffsetsStored, Stamp, StoredAgain, UsualPlaces
from kcoord.groups.usage import bytes_of_text

Kept = tuple[int, int, str, Stamp]  # offset, leader epoch, metadata
"""A committed offset with its metadata and commit info. It does not refer to its record, which holds many offsets."""

_OFFSET_BYTES: Final = 200  # in memory, besides its metadata: a tuple, its commit info, and an entry in a dict
_TOPIC_BYTES: Final = 500
_MOST_ASIDE: Final = 50_000  # offsets; a reader waits until they are folded in: 10 ms, or 40 if all are new


class KeptOffsets:
    __slots__ = ("_aside", "_by_topic", "_count_aside", "_has_texts", "held_bytes")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Kept]] = {}
        self._aside: dict[UsualPlaces, StoredAgain] = {}  # the last commit to each, in commit order
        self._count_aside = 0  # offsets
        self._has_texts = False
        self.held_bytes = 0  # without staged commits

    def bytes_added_by(self, topic: str, partitions: Sequence[int], metadata: Sequence[str]) -> int:
        """Returns how many bytes the commit would add at most. Metadata that it replaces is not subtracted."""
        kept = self._by_topic.get(topic)
        if kept is None:
            return _TOPIC_BYTES + len(partitions) * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))
        new = len(partitions) - len(kept.keys() & partitions)
        return new * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))

    def by_topic(self) -> Mapping[str, Mapping[int, Kept]]:
        """Returns all offsets by topic and partition, with staged commits folded in."""
        if self._aside:
            self._settle()
        return self._by_topic

    def keep(self, record: OffsetsStored) -> None:
        if self._aside:
            self._settle()
        partitions = self._by_topic.get(record.topic)
        if partitions is None:
            partitions = self._by_topic[record.topic] = {}
            self.held_bytes += _TOPIC_BYTES
        stamp = Stamp(record.committed_at_ms, record.expires_at_ms, record.topic_id)
        if len(record.partitions) == 1:
            partition, text = record.partitions[0], record.metadata[0]
            old = partitions.get(partition)
            partitions[partition] = (record.offsets[0], record.leader_epochs[0], text, stamp)
            self.held_bytes += bytes_of_text(text) + (_OFFSET_BYTES if old is None else -bytes_of_text(old[2]))
            self._has_texts = self._has_texts or bool(text)
            return
        self._has_texts = self._has_texts or any(record.metadata)
        before = self._bytes_of(partitions)
        # zip is faster than a Python loop, and commits of a hundred partitions are common.
        kept = zip(record.offsets, record.leader_epochs, record.metadata, repeat(stamp), strict=False)
        partitions.update(zip(record.partitions, kept, strict=False))
        self.held_bytes += self._bytes_of(partitions) - before

    def keep_again(self, record: StoredAgain) -> None:
        aside, places = self._aside, record.places
        if aside.pop(places, None) is None:
            self._count_aside += places.count
        aside[places] = record
        if self._count_aside > _MOST_ASIDE:
            self._settle()

    def forget(self, record: OffsetDeleted) -> None:
        if self._aside:
            self._settle()
        partitions = self._by_topic.get(record.topic, {})
        old = partitions.pop(record.partition, None)
        self.held_bytes -= _OFFSET_BYTES + bytes_of_text(old[2]) if old is not None else 0
        if not partitions and self._by_topic.pop(record.topic, None) is not None:
            self.held_bytes -= _TOPIC_BYTES

    def _bytes_of(self, partitions: Mapping[int, Kept]) -> int:
        texts = sum(bytes_of_text(kept[2]) for kept in partitions.values()) if self._has_texts else 0
        return len(partitions) * _OFFSET_BYTES + texts

    def _settle(self) -> None:
        """Folds all staged commits in."""
        aside, self._aside = self._aside, {}
        self._count_aside = 0
        for record in aside.values():
            for stored in record.spread():
                self.keep(stored)
