"""The jobs behind `kcoord pipeline rebalances` and `lag`: they derive tables from the decoded ones, and findings from
these.

A derived table is written next to the decoded ones, whole, and read back from there: it is computed once and then used
several times. If only some groups are wanted, it is computed for this run alone and not written.

The cause of a rebalance depends on the records before it, and so does the lag of a group that stopped committing. So
tables are derived from all times, and the requested time filters the result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from kcoord.pipeline.decode_job import OnStep
from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import COMMITS, GENERATIONS, GROUP_EVENTS, LAG, LOG_ENDS, OWNERSHIP, REBALANCES, Row
from kcoord.pipeline.tables import TablesFolder
from kcoord.pipeline.transforms.events import topic_names
from kcoord.pipeline.transforms.filters import filter_groups, filter_time
from kcoord.pipeline.transforms.lag.lag import lag
from kcoord.pipeline.transforms.lag.stuck import never_caught_up, stuck_partitions
from kcoord.pipeline.transforms.lag.timeline import lag_period, lag_timeline
from kcoord.pipeline.transforms.ownership import memberships, ownership
from kcoord.pipeline.transforms.period import period_of, time_of
from kcoord.pipeline.transforms.rebalances.rebalances import rebalances
from kcoord.pipeline.transforms.rebalances.unstable import flapping_members, unstable_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceFindings:
    """The result of `kcoord pipeline rebalances`: the groups with the most rebalances, and the members that come and
    go."""

    groups: list[Row]
    """Rows of `unstable_groups`."""
    members: list[Row]
    """Rows of `flapping_members`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFindings:
    """The result of `kcoord pipeline lag`: the lag of groups over time, and the partitions that never caught up or are
    stuck."""

    timeline: list[Row]
    """Rows of `lag_timeline`."""
    behind: list[Row]
    """Rows of `never_caught_up`."""
    stuck: list[Row]
    """Rows of `stuck_partitions`."""


def find_rebalances(
    spark: SparkSession, tables: TablesFolder, wanted: RowSelection, on_step: OnStep, *, most: int
) -> RebalanceFindings:
    """Derives the tables of ownership and rebalances, and returns the findings that `kcoord pipeline rebalances`
    prints: at most `most` groups and `most` members."""
    if not wanted.groups:
        derive(spark, tables, OWNERSHIP, wanted, on_step)
    made = _in_time(derive(spark, tables, REBALANCES, wanted, on_step), wanted)
    on_step("restless groups")
    hours = hours_read(spark, tables, wanted)
    groups = rows_of(unstable_groups(made, hours=hours, most=most))
    on_step("members that flap")
    decoded = _decoded(spark, tables, wanted)
    members = _in_time(memberships(decoded[GENERATIONS], decoded[GROUP_EVENTS]), wanted)
    return RebalanceFindings(groups=groups, members=rows_of(flapping_members(members, most=most)))


def find_lag(
    spark: SparkSession,
    tables: TablesFolder,
    wanted: RowSelection,
    on_step: OnStep,
    *,
    most: int,
    pieces: int,
    bound: int,
    longer_than: timedelta,
) -> LagFindings:
    """Derives the table of lag, and returns the findings that `kcoord pipeline lag` prints: at most `most` rows each,
    the timeline in `pieces` equal parts of the time, partitions whose lag was above `bound` at every commit. The
    timeline has the groups that were furthest behind first."""
    made, ends = derive(spark, tables, LAG, wanted, on_step), tables.read(spark, LOG_ENDS)
    since, until = time_of(wanted.since_ms), time_of(wanted.until_ms)
    on_step("timeline")
    timeline = _furthest_behind(lag_timeline(made, ends, pieces=pieces, since=since, until=until), most)
    on_step("partitions that never caught up")
    read_until = lag_period(made, ends, since=since, until=until).last
    never = never_caught_up(_in_time(made, wanted), bound=bound, longer_than=longer_than, read_until=read_until)
    behind = rows_of(never.limit(most))
    on_step("partitions that stood still")
    stuck_frame = stuck_partitions(made, ends, longer_than=longer_than, since=since, until=until)
    stuck = rows_of(stuck_frame.limit(most))
    return LagFindings(timeline=timeline, behind=behind, stuck=stuck)


def _furthest_behind(timeline: DataFrame, most: int) -> list[Row]:
    """Returns the rows of the groups with the highest lag at the end of a piece, highest first; unknown lag comes
    last."""
    cached = timeline.persist(
        StorageLevel.MEMORY_AND_DISK
    )  # few rows that are expensive to compute, and are read twice
    try:
        highest = cached.groupBy("group").agg(f.max("lag").alias("highest"))
        ranked = highest.orderBy(f.desc_nulls_last("highest"), "group").limit(most).collect()
        ranks = {row["group"]: rank for rank, row in enumerate(ranked)}
        rows = rows_of(filter_groups(cached, [*ranks])) if ranks else []
    finally:
        cached.unpersist()
    return sorted(rows, key=lambda row: (ranks[row["group"]], row["at"]))


def hours_read(spark: SparkSession, tables: TablesFolder, wanted: RowSelection) -> float:
    """Returns how many hours of the requested time the decoded tables cover, over all groups; at least 1."""
    whole = [tables.read(spark, name) for name in (COMMITS, GENERATIONS, GROUP_EVENTS)]
    return period_of(*whole).hours(time_of(wanted.since_ms), time_of(wanted.until_ms))


def groups_missing(spark: SparkSession, tables: TablesFolder, wanted: RowSelection) -> list[str]:
    """Returns the groups that the user has named and that have no row in the decoded tables."""
    if not wanted.groups:
        return []
    commits, generations, events = (
        filter_groups(tables.read(spark, name), wanted.groups).select("group")
        for name in (COMMITS, GENERATIONS, GROUP_EVENTS)
    )
    found = {row["group"] for row in commits.union(generations).union(events).distinct().collect()}
    return [group for group in wanted.groups if group not in found]


def derive(spark: SparkSession, tables: TablesFolder, table: str, wanted: RowSelection, on_step: OnStep) -> DataFrame:
    """Computes a derived table (ownership, rebalances or lag) from the decoded ones, and returns it: for all groups it
    is written to the folder and read back, for some groups it is only cached."""
    on_step(table)
    made = _BUILDERS[table](_decoded(spark, tables, wanted))
    if wanted.groups:
        return made.persist(StorageLevel.MEMORY_AND_DISK)
    tables.write(made, table, replaces=True)
    return tables.read(spark, table)


def rows_of(frame: DataFrame) -> list[Row]:
    """Collects the rows of a DataFrame as dictionaries. Times become milliseconds since 1970, since Python would
    convert them to this machine's time zone."""
    columns = [
        f.unix_millis(each.name).alias(each.name) if isinstance(each.dataType, TimestampType) else f.col(each.name)
        for each in frame.schema
    ]
    return [row.asDict(recursive=True) for row in frame.select(*columns).collect()]


_NAMES: Final = "names"
Decoded = Mapping[str, DataFrame]


def _decoded(spark: SparkSession, tables: TablesFolder, wanted: RowSelection) -> Decoded:
    """Returns the decoded tables of the wanted groups. Names of topics are collected from all groups."""
    whole = {name: tables.read(spark, name) for name in (COMMITS, GENERATIONS, GROUP_EVENTS)}
    names = topic_names(whole[COMMITS], whole[GROUP_EVENTS])
    chosen = {name: filter_groups(frame, wanted.groups) for name, frame in whole.items()}
    return {**chosen, LOG_ENDS: tables.read(spark, LOG_ENDS), _NAMES: names}


_BUILDERS: Final[Mapping[str, Callable[[Decoded], DataFrame]]] = {
    OWNERSHIP: lambda of: ownership(of[GENERATIONS], of[GROUP_EVENTS], of[_NAMES]),
    REBALANCES: lambda of: rebalances(of[GENERATIONS], of[GROUP_EVENTS], of[COMMITS], of[_NAMES]),
    LAG: lambda of: lag(of[COMMITS], of[LOG_ENDS]),
}


def _in_time(frame: DataFrame, wanted: RowSelection) -> DataFrame:
    return filter_time(frame, time_of(wanted.since_ms), time_of(wanted.until_ms))
