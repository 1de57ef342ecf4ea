"""The offsets of a group: the last that was committed to each partition.

Members commit again and again to the same partitions, far more often than anybody asks where they are. So such a commit
is only put aside, in place of the member's last one, and all that was put aside is put in its place when somebody looks
or when it is much. To put aside a hundred offsets is no more work than one.
"""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Final

from kcoord.groups.records import OffsetDeleted, OffsetsStored, Stamp, StoredAgain, UsualPlaces
from kcoord.groups.usage import bytes_of_text

Kept = tuple[int, int, str, Stamp]  # offset, leader epoch, metadata
"""An offset, and when and how it came. Not its record, which holds all that was committed with it."""

_OFFSET_BYTES: Final = 200  # in memory, beside its metadata: a tuple, its stamp, and a place in a table
_TOPIC_BYTES: Final = 500
_MOST_ASIDE: Final = 50_000  # offsets: whoever looks waits until they are in place, 10 ms, or 40 where all are new


class KeptOffsets:
    __slots__ = ("_aside", "_by_topic", "_count_aside", "_has_texts", "held_bytes")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Kept]] = {}
        self._aside: dict[UsualPlaces, StoredAgain] = {}  # the last commit to each, in the order of these
        self._count_aside = 0  # offsets
        self._has_texts = False
        self.held_bytes = 0  # of those that are in their place

    def bytes_added_by(self, topic: str, partitions: Sequence[int], metadata: Sequence[str]) -> int:
        """How much more would be held, at most, if this were committed; what its metadata replaces is left aside."""
        kept = self._by_topic.get(topic)
        if kept is None:
            return _TOPIC_BYTES + len(partitions) * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))
        new = len(partitions) - len(kept.keys() & partitions)
        return new * _OFFSET_BYTES + sum(map(bytes_of_text, metadata))

    def by_topic(self) -> Mapping[str, Mapping[int, Kept]]:
        """All of them, by topic and partition."""
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
        # By zip rather than by a loop of our own, which is slower: a hundred partitions at once are common.
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
        """Put in its place what was put aside."""
        aside, self._aside = self._aside, {}
        self._count_aside = 0
        for record in aside.values():
            for stored in record.spread():
                self.keep(stored)
