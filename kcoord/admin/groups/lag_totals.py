"""Lag totals by group or by topic, and the lag of single partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot, max_known, sum_known


class GroupBy(StrEnum):
    """The granularity of a table of lag: a row for each group, for each of its topics or for each partition."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """One row of a table of lag: the lag, in records and in seconds, of a group, of a topic within one group, or of a
    partition. `unknown` counts partitions without a committed offset, or with a log that cannot be read; they are not
    part of the totals."""

    group: str
    topic: str | None
    partition: int | None
    partitions: int
    unknown: int
    lag: int | None
    seconds: float | None


def lag_rows(snapshot: Snapshot, by: GroupBy) -> list[LagRow]:
    """Returns the rows of lag of all groups of a snapshot, at this granularity."""
    return [
        _row(seen.group.name, by, partitions, snapshot.at)
        for seen in snapshot.groups.values()
        for partitions in _parts(seen, by)
    ]


def total(rows: Iterable[LagRow]) -> LagRow:
    """Adds up rows of lag to one row without a group."""
    counted = list(rows)
    return LagRow(
        group="",
        topic=None,
        partition=None,
        partitions=sum(row.partitions for row in counted),
        unknown=sum(row.unknown for row in counted),
        lag=sum_known(row.lag for row in counted),
        seconds=max_known((row.lag, row.seconds) for row in counted),
    )


def _parts(seen: GroupSnapshot, by: GroupBy) -> list[Sequence[PartitionLag]]:
    match by:
        case GroupBy.GROUP:
            return [seen.partitions]
        case GroupBy.TOPIC:
            return [tuple(partitions) for _, partitions in groupby(seen.partitions, key=lambda each: each.tp.topic)]
        case GroupBy.PARTITION:
            return [(each,) for each in seen.partitions]


def _row(group: str, by: GroupBy, partitions: Sequence[PartitionLag], at: float) -> LagRow:
    lags = [each.lag for each in partitions]
    return LagRow(
        group=group,
        topic=partitions[0].tp.topic if by is not GroupBy.GROUP else None,
        partition=partitions[0].tp.partition if by is GroupBy.PARTITION else None,
        partitions=len(partitions),
        unknown=lags.count(None),
        lag=lags[0] if by is GroupBy.PARTITION else sum_known(lags),
        seconds=max_known((each.lag, each.lag_seconds(at)) for each in partitions),
    )
