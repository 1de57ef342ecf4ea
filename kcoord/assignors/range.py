"""Kafka's range assignor: each topic is cut into neighboring ranges of partitions, one for each of its subscribers.

Static members come first, by instance id, then the others by member id, as Java sorts them. The first members get one
partition more if the division leaves a remainder.

With racks (KIP-881), a partition goes to a member in the rack of one of its replicas first, as far as the balance
allows. Topics with equally many partitions and the same subscribers stay co-partitioned: a member gets the same numbers
of all of them. What cannot be matched is then assigned in ranges.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kcoord.assignors.plan import (
    MemberPlan,
    Plan,
    Subscriber,
    Topics,
    distinct,
    in_member_order,
    subscribed_counts,
    subscribers_by_topic,
    subscriptions_of,
)
from kcoord.assignors.racks import needs_rack_awareness, rack_of
from kcoord.java_hashing import string_map_order


def assign_range(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by Kafka's range assignor: each topic is cut by itself into adjacent
    ranges, one for each of its subscribers.
    """
    members = {each.member_id: each for each in distinct(subscribers)}
    plan: Plan = {member_id: {} for member_id in members}
    # Static members with equal instance ids stay in the order of Java's HashMap.
    in_order = in_member_order(members[member_id] for member_id in string_map_order(members))
    subscriptions = subscriptions_of(in_order)
    counts = subscribed_counts(subscriptions, topics)
    by_topic = subscribers_by_topic(subscriptions, counts)
    if topics.racks:
        states = [
            TopicState(topic, count, [in_order[each] for each in by_topic[topic]], topics.racks.get(topic, ()))
            for topic, count in counts.items()
        ]
        if any(state.is_rack_aware for state in states):
            _assign_by_racks(states)
            for state in states:
                state.assign_ranges()
                state.add_to(plan)
            return plan
    _assign_ranges(by_topic, counts, [plan[each.member_id] for each in in_order])
    return plan


def _assign_ranges(
    by_topic: Mapping[str, tuple[int, ...]], counts: Mapping[str, int], plans: Sequence[MemberPlan]
) -> None:
    """Adds ranges of each topic to the plans. Topics with the same subscribers and equally many partitions share
    them."""
    groups: dict[tuple[tuple[int, ...], int], list[str]] = {}
    for topic, subscribers in by_topic.items():
        groups.setdefault((subscribers, counts[topic]), []).append(topic)
    for (subscribers, count), topics in groups.items():
        least, remainder = divmod(count, len(subscribers))
        first = 0
        for rank, position in enumerate(subscribers[:count]):
            end = first + least + (rank < remainder)
            plans[position].update(dict.fromkeys(topics, range(first, end)))
            first = end


class TopicState:
    """The assignment of one topic so far, with the racks of its subscribers and of its partitions' replicas."""

    def __init__(
        self, topic: str, count: int, subscribers: list[Subscriber], replica_racks: Iterable[Collection[str]]
    ) -> None:
        self.topic = topic
        self.count = count
        self.racks = {each.member_id: rack_of(each) for each in subscribers}
        self.assigned: dict[str, list[int]] = {member_id: [] for member_id in self.racks}
        self._unassigned = dict.fromkeys(range(count))
        self._least, self._extras = divmod(count, len(subscribers))
        by_partition = [frozenset(each) for each in replica_racks][:count]
        self._replica_racks = by_partition + [frozenset[str]()] * (count - len(by_partition))
        self.is_rack_aware = needs_rack_awareness(filter(None, self.racks.values()), self._replica_racks)

    def matches(self, member_id: str, partition: int) -> bool:
        """Whether a replica of the partition is in the member's rack, or the member has none."""
        rack = self.racks[member_id]
        return rack is None or rack in self._replica_racks[partition]

    def room(self, member_id: str) -> int:
        """Returns how many partitions more the member may get."""
        return max(0, self._least + (self._extras > 0) - len(self.assigned[member_id]))

    def assign(self, member_id: str, partitions: list[int]) -> None:
        """Assigns the partitions to the member."""
        self.assigned[member_id] += partitions
        if len(self.assigned[member_id]) > self._least:
            self._extras -= 1
        for partition in partitions:
            self._unassigned.pop(partition, None)

    def assign_matching_ranges(self) -> None:
        """Assigns as many partitions as possible to members in the rack of a replica."""
        for member_id in self.racks:
            if matching := [each for each in self._unassigned if self.matches(member_id, each)]:
                self._assign_some(member_id, matching)

    def assign_ranges(self) -> None:
        """Assigns the partitions that are left, in ranges."""
        for member_id in self.racks:
            if self._unassigned:
                self._assign_some(member_id, list(self._unassigned))

    def add_to(self, plan: Plan) -> None:
        """Adds the assignment of this topic to a plan."""
        for member_id, partitions in self.assigned.items():
            if partitions:
                plan[member_id][self.topic] = sorted(partitions)

    def _assign_some(self, member_id: str, partitions: list[int]) -> None:
        if chosen := partitions[: self.room(member_id)]:
            self.assign(member_id, chosen)


def _assign_by_racks(states: list[TopicState]) -> None:
    groups: dict[tuple[object, ...], list[TopicState]] = {}
    for state in states:
        # Java groups by the subscribers, and then by the size of the map of racks: that is empty if no subscriber has
        # a rack.
        has_racks = any(state.racks.values())
        groups.setdefault((frozenset(state.racks.items()), state.count if has_racks else 0), []).append(state)
    for group in groups.values():
        if len(group) > 1:
            _assign_co_partitioned(group)
        elif group[0].is_rack_aware:
            group[0].assign_matching_ranges()


def _assign_co_partitioned(states: list[TopicState]) -> None:
    """Assigns each number of a partition to the first member in the right rack for all topics of the group."""
    remaining = list(states[0].racks)
    if not any(states[0].racks.values()):
        return
    for partition in range(states[0].count):
        for member_id in remaining:
            if all(state.matches(member_id, partition) and state.room(member_id) > 0 for state in states):
                break
        else:
            continue
        for state in states:
            state.assign(member_id, [partition])
        if not any(state.room(member_id) > 0 for state in states):
            remaining.remove(member_id)
            if not remaining:
                break
