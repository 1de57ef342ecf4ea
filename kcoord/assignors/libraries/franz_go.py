"""What franz-go plans when it leads.

Range and round robin are Java's without racks; members are sorted by the bytes of their ids, static ones first. Its
sticky assignors have an algorithm of their own, with the best outcome there is: franz_go_sticky has one of the plans
that are as good.
"""

from collections.abc import Collection, Iterable

from kcoord.assignors.libraries.byte_order import byte_order, known_counts
from kcoord.assignors.libraries.circle import cut_range, deal_in_circle
from kcoord.assignors.plan import Plan, Subscriber, Topics, distinct
from kcoord.assignors.plan import in_member_order as in_order


def assign_range(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by franz-go's range balancer."""
    members = in_member_order(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    for topic, count in known_counts(members, topics).items():
        cut_range(plan, topic, count, [each.member_id for each in members if topic in each.topics])
    return plan


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by franz-go's round-robin balancer."""
    members = in_member_order(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    counts = known_counts(members, topics)
    partitions = ((topic, number) for topic in sorted(counts, key=byte_order) for number in range(counts[topic]))
    deal_in_circle(plan, partitions, [(each.member_id, frozenset(each.topics)) for each in members])
    return plan


def in_member_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Returns the subscribers as franz-go sorts members: static ones by instance id, then the others by member id."""
    return in_order(distinct(subscribers), order=byte_order)
