"""Lag totals by group or by topic, and the lag of single partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from kcoord.admin.groups.group_snapshot import Look, SeenGroup, SeenPartition, added, longest


class Grain(StrEnum):
    """What one row of lag covers."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class LagLine:
    """The lag of a group, of a topic within one group, or of a partition. `unknown` partitions have no committed
    offset, or a log that cannot be read; they are not part of the totals."""

    group: str
    topic: str | None
    partition: int | None
    partitions: int
    unknown: int
    lag: int | None
    seconds: float | None


def lag_lines(look: Look, grain: Grain) -> list[LagLine]:
    return [
        _line(seen.group.name, grain, partitions, look.at)
        for seen in look.groups.values()
        for partitions in _parts(seen, grain)
    ]


def total(lines: Iterable[LagLine]) -> LagLine:
    """Adds up all rows as one row without a group."""
    counted = list(lines)
    return LagLine(
        group="",
        topic=None,
        partition=None,
        partitions=sum(line.partitions for line in counted),
        unknown=sum(line.unknown for line in counted),
        lag=added(line.lag for line in counted),
        seconds=longest((line.lag, line.seconds) for line in counted),
    )


def _parts(seen: SeenGroup, grain: Grain) -> list[Sequence[SeenPartition]]:
    match grain:
        case Grain.GROUP:
            return [seen.partitions]
        case Grain.TOPIC:
            return [tuple(own) for _, own in groupby(seen.partitions, key=lambda each: each.tp.topic)]
        case Grain.PARTITION:
            return [(each,) for each in seen.partitions]


def _line(group: str, grain: Grain, partitions: Sequence[SeenPartition], at: float) -> LagLine:
    lags = [each.lag for each in partitions]
    return LagLine(
        group=group,
        topic=partitions[0].tp.topic if grain is not Grain.GROUP else None,
        partition=partitions[0].tp.partition if grain is Grain.PARTITION else None,
        partitions=len(partitions),
        unknown=lags.count(None),
        lag=lags[0] if grain is Grain.PARTITION else added(lags),
        seconds=longest((each.lag, each.lag_seconds(at)) for each in partitions),
    )
