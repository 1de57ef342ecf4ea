"""Collects the facts of a report from tables: Spark aggregates, and what is collected is bounded by `Limits`."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from kcoord.pipeline.report.charts.scales import bucket_seconds
from kcoord.pipeline.report.frames import Frames
from kcoord.pipeline.report.group_facts import group_facts
from kcoord.pipeline.report.model import (
    Bounded,
    FlappingMember,
    Limits,
    NeverCaughtUp,
    RejectedReason,
    ReportFacts,
    Scanned,
    StuckPartition,
    UnstableGroup,
)
from kcoord.pipeline.report.overview_frames import ranked_groups, rejected_reasons
from kcoord.pipeline.transforms.filters import filter_time
from kcoord.pipeline.transforms.lag.stuck import never_caught_up, stuck_partitions
from kcoord.pipeline.transforms.lag.timeline import lag_period, lag_timeline, partition_timeline
from kcoord.pipeline.transforms.period import period_of, time_of
from kcoord.pipeline.transforms.rebalances.unstable import flapping_members, unstable_groups

Finding = TypeVar("Finding", UnstableGroup, FlappingMember, NeverCaughtUp, StuckPartition, RejectedReason)
_ALL: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The request for a report: the name of what was read, the time that the report is about, and when it was made."""

    source_name: str
    made_at: datetime
    since: datetime | None = None
    until: datetime | None = None
    hours: float = 1.0
    """How many hours the requested time has, as far as it was read."""


def collect_facts(frames: Frames, request: ReportRequest, limits: Limits | None = None) -> ReportFacts:
    """Collects everything that the report shows from its DataFrames, aggregated by Spark. `limits` bound the number of
    rows."""
    behind = lag_timeline(frames.lag, frames.log_ends, pieces=1, since=request.since, until=request.until)
    ranked = ranked_groups(frames.commits, frames.generations, frames.group_events, frames.rebalances, behind)
    ranked.persist()  # few rows that are expensive to compute, and are read twice
    try:
        return _collect_facts(frames, ranked, request, limits or Limits())
    finally:
        ranked.unpersist()


def _collect_facts(frames: Frames, ranked: DataFrame, request: ReportRequest, limits: Limits) -> ReportFacts:
    # Logs go on after a group has stopped committing, so the period ends with the later of both.
    logs = lag_period(frames.lag, frames.log_ends, since=request.since, until=request.until)
    read = period_of(frames.commits, frames.generations, frames.group_events).merged_with(logs)
    first, last = read.first, read.last
    piece = 1.0 if first is None or last is None else bucket_seconds(first, last, most=limits.pieces)
    [totals] = ranked.agg(
        f.count("*").alias("groups"), f.sum("commits").alias("commits"), f.sum("rebalances").alias("rebalances")
    ).collect()
    groups = ranked.limit(limits.groups).collect()
    committed = filter_time(frames.lag, request.since, request.until)
    stuck = stuck_partitions(frames.lag, frames.log_ends, since=request.since, until=request.until)
    group_frames = frames.of_groups([each.group for each in groups])
    behind = partition_timeline(
        group_frames.lag, group_frames.log_ends, pieces=limits.pieces, since=request.since, until=request.until
    ).persist()
    try:
        pages = (
            group_facts(group_frames, groups, behind, piece, limits, since=request.since, until=request.until)
            if groups
            else []
        )
    finally:
        behind.unpersist()
    return ReportFacts(
        source_name=request.source_name,
        made_at=request.made_at,
        since=request.since,
        until=request.until,
        first_at=first,
        last_at=last,
        hours=request.hours,
        piece_seconds=piece,
        scanned=scanned_facts(frames.scanned),
        commit_count=totals.commits or 0,
        rebalance_count=totals.rebalances or 0,
        groups=Bounded(rows=tuple(pages), total=totals.groups),
        unstable=_bounded(
            unstable_groups(frames.rebalances, hours=request.hours, most=_ALL), UnstableGroup, limits.findings
        ),
        flapping=_bounded(flapping_members(frames.memberships, most=_ALL), FlappingMember, limits.findings),
        never_caught_up=_bounded(never_caught_up(committed, read_until=logs.last), NeverCaughtUp, limits.findings),
        stuck=_bounded(stuck, StuckPartition, limits.findings),
        rejected=_bounded(rejected_reasons(frames.rejected), RejectedReason, limits.findings),
    )


def scanned_facts(scanned: DataFrame) -> Scanned:
    """Adds up the rows of the DataFrame `scanned`: how many batches and records were read, and what became of them."""
    names = [each.name for each in fields(Scanned)]
    [sums] = scanned.agg(*(f.sum(name).alias(name) for name in names)).collect()
    return Scanned(**{name: sums[name] or 0 for name in names})


def _bounded(frame: DataFrame, finding: type[Finding], limit: int) -> Bounded[Finding]:
    """Returns the first rows as findings, whose fields have the names of the columns; and how many rows there are."""
    names: list[str] = [each.name for each in fields(finding)]
    times = {each.name for each in frame.schema if each.dataType == TimestampType()} & {*names}
    wanted = frame.select(*(f.unix_millis(name).alias(name) if name in times else name for name in names))
    rows = [row.asDict() for row in wanted.limit(limit).collect()]
    found = [finding(**{**row, **{name: time_of(row[name]) for name in times}}) for row in rows]
    return Bounded(rows=tuple(found), total=len(rows) if len(rows) < limit else frame.count())
