"""Facts of a made-up morning, as rich as a report gets. `python -m tests.pipeline.report.sample_facts > report.html`"""

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from kcoord.pipeline.report.model import (
    Bounded,
    FlappingMember,
    GroupFacts,
    LatestAssignment,
    Member,
    NeverCaughtUp,
    OwnedPartition,
    OwnedSpan,
    PartitionLine,
    Point,
    Rebalance,
    RebalanceMark,
    RejectedReason,
    ReportFacts,
    Scanned,
    StrategyOutcome,
    StuckPartition,
    UnstableGroup,
)

START: Final = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
END: Final = START + timedelta(hours=6)
PIECE: Final = timedelta(seconds=120)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def sample_facts() -> ReportFacts:
    groups = [_group(name, number) for number, name in enumerate(("payments", "shipping", "mail", "audit-2"))]
    quiet = GroupFacts(group="only-commits", commit_count=12, commits=(Point(at=at(30), value=0.1),))
    rows = (*groups, quiet)
    return ReportFacts(
        source_name="tables of production",
        made_at=END,
        since=START - timedelta(minutes=1),
        first_at=START,
        last_at=END,
        piece_seconds=PIECE.total_seconds(),
        scanned=Scanned(batches=3210, records=123459, commits=123400, generations=50, rejected=4, control=5),
        commit_count=123400,
        rebalance_count=sum(each.rebalance_count for each in rows),
        groups=Bounded(rows=rows, total=61),
        unstable=Bounded(rows=tuple(_restless(each) for each in groups), total=4),
        flapping=Bounded(
            rows=(
                FlappingMember(
                    group="payments",
                    member="billing-7 10.0.0.7",
                    returned=13,
                    joined=14,
                    left=13,
                    stayed_ms=95_000,
                    first_at=at(3),
                    last_at=at(340),
                ),
            ),
            total=1,
        ),
        never_caught_up=Bounded(
            rows=(
                NeverCaughtUp(
                    group="mail",
                    topic="letters",
                    partition=2,
                    lowest_lag=1200,
                    last_lag=1234567,
                    last_lag_ms=7_260_000,
                    per_hour=205_561.2,
                    since=START,
                ),
            ),
            total=1,
        ),
        stuck=Bounded(
            rows=(
                StuckPartition(
                    group="audit-9",
                    topic="events",
                    partition=0,
                    committed=4711,
                    lag=99,
                    since=at(100),
                    until=None,
                    stood_ms=260 * 60_000,
                ),
            ),
            total=3,
        ),
        rejected=Bounded(
            rows=(RejectedReason(reason="key of version 99", what="record", rows=4, records=4, last_at=at(77)),),
            total=1,
        ),
    )


def renamed(facts: ReportFacts, name: str) -> ReportFacts:
    """Returns the facts with other names, all of which begin with `name`; different names remain different."""
    names: dict[str, str] = {}

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return names.setdefault(value, f"{name}{len(names)}")
        if isinstance(value, tuple):
            return tuple(rename(each) for each in value)
        if isinstance(value, dict):
            return {rename(key): rename(each) for key, each in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{each.name: rename(getattr(value, each.name)) for each in fields(value)})
        return value

    found = rename(facts)
    assert isinstance(found, ReportFacts)
    return found


def _restless(facts: GroupFacts) -> UnstableGroup:
    return UnstableGroup(
        group=facts.group,
        rebalances=facts.rebalance_count,
        per_hour=facts.rebalance_count / 6,
        lost_ms=facts.lost_ms,
        longest_ms=44_000,
        pause_ms=61_000,
        moved_partitions=37,
        causes={"joined": 9, "left": 7},
    )


def _group(name: str, number: int) -> GroupFacts:
    times = [3 + 17 * step * (1 + number / 3) for step in range(20) if 3 + 17 * step * (1 + number / 3) < 355]
    return GroupFacts(
        group=name,
        kind="classic",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        rebalance_count=len(times),
        lost_ms=len(times) * 12_000,
        commit_count=30_000 // (number + 1),
        assignment=_assignment(number),
        marks=tuple(_marks(times)),
        rebalances=Bounded(rows=tuple(_rebalances(times)), total=len(times) + 100 * number),
        members=Bounded(rows=tuple(_members(name)), total=10),
        ownership=Bounded(rows=tuple(_lanes(name, times)), total=8 + number),
        commits=tuple(
            Point(at=at(minute), value=3 + 2 * math.sin(minute / 20)) for minute in range(0, 360, 2) if minute % 90 > 10
        ),
        lag=tuple(_lag(number, 4)),
        lag_seconds=tuple(replace(each, value=each.value and each.value / 40) for each in _lag(number, 4)),
        partition_lag=Bounded(
            rows=tuple(
                PartitionLine(topic=f"{name}-topic", partition=each, points=tuple(_lag(number, 1 + each / 5)))
                for each in range(4)
            ),
            total=8,
        ),
    )


def _assignment(number: int) -> LatestAssignment:
    outcomes = [
        StrategyOutcome(strategy=name, shares=(3, 3, 2), moved=4, paused=8, rebalances=1)
        for name in ("range", "sticky")
    ]
    failed = StrategyOutcome(strategy="uniform", shares=(), moved=0, paused=0, rebalances=0, failure="no partition")
    shares = (6, 2, 0) if number else (2,) * 20
    return LatestAssignment(
        generation=40 + number, at=at(350), protocol="range", shares=shares, outcomes=(*outcomes, failed)
    )


def _marks(times: list[float]) -> Iterator[RebalanceMark]:
    for number, minute in enumerate(times):
        cause = ("joined", "left", "replaced", "subscription changed", "static returned", "unknown")[number % 6]
        yield RebalanceMark(
            cause=cause, first=at(minute), last=at(minute + 0.2 + number % 4), rebalances=1 + number % 2, lost_ms=12_000
        )


def _rebalances(times: list[float]) -> Iterator[Rebalance]:
    for number, minute in reversed(list(enumerate(times, 1))):
        yield Rebalance(
            generation=number,
            started_at=at(minute),
            ended_at=at(minute + 0.2),
            duration_ms=12_000,
            causes=("joined", "left") if number % 3 == 0 else ("left",),
            joined=Bounded(rows=("member-1-uuid", "gone"), total=7) if number % 3 == 0 else Bounded(),
            left=Bounded(rows=("member-2-uuid",), total=1),
            members=3,
            moved_partitions=2,
            pause_ms=None if number % 4 == 0 else 15_250,
        )


def _members(name: str) -> Iterator[Member]:
    for number in range(10):
        yield Member(
            member_id=f"member-{number}-uuid",
            instance_id=f"{name}-static" if number in (3, 7) else None,
            client_id=f"{name}-{number}",
            client_host=f"/10.0.0.{number}",
            first_at=at(number * 5),
            last_at=None if number < 4 else at(200 + number),
        )


def _lanes(name: str, times: list[float]) -> Iterator[OwnedPartition]:
    for partition in range(8):
        spans = [
            OwnedSpan(
                member_id=f"member-{(step + partition) % 10}-uuid",
                instance_id=f"{name}-static" if (step + partition) % 10 in (3, 7) else None,
                owned_from=at(start),
                owned_until=at(end - 1) if step % 3 else at(end),
            )
            for step, (start, end) in enumerate(pairwise([*times[:: 1 + partition % 3], 361]))
        ]
        yield OwnedPartition(
            topic=f"{name}-topic" if partition < 5 else f"{name}-other",
            partition=partition,
            spans=Bounded(rows=tuple(spans), total=len(spans) + partition),
        )


def _lag(number: int, factor: float) -> Iterator[Point]:
    for minute in range(0, 360, 2):
        is_gap = 150 < minute < 180 and minute != 166
        lag = 400 * factor * (number + 1) * abs(math.sin(minute / 50)) + minute * number * 10
        yield Point(at=at(minute), value=None if is_gap else round(lag))


if __name__ == "__main__":
    from kcoord.pipeline.report.page import render

    print(render(sample_facts()))
