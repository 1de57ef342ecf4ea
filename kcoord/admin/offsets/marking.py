"""Reads the records next to committed offsets from one cluster: all positions together, in few requests.

The next record is the first one at the offset or after it. The record before is searched backwards from the offset:
transaction markers are no records, and compaction leaves gaps, so the offset before may have none.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.model import Answers, Bounds, Position, Refusal, Resource, TopicPartition, refused_names
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.record_marks import RecordMark

LOOKBACK_OFFSETS: Final = 16
"""How many offsets before a position are searched for the record before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The records next to some offsets, each as a mark by which it is recognised in another log: its offset, time and
    checksum. `next` has the next record by position (partition and offset), `last` the record before; a position
    without one is missing.

    Nothing is known of the partitions in `unreadable`; `refused` says why.
    """

    next: Mapping[Position, RecordMark]
    last: Mapping[Position, RecordMark]
    unreadable: frozenset[TopicPartition] = frozenset()
    refused: tuple[Refusal, ...] = ()


def mark_lines(
    cluster: ClusterClient, lines: Collection[OffsetLine]
) -> tuple[tuple[OffsetLine, ...], tuple[Refusal, ...]]:
    """Reads the records next to committed offsets from the cluster, and adds to each line the mark of the next record
    or, if there is none, of the record before. Also returns errors of what could not be read."""
    bounds = {line.tp: line.bounds for line in lines if line.bounds is not None}
    positions = {(line.tp, line.committed.offset) for line in lines if line.bounds is not None}
    at_end = {(tp, at) for tp, at in positions if at >= bounds[tp].end}
    marks = read_marks(cluster, bounds, next_at=positions - at_end, last_before=at_end)
    only_markers = {(tp, at) for tp, at in positions - at_end - marks.next.keys() if tp not in marks.unreadable}
    others = read_marks(cluster, bounds, next_at=(), last_before=only_markers)
    last = {**marks.last, **others.last}
    marked = tuple(
        replace(line, next_record=marks.next.get(position), last_record=last.get(position))
        for line in lines
        for position in [(line.tp, line.committed.offset)]
    )
    return marked, tuple(dict.fromkeys((*marks.refused, *others.refused)))


def read_marks(
    cluster: ClusterClient,
    bounds: Mapping[TopicPartition, Bounds],
    *,
    next_at: Collection[Position],
    last_before: Collection[Position],
) -> Marks:
    """Reads the marks of the next records at some positions, and of the records before others, from the cluster. A
    position beyond the end of a log has neither; before the start, the next record is the first of the log."""
    firsts = {(tp, at): (tp, max(at, bounds[tp].start)) for tp, at in next_at if tp in bounds and at < bounds[tp].end}
    within = [(tp, at) for tp, at in last_before if tp in bounds and bounds[tp].start < at <= bounds[tp].end]
    near = {(tp, at): [(tp, at - 1)] for tp, at in within}
    asked = _read(cluster, [*firsts.values(), *chain.from_iterable(near.values())])
    last = _last(near, asked.found)
    far = {(tp, at): _probes(tp, at, bounds[tp]) for tp, at in near.keys() - last.keys() if tp not in asked.unreadable}
    again = _read(cluster, list(chain.from_iterable(far.values())))
    return Marks(
        next={position: asked.found[first] for position, first in firsts.items() if first in asked.found},
        last={**last, **_last(far, again.found)},
        unreadable=asked.unreadable | again.unreadable,
        refused=tuple(dict.fromkeys((*asked.refused, *again.refused))),
    )


def _probes(tp: TopicPartition, at: int, bounds: Bounds) -> list[Position]:
    return [(tp, offset) for offset in range(max(bounds.start, at - LOOKBACK_OFFSETS), min(at, bounds.end))]


def _last(
    probes: Mapping[Position, Iterable[Position]], found: Mapping[Position, RecordMark]
) -> dict[Position, RecordMark]:
    """Picks, from the records that were found at each position's probes, the last one that lies before the position."""
    last = {}
    for position, candidates in probes.items():
        before = [found[one] for one in candidates if one in found and (found[one].offset or 0) < position[1]]
        if before:
            last[position] = before[-1]
    return last


class _Read(NamedTuple):
    found: Mapping[Position, RecordMark]
    unreadable: frozenset[TopicPartition]
    refused: tuple[Refusal, ...]


def _read(cluster: ClusterClient, positions: Collection[Position]) -> _Read:
    """Reads the records. A partition is unreadable if it or its topic was refused and none of its records came;
    otherwise it has no record there."""
    answers: Answers[Position, RecordMark] = cluster.record_marks(set(positions)) if positions else Answers(found={})
    topics = refused_names(answers.refused, Resource.TOPIC)
    partitions = refused_names(answers.refused, Resource.PARTITION)
    silent = {tp for tp, at in positions if (tp, at) not in answers.found}
    unread = frozenset(tp for tp in silent if tp.topic in topics or str(tp) in partitions)
    return _Read(answers.found, unread, answers.refused)
