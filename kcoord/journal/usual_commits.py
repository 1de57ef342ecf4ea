"""Commits of many offsets that come again and again, each written by one call of struct.

A member commits to the same partitions each time (groups/records: UsualPlaces). The batch that such a commit becomes
differs from the last one in the offsets and the times only, if nothing else is in it. So a batch is made of it alone,
and what stays the same in it is kept:

    … partition, value start | offset | epoch, "" | time | topic id, next record … | offset | epoch, "" | time | …
"""

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final

from kcoord.groups.records import OffsetsStored, StoredAgain, UsualPlaces
from kcoord.journal.encoding import MOST_RECORDS, PendingBatch, SealedBatch, offset_parts

_LEAST_OFFSETS: Final = 8  # fewer share a batch with others
_MOST_TEMPLATES: Final = 500
_FIELDS: Final = 4  # of each record: what is before its offset, the offset, what is between, the time
_OFFSET, _TIME = 1, 3


class UsualCommits:
    """Remembers how the commits to usual places are written."""

    def __init__(self) -> None:
        self._templates: dict[UsualPlaces, _Template] = {}

    def batch_of(self, fact: StoredAgain, now_ms: int) -> SealedBatch | None:
        """The batch of such a commit; None if it is to be written as any other."""
        template = self._templates.get(fact.places)
        if template is None:
            if not _LEAST_OFFSETS <= fact.places.count <= MOST_RECORDS or fact.places.has_texts:
                return None
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[fact.places] = _Template(fact.places.stored)
        return template.batch(fact, now_ms)


class _Template:
    __slots__ = ("_count", "_pack", "_parts")

    def __init__(self, stored: Sequence[OffsetsStored]) -> None:
        pending = PendingBatch(0)
        for each in stored:
            start = 0
            while start < len(each.partitions):
                start = pending.add_offsets(each, start, 0)
        self._count = pending.count
        self._parts, self._pack = _taken_apart(pending.plain, stored)

    def batch(self, fact: StoredAgain, now_ms: int) -> SealedBatch:
        parts = self._parts.copy()
        parts[_OFFSET::_FIELDS] = fact.offsets
        parts[_TIME::_FIELDS] = (fact.committed_at_ms,) * self._count
        return SealedBatch(self._pack(*parts), self._count, now_ms)


def _taken_apart(plain: Sequence[bytes], facts: Sequence[OffsetsStored]) -> tuple[list[Any], Callable[..., bytes]]:
    """What stays the same in the records, with gaps for what does not, and how to put it together."""
    topic_ids = chain.from_iterable([[fact.topic_id] * len(fact.partitions) for fact in facts])
    parts: list[Any] = []
    same: dict[bytes, bytes] = {}  # most records have the same between, and one object is enough
    forms, before = [">"], b""
    for record, topic_id in zip(plain, topic_ids, strict=True):
        start, between, end = offset_parts(record, topic_id)
        parts += [before + start, 0, same.setdefault(between, between), 0]
        forms.append(f"{len(before) + len(start)}sq{len(between)}sq")
        before = end
    return [*parts, before], Struct("".join([*forms, f"{len(before)}s"])).pack
