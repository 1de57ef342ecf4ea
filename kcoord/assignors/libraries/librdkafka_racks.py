"""How librdkafka considers racks (KIP-881): those of all replicas of a partition, not only that of its leader.

In range it does as Java does, but for topics with the same subscribers and equally many partitions, of which a member
gets the same numbers: there a member without a rack comes after those with a matching one, where Java takes it as it
comes; and such topics are assigned by racks even if racks make no difference in any of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from kcoord.assignors.plan import Partition, Plan, Subscriber, Topics
from kcoord.assignors.racks import needs_rack_awareness, rack_of
from kcoord.assignors.range import TopicState


def assign_range_by_racks(plan: Plan, subscribers: Mapping[str, Sequence[Subscriber]], topics: Topics) -> None:
    """Adds the assignment of each topic to the plan. `subscribers` are by topic, in librdkafka's order."""
    groups: dict[tuple[tuple[str, ...], int], list[TopicState]] = {}
    for topic, members in subscribers.items():
        count = topics.counts[topic]
        state = TopicState(topic, count, list(members), topics.racks.get(topic, ()))
        groups.setdefault((tuple(state.racks), count), []).append(state)
    for states in groups.values():
        if len(states) > 1:
            _assign_co_partitioned(states)
        elif states[0].is_rack_aware:
            states[0].assign_matching_ranges()
        for state in states:
            state.assign_ranges()
            state.add_to(plan)


def _assign_co_partitioned(states: Sequence[TopicState]) -> None:
    """Assigns each number of a partition to the first member whose rack has replicas of it in all topics."""
    in_racks = [member_id for member_id, rack in states[0].racks.items() if rack is not None]
    for partition in range(states[0].count):
        for member_id in in_racks:
            if all(state.matches(member_id, partition) and state.room(member_id) > 0 for state in states):
                for state in states:
                    state.assign(member_id, [partition])
                break


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRacks:
    """The racks of members, and of the replicas of partitions by topic, in a sticky group where they matter.

    A librdkafka consumer without a rack sends an empty one, and is then taken for a member of a rack without replicas.
    Consumers of other libraries send null, and may get all partitions."""

    by_member: Mapping[str, str]
    by_topic: Mapping[str, Sequence[Collection[str]]]

    @classmethod
    def where_they_matter(
        cls,
        members: Iterable[Subscriber],
        counts: Mapping[str, int],
        replica_racks: Mapping[str, Sequence[Collection[str]]],
    ) -> Self | None:
        """Returns the racks of a group, or None if they make no difference. `counts` are the partitions of each topic
        that has subscribers and exists."""
        taking_part = [each for each in members if not counts.keys().isdisjoint(each.topics)]
        by_member = {each.member_id: each.rack for each in taking_part if each.rack is not None}
        by_topic = {topic: _of_partitions(replica_racks.get(topic, ()), count) for topic, count in counts.items()}
        of_replicas = [racks for of_topic in by_topic.values() for racks in of_topic]
        if not needs_rack_awareness(filter(None, map(rack_of, taking_part)), of_replicas):
            return None
        return cls(by_member=by_member, by_topic=by_topic)

    def match(self, member_id: str, partition: Partition) -> bool:
        """Whether a replica of the partition is in the member's rack, or the member has none."""
        rack = self.by_member.get(member_id)
        return rack is None or rack in self.by_topic[partition[0]][partition[1]]


def _of_partitions(racks: Sequence[Collection[str]], count: int) -> list[Collection[str]]:
    return [*racks[:count], *([()] * (count - len(racks)))]
