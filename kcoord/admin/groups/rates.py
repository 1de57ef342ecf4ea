"""Rates at which groups consume and at which their topics are written."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.model import TopicPartition

COMMIT_INTERVAL: Final = 5.0
"""Seconds from commit to commit, unless a consumer sets auto.commit.interval.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rates of a partition or group in records per second: `consumed` by the group, as its commits show, and
    `produced` to the log; None if too little is known."""

    consumed: float | None
    produced: float | None

    @property
    def net(self) -> float | None:
        """By how many records the lag shrinks each second; negative if it grows, None if too little is known."""
        return None if self.consumed is None or self.produced is None else self.consumed - self.produced


UNKNOWN_RATE: Final = Rate(consumed=None, produced=None)


def partition_rates(snapshots: Iterable[Snapshot], group: str) -> dict[TopicPartition, Rate]:
    """Returns how fast a group consumes each partition and how fast it is written, in records per second, computed over
    these snapshots, the oldest first."""
    sums: dict[TopicPartition, _Progress] = {}
    for before, after in pairwise(snapshot for snapshot in snapshots if group in snapshot.groups):
        earlier = {seen.tp: seen for seen in before.groups[group].partitions}
        for seen in after.groups[group].partitions:
            if old := earlier.get(seen.tp):
                progress = sums.setdefault(seen.tp, _Progress())
                seconds = after.at - before.at
                if old.committed and seen.committed:
                    progress.consumed(seen.committed.offset - old.committed.offset, seconds)
                if old.bounds and seen.bounds:
                    progress.produced(seen.bounds.end - old.bounds.end, seconds)
    return {tp: progress.rate() for tp, progress in sums.items()}


def total_rate(parts: Iterable[Rate]) -> Rate:
    """Adds up the known rates of partitions."""
    parts = list(parts)
    consumed = [rate.consumed for rate in parts if rate.consumed is not None]
    produced = [rate.produced for rate in parts if rate.produced is not None]
    return Rate(consumed=sum(consumed) if consumed else None, produced=sum(produced) if produced else None)


@dataclass(slots=True)
class _Progress:
    """Progress of one partition: records, and the seconds they took. An offset that moved back is a reset and counts as
    nothing."""

    _consumed: int = 0
    _consumed_in: float = 0.0
    _produced: int = 0
    _produced_in: float = 0.0

    def consumed(self, records: int, seconds: float) -> None:
        self._consumed += max(0, records)
        self._consumed_in += seconds

    def produced(self, records: int, seconds: float) -> None:
        self._produced += max(0, records)
        self._produced_in += seconds

    def rate(self) -> Rate:
        return Rate(
            consumed=self._consumed / self._consumed_in if self._consumed_in > 0 else None,
            produced=self._produced / self._produced_in if self._produced_in > 0 else None,
        )
