"""The types of the assignors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Plan: TypeAlias = dict[str, tuple[Partition, ...]]  # by member id; members without partitions are included
PartitionCounts: TypeAlias = Mapping[str, int]  # by topic; a missing topic does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member of a group as input of an assignor: its subscription, and `owned`, the partitions that it has now."""

    member_id: str
    topics: Collection[str]
    instance_id: str | None = None
    owned: Collection[Partition] = ()


def shares(plan: Mapping[str, Collection[Partition]]) -> list[int]:
    """Returns how many partitions each member gets by an assignment plan, the largest number first."""
    return sorted((len(partitions) for partitions in plan.values()), reverse=True)


def spread(plan: Mapping[str, Collection[Partition]]) -> int:
    """Returns how uneven an assignment plan is: the difference between the largest and the smallest number of
    partitions of a member.
    """
    counts = shares(plan)
    return counts[0] - counts[-1] if counts else 0
