"""Kafka's sticky assignor: as even as possible first, and then each partition stays with its owner if it can.

If all members are subscribed to the same topics, same_topics plans; otherwise mixed_topics does. Both
make the same choices as Java's AbstractStickyAssignor, which depend on the order in which a HashMap has the member ids.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kcoord.assignors.plan import Partition, Plan, Subscriber, Topics, distinct, subscribed_counts, subscriptions_of
from kcoord.assignors.sticky.claims import resolve_claims
from kcoord.assignors.sticky.mixed_topics import assign_mixed_topics
from kcoord.assignors.sticky.racks import StickyRacks
from kcoord.assignors.sticky.same_topics import assign_same_topics
from kcoord.java_hashing import string_map_order


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyPlan:
    """A plan, and the partitions in it that have another owner than before, by their new one: a cooperative assignor
    must not hand them out yet. None if that was not found out on the way."""

    plan: Plan
    transferred: Mapping[Partition, str] | None


def assign_sticky(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by Kafka's sticky assignor. Raises AssignorFailed where Kafka's throws an
    exception."""
    return plan_sticky(subscribers, topics).plan


def plan_sticky(subscribers: Collection[Subscriber], topics: Topics) -> StickyPlan:
    """Returns the plan of the sticky assignor, with what a cooperative one needs to know besides."""
    members = {each.member_id: each for each in distinct(subscribers)}
    if not members:
        return StickyPlan(plan={}, transferred={})
    in_order = [members[member_id] for member_id in string_map_order(members)]
    subscriptions = subscriptions_of(in_order)
    counts = subscribed_counts(subscriptions, topics)
    claims = resolve_claims(in_order, subscriptions, counts)
    racks = StickyRacks.of(in_order, counts, topics.racks)
    if claims.same_topics:
        plan, transferred = assign_same_topics(claims, counts, racks)
        return StickyPlan(plan=plan, transferred=transferred)
    return StickyPlan(plan=assign_mixed_topics(in_order, claims, counts, racks), transferred=None)
