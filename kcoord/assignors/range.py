"""Kafka's range assignor: it cuts each topic by itself into adjacent ranges, one for each of its subscribers.

If a topic cannot be cut evenly, the first members get one partition more, and they come first in every topic: over many
topics the ones add up. In return partitions with the same number go to the same member, which joins of topics rely on.
Racks are ignored (KIP-881): they move partitions between members, and do not change counts.
"""

from collections.abc import Collection

from kcoord.assignors.plan import Partition, PartitionCounts, Plan, Subscriber


def assign_range(subscribers: Collection[Subscriber], counts: PartitionCounts) -> Plan:
    """Returns the assignment of each member by Kafka's range assignor: each topic is cut by itself into adjacent
    ranges, one for each of its subscribers.
    """
    plan: dict[str, list[Partition]] = {each.member_id: [] for each in subscribers}
    in_order = sorted(subscribers, key=_order)
    for topic in sorted({topic for each in subscribers for topic in each.topics}):
        wanting = [each for each in in_order if topic in each.topics]
        least, remainder = divmod(counts.get(topic, 0), len(wanting))
        first = 0
        for rank, each in enumerate(wanting):
            size = least + (rank < remainder)
            plan[each.member_id] += [(topic, index) for index in range(first, first + size)]
            first += size
    return {member_id: tuple(partitions) for member_id, partitions in plan.items()}


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    """Sorts static members first, by instance id; then the others by member id."""
    if subscriber.instance_id is not None:
        return False, subscriber.instance_id
    return True, subscriber.member_id
