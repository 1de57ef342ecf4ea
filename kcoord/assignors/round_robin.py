"""Kafka's round-robin assignor: the partitions of all topics are dealt out one by one, each to the next subscriber."""

from bisect import bisect_left
from collections.abc import Collection

from kcoord.assignors.dealing import Circle
from kcoord.assignors.plan import (
    Plan,
    Subscriber,
    Topics,
    distinct,
    in_member_order,
    subscribed_counts,
    subscribers_by_topic,
    subscriptions_of,
)
from kcoord.java_hashing import string_map_order, string_order


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by Kafka's round-robin assignor: topics in the order of their names,
    members in a circle, and members that are not subscribed to a topic are passed over.
    """
    members = {each.member_id: each for each in distinct(subscribers)}
    plan: Plan = {member_id: {} for member_id in members}
    in_order = in_member_order(members[member_id] for member_id in string_map_order(members))
    subscriptions = subscriptions_of(in_order)
    counts = subscribed_counts(subscriptions, topics)
    by_topic = subscribers_by_topic(subscriptions, counts)
    circles: dict[tuple[int, ...], Circle] = {}
    next_position = 0
    for topic in sorted(counts, key=string_order):
        subscribed = by_topic[topic]
        circle = circles.get(subscribed)
        if circle is None:
            plans = [plan[in_order[position].member_id] for position in subscribed]
            circle = circles[subscribed] = Circle(plans)
        circle.position = bisect_left(subscribed, next_position) % len(subscribed)
        circle.deal(topic, range(counts[topic]))
        next_position = (subscribed[circle.position - 1] + 1) % len(in_order)
    return plan
