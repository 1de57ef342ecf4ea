"""What the sticky assignor knows of racks: those of members, and those of partitions' replicas."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kcoord.assignors.plan import Partition, Subscriber
from kcoord.assignors.racks import needs_rack_awareness, rack_of

_NO_RACKS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyRacks:
    """The racks of members and of partitions' replicas. Without any member, racks play no role in the plan.

    `members_in_rack` counts the members in the racks of each partition, where members have racks at all: partitions
    with fewer of them are assigned earlier."""

    of_members: Mapping[str, str] = field(default_factory=dict)
    of_replicas: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    members_in_rack: Mapping[Partition, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        members: Collection[Subscriber],
        counts: Mapping[str, int],
        racks: Mapping[str, Sequence[Collection[str]]],
    ) -> "StickyRacks":
        """Returns the racks of these members, and those of the replicas of these topics."""
        of_members = {each.member_id: rack for each in members if (rack := rack_of(each))}
        if not racks or not of_members:
            return cls()
        of_replicas = {topic: _by_partition(racks.get(topic, ()), count) for topic, count in counts.items()}
        replica_racks = [each for by_partition in of_replicas.values() for each in by_partition]
        members_by_rack = Counter(of_members.values())
        counted = {
            (topic, number): sum(members_by_rack[rack] for rack in each)
            for topic, by_partition in of_replicas.items()
            for number, each in enumerate(by_partition)
        }
        if not needs_rack_awareness(of_members.values(), replica_racks):
            return cls(members_in_rack=counted)
        return cls(of_members=of_members, of_replicas=of_replicas, members_in_rack=counted)

    def mismatch(self, member_id: str, partition: Partition) -> bool:
        """Whether the member is in a rack without a replica of the partition."""
        rack = self.of_members.get(member_id)
        return rack is not None and rack not in self._replica_racks(partition)

    def next_match(self, partition: Partition, member_ids: Sequence[str], first: int) -> int | None:
        """Returns the index of the next member in a rack with a replica, beginning with `first` and going around."""
        replica_racks = self._replica_racks(partition)
        for turn in range(len(member_ids)):
            index = (first + turn) % len(member_ids)
            if self.of_members.get(member_ids[index]) in replica_racks:
                return index
        return None

    def _replica_racks(self, partition: Partition) -> frozenset[str]:
        topic, number = partition
        by_partition = self.of_replicas.get(topic, ())
        return by_partition[number] if 0 <= number < len(by_partition) else _NO_RACKS


def _by_partition(racks: Sequence[Collection[str]], count: int) -> list[frozenset[str]]:
    known = [frozenset(each) for each in racks[:count]]
    return known + [_NO_RACKS] * (count - len(known))
