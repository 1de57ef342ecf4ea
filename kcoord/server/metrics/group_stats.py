"""Statistics of all groups, computed on request: updating them all the time would cost servers without metrics."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from kcoord.errors import ErrorCode
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator


class LoadState(StrEnum):
    """The state of a partition of __consumer_offsets: its groups are loaded, being loaded, or unavailable."""

    KNOWN = "known"
    READING = "reading"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStats:
    """Counts of all groups of a cluster for metrics: groups by state, members, member ids given but not used yet, bytes
    held, quarantined groups (whose records cannot be decoded), and partitions by LoadState.
    """

    states: Mapping[State, int]
    members: int
    pending_ids: int
    held_bytes: int
    quarantined: int
    partitions: Mapping[LoadState, int]


def collect_stats(
    coordinators: Iterable[Coordinator],
    quarantined: Collection[str],
    partitions: int,
    unavailable: Collection[ErrorCode],
) -> GroupStats:
    """Counts the groups and members of all coordinators; `unavailable` has the errors of the unavailable partitions of
    __consumer_offsets, of which there are `partitions` in all.
    """
    coordinators = list(coordinators)
    groups = [group for coordinator in coordinators for group in coordinator.groups.values()]
    reading = sum(error is ErrorCode.coordinator_load_in_progress for error in unavailable)
    return GroupStats(
        states=Counter(map(attrgetter("state"), groups)),
        members=sum(map(len, map(attrgetter("members"), groups))),
        pending_ids=sum(map(len, map(attrgetter("pending"), groups))),
        held_bytes=sum(coordinator.held_bytes for coordinator in coordinators),
        quarantined=len(quarantined),
        partitions={
            LoadState.KNOWN: partitions - len(unavailable),
            LoadState.READING: reading,
            LoadState.UNAVAILABLE: len(unavailable) - reading,
        },
    )
