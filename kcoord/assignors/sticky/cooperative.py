"""Kafka's cooperative sticky assignor: a partition that moves is taken from its owner in one rebalance, and given to
its new owner in the next one. What does not move is never interrupted."""

from collections.abc import Collection, Mapping, Sequence

from kcoord.assignors.plan import Partition, Plan, Subscriber, Topics, list_partitions
from kcoord.assignors.sticky.sticky import plan_sticky


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by Kafka's cooperative sticky assignor: the sticky plan, without the
    partitions that another member still has to give up. Raises AssignorFailed where Kafka's throws an exception."""
    sticky = plan_sticky(subscribers, topics)
    plan, transferred = sticky.plan, sticky.transferred
    if transferred is None:
        transferred = _transferred({each.member_id: each for each in subscribers}, plan)
    withheld: dict[tuple[str, str], set[int]] = {}
    for (topic, number), member_id in transferred.items():
        withheld.setdefault((member_id, topic), set()).add(number)
    for (member_id, topic), numbers in withheld.items():
        if left := _without(plan[member_id].pop(topic, ()), numbers):
            plan[member_id][topic] = left
    return plan


def _without(partitions: Sequence[int], withheld: set[int]) -> list[int]:
    """Returns the partitions without those that are withheld: once, as Java removes them from a list."""
    left = []
    for number in partitions:
        if number in withheld:
            withheld.remove(number)
        else:
            left.append(number)
    return left


def _transferred(members: Mapping[str, Subscriber], plan: Plan) -> dict[Partition, str]:
    """Returns the partitions that one member gains and another one loses, by the one that gains them."""
    gained: dict[Partition, str] = {}
    lost: set[Partition] = set()
    for member_id, assigned in plan.items():
        before, after = set(list_partitions(members[member_id].owned)), set(list_partitions(assigned))
        gained |= dict.fromkeys(after - before, member_id)
        lost |= before - after
    return {partition: member_id for partition, member_id in gained.items() if partition in lost}
