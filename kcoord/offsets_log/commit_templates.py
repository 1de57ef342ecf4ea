"""Encoders of repeated commits: each commit is encoded by one call of struct.

A member commits to the same partitions each time (groups: CommitPartitions). For a commit of one offset, everything but
the offset and the position in the batch is cached. A commit of many offsets becomes a batch of its own, which differs
from the last one in offsets and times only; so the constant parts of that batch are cached:

    … partition, value start | offset | epoch, "" | time | topic id, next record … | offset | epoch, "" | time | …
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Final

from kcoord.groups.records import CommitPartitions, OffsetsStored, RepeatedCommit
from kcoord.offsets_log.pending_batches import (
    MOST_RECORDS,
    Pending,
    PendingBatch,
    SealedBatch,
    SingleOffsetSeries,
    add_fact,
    last,
    offset_parts,
)
from kcoord.storage.superseded import CommitSeries

_LEAST_OFFSETS: Final = 8  # Commits of fewer offsets share a batch with others.
_MAX_ENCODERS: Final = 500
_FIELDS: Final = 4  # Fields of each record: what is before its offset, the offset, what is between, the time.
_OFFSET, _TIME = 1, 3


class CommitEncoder(CommitSeries, ABC):
    """Encodes the repeated commits of a member to one set of partitions as records of `__consumer_offsets`, whose
    constant parts it caches."""

    __slots__ = ()

    @abstractmethod
    def add(self, batches: Pending, fact: RepeatedCommit, now_ms: int) -> None:
        """Encodes such a commit and appends it to the batches that are pending for its partition of
        `__consumer_offsets`."""


class CommitEncoders:
    """Caches the encoder of each set of partitions that a member commits to repeatedly."""

    def __init__(self) -> None:
        self._encoders: dict[CommitPartitions, CommitEncoder] = {}

    def encoder_of(self, partitions: CommitPartitions) -> CommitEncoder:
        """Returns the cached encoder of repeated commits to these partitions, or makes it."""
        encoder = self._encoders.get(partitions)
        if encoder is None:
            if len(self._encoders) >= _MAX_ENCODERS:
                self._encoders.clear()
            encoder = self._encoders[partitions] = _make_encoder(partitions)
        return encoder


def _make_encoder(partitions: CommitPartitions) -> CommitEncoder:
    if partitions.has_metadata or partitions.count > MOST_RECORDS:
        return _GenericEncoder(partitions.count)
    if partitions.count == 1:
        return _SingleOffsetEncoder(partitions.first_records[0])
    return (
        _BatchTemplateEncoder(partitions.first_records)
        if partitions.count >= _LEAST_OFFSETS
        else _GenericEncoder(partitions.count)
    )


class _GenericEncoder(CommitEncoder):
    """Encodes a commit like any fact: commits of a few offsets, of more than fit in a batch, or with metadata."""

    __slots__ = ()

    def add(self, batches: Pending, fact: RepeatedCommit, now_ms: int) -> None:
        before = batches[-1] if batches else None
        count_before = before.count if before else 0
        add_fact(batches, fact, now_ms)
        newest = batches[-1]
        added = newest.count - (count_before if newest is before else 0)
        if isinstance(newest, PendingBatch) and added == self.count:
            newest.note_series(self)


class _SingleOffsetEncoder(SingleOffsetSeries, CommitEncoder):
    """Encodes commits of one offset, which share a batch with others."""

    __slots__ = ()

    def add(self, batches: Pending, fact: RepeatedCommit, now_ms: int) -> None:
        if not batches or not batches[-1].add_repeated(self, fact, now_ms):
            last(batches, now_ms).add_repeated(self, fact, now_ms)


class _BatchTemplateEncoder(CommitEncoder):
    """Encodes commits of many offsets, as a batch each."""

    __slots__ = ("_pack", "_parts")

    def __init__(self, stored: Sequence[OffsetsStored]) -> None:
        pending = PendingBatch(0)
        for each in stored:
            start = 0
            while start < len(each.partitions):
                start = pending.add_offsets(each, start, 0)
        super().__init__(pending.count)
        self._parts, self._pack = _split_records(pending.encoded_records(), stored)

    def add(self, batches: Pending, fact: RepeatedCommit, now_ms: int) -> None:
        parts = self._parts.copy()
        parts[_OFFSET::_FIELDS] = fact.offsets
        parts[_TIME::_FIELDS] = (fact.committed_at_ms,) * self.count
        batches.append(SealedBatch(self._pack(*parts), self, now_ms))


def _split_records(plain: Sequence[bytes], facts: Sequence[OffsetsStored]) -> tuple[list[Any], Callable[..., bytes]]:
    """Splits records into their constant parts, with gaps for offsets and times, and returns them with a function to
    join them.
    """
    topic_ids = chain.from_iterable([[fact.topic_id] * len(fact.partitions) for fact in facts])
    parts: list[Any] = []
    same: dict[bytes, bytes] = {}  # Most records have the same bytes between, so one object serves them all.
    forms, before = [">"], b""
    for record, topic_id in zip(plain, topic_ids, strict=True):
        start, between, end = offset_parts(record, topic_id)
        parts += [before + start, 0, same.setdefault(between, between), 0]
        forms.append(f"{len(before) + len(start)}sq{len(between)}sq")
        before = end
    return [*parts, before], Struct("".join([*forms, f"{len(before)}s"])).pack
