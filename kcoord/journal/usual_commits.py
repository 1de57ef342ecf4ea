"""Commits of many offsets that come again and again, each written by one call of struct.

A member commits to the same partitions each time, and its coordinator hands on the very same columns but for the
offsets (groups/committing). The batch that such a commit becomes differs from the last one in the offsets and the times
only, if nothing else is in it. So a batch is made of it alone, and what stays the same in it is kept:

    … partition, value start | offset | epoch, "" | time | topic id, next record … | offset | epoch, "" | time | …
"""

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final, TypeGuard

from kcoord.groups.records import OffsetsStored, Record
from kcoord.journal.encoding import MOST_RECORDS, PendingBatch, SealedBatch, offset_parts

_LEAST_OFFSETS: Final = 8  # fewer share a batch with others
_MOST_TEMPLATES: Final = 500
_FIELDS: Final = 4  # of each record: what is before its offset, the offset, what is between, the time
_OFFSET, _TIME = 1, 3


class UsualCommits:
    """Remembers the commits that were seen twice."""

    def __init__(self) -> None:
        self._templates: dict[int, _Template] = {}
        self._seen: set[int] = set()

    def batch_of(self, facts: Sequence[Record], now_ms: int) -> SealedBatch | None:
        """The batch of these facts, if they are a commit that is known; None if they are to be written as any other."""
        if not _is_worth_it(facts):
            return None
        name = id(facts[0].partitions)
        template = self._templates.get(name)
        if template is not None and template.matches(facts):
            return template.batch(facts, now_ms)
        if name not in self._seen:
            if len(self._seen) >= _MOST_TEMPLATES:
                self._seen.clear()
            self._seen.add(name)  # of what may be gone by now, and another there: that costs a template at most
            return None
        if any(any(fact.metadata) or fact.expires_at_ms is not None for fact in facts):
            return None
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        self._templates[name] = _Template(facts)
        return None


class _Template:
    """It holds the facts that it was made of, so that their columns stay what they are."""

    __slots__ = ("_count", "_facts", "_pack", "_parts")

    def __init__(self, facts: Sequence[OffsetsStored]) -> None:
        pending = PendingBatch(0)
        for fact in facts:
            start = 0
            while start < len(fact.partitions):
                start = pending.add_offsets(fact, start, 0)
        self._facts = facts
        self._count = pending.count
        self._parts, self._pack = _taken_apart(pending.plain, facts)

    def matches(self, facts: Sequence[OffsetsStored]) -> bool:
        if len(facts) != len(self._facts):
            return False
        for fact, known in zip(facts, self._facts, strict=True):
            is_same = (
                fact.partitions is known.partitions
                and fact.leader_epochs is known.leader_epochs
                and fact.metadata is known.metadata
                and fact.topic_id is known.topic_id
                and fact.expires_at_ms is None
                and fact.topic == known.topic
            )
            if not is_same:
                return False
        return facts[0].group_id == self._facts[0].group_id

    def batch(self, facts: Sequence[OffsetsStored], now_ms: int) -> SealedBatch:
        parts = self._parts.copy()
        parts[_OFFSET::_FIELDS] = chain.from_iterable([fact.offsets for fact in facts])
        parts[_TIME::_FIELDS] = [facts[0].committed_at_ms] * self._count
        return SealedBatch(self._pack(*parts), self._count, now_ms)


def _is_worth_it(facts: Sequence[Record]) -> TypeGuard[Sequence[OffsetsStored]]:
    """Whether these are all that was committed at once, and enough for a batch of their own."""
    count = 0
    for fact in facts:
        if not isinstance(fact, OffsetsStored):
            return False
        count += len(fact.partitions)
    return _LEAST_OFFSETS <= count <= MOST_RECORDS


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
