"""Commits that come again and again, each written by one call of struct.

A member commits to the same partitions each time (groups/records: UsualPlaces). Of a commit of one offset, all but that
and its place in the batch is kept. The batch that a commit of many becomes differs from the last one in the offsets and
the times only, if nothing else is in it. So a batch is made of it alone, and what stays the same in it is kept:

    … partition, value start | offset | epoch, "" | time | topic id, next record … | offset | epoch, "" | time | …
"""

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final

from kcoord.groups.records import OffsetsStored, StoredAgain, UsualPlaces
from kcoord.journal.encoding import (
    MOST_RECORDS,
    OffsetLine,
    Pending,
    PendingBatch,
    SealedBatch,
    add_fact,
    last,
    offset_line,
    offset_parts,
)

_LEAST_OFFSETS: Final = 8  # fewer share a batch with others
_MOST_WAYS: Final = 500
_FIELDS: Final = 4  # of each record: what is before its offset, the offset, what is between, the time
_OFFSET, _TIME = 1, 3

Way = Callable[[Pending, StoredAgain, int], None]


class UsualCommits:
    """Remembers how the commits to usual places are written."""

    def __init__(self) -> None:
        self._ways: dict[UsualPlaces, Way] = {}

    def way(self, places: UsualPlaces) -> Way:
        """How to put such a commit behind those that wait, as `add_fact` would."""
        way = self._ways.get(places)
        if way is None:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            way = self._ways[places] = _way(places)
        return way


def _way(places: UsualPlaces) -> Way:
    if places.has_texts:
        return add_fact
    if places.count == 1:
        return _Line(offset_line(places.stored[0])).add
    return _Template(places.stored).add if _LEAST_OFFSETS <= places.count <= MOST_RECORDS else add_fact


class _Line:
    """Of commits that share a batch with others: of one offset."""

    __slots__ = ("_line",)

    def __init__(self, line: OffsetLine) -> None:
        self._line = line

    def add(self, batches: Pending, fact: StoredAgain, now_ms: int) -> None:
        _, _, (offset,), at_ms = fact
        last(batches, now_ms).add_offset(self._line, offset, at_ms, now_ms)


class _Template:
    """Of commits that are a batch each."""

    __slots__ = ("_count", "_pack", "_parts")

    def __init__(self, stored: Sequence[OffsetsStored]) -> None:
        pending = PendingBatch(0)
        for each in stored:
            start = 0
            while start < len(each.partitions):
                start = pending.add_offsets(each, start, 0)
        self._count = pending.count
        self._parts, self._pack = _taken_apart(pending.plain, stored)

    def add(self, batches: Pending, fact: StoredAgain, now_ms: int) -> None:
        parts = self._parts.copy()
        parts[_OFFSET::_FIELDS] = fact.offsets
        parts[_TIME::_FIELDS] = (fact.committed_at_ms,) * self._count
        batches.append(SealedBatch(self._pack(*parts), self._count, now_ms))


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
