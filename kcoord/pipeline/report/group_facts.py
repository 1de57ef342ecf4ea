"""Converts rows of Spark to the facts that the pages of groups are rendered from."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from kcoord.admin.times import EPOCH
from kcoord.assignors.plan import shares
from kcoord.assignors.replaying.latest import outcomes_of
from kcoord.assignors.replaying.recording import Generation
from kcoord.pipeline.derive_job import rows_of
from kcoord.pipeline.recordings.classic import NotReplayable, classic_generations
from kcoord.pipeline.recordings.modern import latest_modern_generation
from kcoord.pipeline.report.frames import Frames
from kcoord.pipeline.report.group_frames import (
    commit_counts,
    lag_of_partitions,
    latest_members,
    latest_rebalances,
    longest_ownerships,
    rebalance_marks,
)
from kcoord.pipeline.report.model import (
    Bounded,
    GroupFacts,
    LatestAssignment,
    Limits,
    Member,
    OwnedPartition,
    OwnedSpan,
    PartitionLine,
    Point,
    Rebalance,
    RebalanceMark,
    StrategyOutcome,
)
from kcoord.pipeline.transforms.event_types import MEMBERS_AND_TARGETS
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.generation_log import latest_events, latest_generations
from kcoord.pipeline.transforms.lag.timeline import sum_partitions
from kcoord.pipeline.transforms.period import time_of

Fact = TypeVar("Fact")


def group_facts(
    frames: Frames,
    groups: Sequence[Row],
    timeline: DataFrame,
    piece: float,
    limits: Limits,
    *,
    since: datetime | None,
    until: datetime | None,
) -> list[GroupFacts]:
    """Collects what the pages of groups show: returns one GroupFacts for each row of `ranked_groups`, in their order.
    `frames` and `timeline` (a `partition_timeline`) are of these groups only; `piece` is the seconds of a piece of the
    time, and a page is about the time from `since` to before `until`."""
    piece_ms = round(piece * 1000)
    assigned = _assignments(_latest(frames, is_cut=since is not None), frames.ownership, limits)
    marked = _by_group(rebalance_marks(frames.rebalances, piece_ms))
    rebalanced = _by_group(latest_rebalances(frames.rebalances, limits))
    members = _by_group(latest_members(frames.memberships, limits))
    owned = _by_group(longest_ownerships(frames.ownership, limits))
    committed = _by_group(commit_counts(frames.commits, piece_ms))
    behind = _by_group(sum_partitions(timeline).withColumn("piece", f.unix_millis("at")))
    single = _by_group(lag_of_partitions(timeline, limits))
    return [
        GroupFacts(
            group=each.group,
            kind=each.kind,
            state=_state(each, members[each.group], until),
            protocol_type=each.protocol_type,
            protocol=each.protocol,
            rebalance_count=each.rebalances,
            lost_ms=each.lost_ms,
            pause_ms=each.pause_ms,
            commit_count=each.commits,
            assignment=assigned.get(each.group),
            marks=tuple(map(_mark, marked[each.group])),
            rebalances=Bounded(rows=tuple(map(_rebalance, rebalanced[each.group])), total=each.changes),
            members=_bounded(map(_member, members[each.group]), members[each.group], "members"),
            ownership=_bounded(_owned(owned[each.group]), owned[each.group], "partitions"),
            commits=tuple(_point(row.piece, row.commits / piece) for row in committed[each.group]),
            lag=tuple(_point(row.piece, row.lag) for row in behind[each.group]),
            lag_seconds=tuple(
                _point(row.piece, None if row.lag_ms is None else row.lag_ms / 1000) for row in behind[each.group]
            ),
            partition_lag=_bounded(_lines(single[each.group]), single[each.group], "partitions"),
        )
        for each in groups
    ]


def _assignments(
    latest: Mapping[str, Generation], ownership: DataFrame, limits: Limits
) -> Mapping[str, LatestAssignment]:
    """Returns the latest assignment of each group, and what strategies would make of it, unless it is too large."""
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in ownership.groupBy("group", "topic").agg((f.max("partition") + 1).alias("count")).collect():
        counts[row["group"]][row["topic"]] = row["count"]
    return {
        group: _assignment(generation, counts[group])
        for group, generation in latest.items()
        if sum(counts[group].values()) <= limits.planned
    }


def _latest(frames: Frames, *, is_cut: bool) -> dict[str, Generation]:
    """Returns what each group was at last, as far as the assignors of consumers can read it. If the records begin later
    than the log (`is_cut`), they do not show all members of a consumer group (KIP-848)."""
    names = {row["topic_id"]: row["topic"] for row in topic_names(frames.commits, frames.group_events).collect()}
    latest: dict[str, tuple[int, Generation]] = {}
    for row in rows_of(latest_generations(frames.generations)):
        with suppress(NotReplayable):
            latest[row["group"]] = classic_generations([row], {}, {})[0]
    events: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows_of(latest_events(frames.group_events, MEMBERS_AND_TARGETS)) if not is_cut else ():
        events[row["group"]].append(row)
    for group, rows in events.items():
        with suppress(NotReplayable):
            offset, generation = rows[-1]["source_offset"], latest_modern_generation(rows, names)
            if generation is not None and (group not in latest or latest[group][0] < offset):
                latest[group] = offset, generation
    return {group: generation for group, (_, generation) in latest.items()}


def _assignment(generation: Generation, counts: Mapping[str, int]) -> LatestAssignment:
    return LatestAssignment(
        generation=generation.number,
        at=time_of(generation.written_ms),
        protocol=generation.protocol,
        shares=tuple(shares({each.member_id: each.assigned for each in generation.members})),
        outcomes=tuple(
            StrategyOutcome(
                strategy=name,
                shares=tuple(shares(outcome.plan)),
                moved=len(outcome.moved),
                paused=len(outcome.paused),
                rebalances=outcome.rebalances,
                failure=outcome.failure,
            )
            for name, outcome in outcomes_of(generation, counts).items()
        ),
    )


def _state(group: Row, members: Sequence[Row], until: datetime | None) -> str | None:
    """Returns the state from the log; for the newer kinds of groups, that a group is empty follows from its departed
    members."""
    if group.state is not None or group.kind is None:
        return str(group.state) if group.state is not None else None
    remain = [row for row in members if not row.has_gone or (until and row.last_at and _at(row.last_at) >= until)]
    return None if remain else "Empty"


def _at(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def _by_group(frame: DataFrame) -> Mapping[str, Sequence[Row]]:
    """Collects the rows by group, in their order; a group without rows has an empty list."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in frame.collect():
        found[row.group].append(row)
    return found


def _bounded(facts: Iterable[Fact], rows: Sequence[Row], total: str) -> Bounded[Fact]:
    """Returns the facts with their total, which every row has in this column."""
    return Bounded(rows=tuple(facts), total=rows[0][total] if rows else 0)


def _point(milliseconds: int, value: float | None) -> Point:
    return Point(at=_at(milliseconds), value=value)


def _mark(row: Row) -> RebalanceMark:
    return RebalanceMark(
        cause=row.cause, first=_at(row.first), last=_at(row.last), rebalances=row.rebalances, lost_ms=row.lost_ms
    )


def _rebalance(row: Row) -> Rebalance:
    return Rebalance(
        generation=row.generation,
        started_at=time_of(row.started_at),
        ended_at=time_of(row.ended_at),
        duration_ms=row.duration_ms,
        causes=tuple(row.causes or ()),
        joined=Bounded(rows=tuple(row.joined or ()), total=row.joined_count),
        left=Bounded(rows=tuple(row.left or ()), total=row.left_count),
        members=row.members,
        moved_partitions=row.moved_partitions,
        pause_ms=row.pause_ms,
    )


def _member(row: Row) -> Member:
    return Member(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        first_at=time_of(row.first_at),
        last_at=time_of(row.last_at),
    )


def _owned(rows: Sequence[Row]) -> Iterator[OwnedPartition]:
    for (topic, partition), partition_rows in groupby(rows, key=lambda row: (row.topic, row.partition)):
        spans = list(partition_rows)
        yield OwnedPartition(topic=topic, partition=partition, spans=_bounded(map(_span, spans), spans, "spans"))


def _span(row: Row) -> OwnedSpan:
    return OwnedSpan(
        member_id=row.member_id,
        instance_id=row.instance_id,
        owned_from=time_of(row.owned_from),
        owned_until=time_of(row.owned_until),
    )


def _lines(rows: Sequence[Row]) -> Iterator[PartitionLine]:
    for (topic, partition), partition_rows in groupby(rows, key=lambda row: (row.topic, row.partition)):
        points = tuple(_point(row.piece, row.lag) for row in partition_rows)
        yield PartitionLine(topic=topic, partition=partition, points=points)
