"""The offsets of a group: the last that was committed to each partition.

Members commit again and again to the same partitions, far more often than anybody asks where they are. So such a commit
is only put aside, in place of the member's last one, and all that was put aside is put in its place when somebody looks
or when it is much. To put aside a hundred offsets is no more work than one.
"""

from collections.abc import Mapping
from itertools import repeat
from typing import Final

from kcoord.groups.records import OffsetDeleted, OffsetsStored, Stamp, StoredAgain, UsualPlaces

Kept = tuple[int, int, str, Stamp]  # offset, leader epoch, metadata
"""An offset, and when and how it came. Not its record, which holds all that was committed with it."""

_MOST_ASIDE: Final = 50_000  # offsets: whoever looks waits until they are in place, 10 ms, or 40 where all are new


class KeptOffsets:
    __slots__ = ("_aside", "_by_topic", "_count_aside")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, Kept]] = {}
        self._aside: dict[UsualPlaces, StoredAgain] = {}  # the last commit to each, in the order of these
        self._count_aside = 0  # offsets

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
        stamp = Stamp(record.committed_at_ms, record.expires_at_ms, record.topic_id)
        if len(record.partitions) == 1:
            kept_alone = (record.offsets[0], record.leader_epochs[0], record.metadata[0], stamp)
            partitions[record.partitions[0]] = kept_alone
            return
        # By zip rather than by a loop of our own, which is slower: a hundred partitions at once are common.
        kept = zip(record.offsets, record.leader_epochs, record.metadata, repeat(stamp), strict=False)
        partitions.update(zip(record.partitions, kept, strict=False))

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
        partitions.pop(record.partition, None)
        if not partitions:
            self._by_topic.pop(record.topic, None)

    def _settle(self) -> None:
        """Put in its place what was put aside."""
        aside, self._aside = self._aside, {}
        self._count_aside = 0
        for record in aside.values():
            for stored in record.spread():
                self.keep(stored)
