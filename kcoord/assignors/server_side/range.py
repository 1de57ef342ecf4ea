"""The server-side range assignor of consumer groups (KIP-848): each topic is cut into ranges, one for each
subscriber."""

from collections.abc import Collection

from kcoord.assignors.plan import Plan, Subscriber, Topics
from kcoord.assignors.range import assign_range


def assign_server_range(members: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the target assignment of each member by Kafka's server-side range assignor.

    It gives what the client-side one gives without racks: static members first, by instance id, and one partition more
    to the first ones.
    """
    return assign_range(members, Topics(counts=topics.counts))
