"""The words of the assignors."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Plan: TypeAlias = dict[str, tuple[Partition, ...]]  # by member id; a member that gets nothing is in it
PartitionCounts: TypeAlias = Mapping[str, int]  # by topic; a topic that is not there does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member and what it wants; `owned` is what it has now."""

    member_id: str
    topics: Collection[str]
    instance_id: str | None = None
    owned: Collection[Partition] = ()


def shares(plan: Mapping[str, Collection[Partition]]) -> list[int]:
    """How many partitions each member has, the most first."""
    return sorted((len(partitions) for partitions in plan.values()), reverse=True)


def spread(plan: Mapping[str, Collection[Partition]]) -> int:
    """By how many partitions the member that has most exceeds the one that has least."""
    counts = shares(plan)
    return counts[0] - counts[-1] if counts else 0
