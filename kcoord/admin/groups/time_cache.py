"""A cache of the times of the records that groups read next, for `groups watch`, which takes a snapshot every two
seconds.

Each time is a read from the log, so that a snapshot reads only unknown ones, and at most some hundred. The rest follows
with the next snapshots. Groups that do not move cost nothing, however many they are.
"""

from dataclasses import replace
from typing import Final

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot
from kcoord.admin.model import Position

READ_AT_ONCE: Final = 200


class TimeCache:
    """A cache of the times of the records that groups read next. It holds the positions of the latest snapshot only: a
    group that moves on no longer needs the old ones."""

    def __init__(self, *, read_at_once: int = READ_AT_ONCE) -> None:
        self._times: dict[Position, int] = {}
        self._asked: set[Position] = set()  # requested and not found: they are retried after all others
        self._read_at_once = read_at_once

    def fill(self, cluster: ClusterClient, snapshot: Snapshot) -> Snapshot:
        """Returns the snapshot with the time of the next record of each partition, as far as it is known. Some missing
        times are read from the cluster each time."""
        lags = _lags(snapshot)
        self._times = {position: time for position, time in self._times.items() if position in lags}
        self._asked &= lags.keys()
        unknown = sorted(lags.keys() - self._times.keys(), key=lambda each: (each in self._asked, -lags[each]))
        if unknown:
            asked = unknown[: self._read_at_once]
            self._times |= cluster.timestamps(asked).found
            self._asked.update(asked)
        return replace(snapshot, groups={name: self._filled(seen) for name, seen in snapshot.groups.items()})

    def _filled(self, seen: GroupSnapshot) -> GroupSnapshot:
        if not seen.total_lag:
            return seen
        return replace(seen, partitions=tuple(map(self._with_time, seen.partitions)))

    def _with_time(self, seen: PartitionLag) -> PartitionLag:
        position = _next_position(seen)
        return seen if position is None else seen._replace(next_record_at=self._times.get(position))


def _lags(snapshot: Snapshot) -> dict[Position, int]:
    """Returns the largest lag of each position that some group reads next."""
    lags: dict[Position, int] = {}
    for group in snapshot.groups.values():
        for seen in group.partitions if group.total_lag else ():
            if position := _next_position(seen):
                lags[position] = max(seen.lag or 0, lags.get(position, 0))
    return lags


def _next_position(seen: PartitionLag) -> Position | None:
    """Returns the position of the next record; None if it is unknown, or if no record remains, for instance because all
    were deleted."""
    if seen.committed is None or seen.bounds is None or seen.lag is None or seen.lag <= 0:
        return None
    offset = max(seen.committed.offset, seen.bounds.start)
    return (seen.tp, offset) if offset < seen.bounds.end else None
