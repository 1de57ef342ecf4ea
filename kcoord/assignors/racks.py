"""When Kafka's assignors consider racks (KIP-881)."""

from collections.abc import Collection, Iterable

from kcoord.assignors.plan import Subscriber, Topics


def rack_of(subscriber: Subscriber) -> str | None:
    """Returns the rack of a member, or None if it has none: an empty one counts as none."""
    return subscriber.rack or None


def needs_rack_awareness(member_racks: Iterable[str], replica_racks: Collection[Collection[str]]) -> bool:
    """Whether it makes a difference which member gets which partition: some member is in a rack with replicas, and not
    all partitions have replicas in all racks."""
    all_racks = {rack for racks in replica_racks for rack in racks}
    return not all_racks.isdisjoint(member_racks) and any(set(racks) != all_racks for racks in replica_racks)


def racks_matter(subscribers: Collection[Subscriber], topics: Topics) -> bool:
    """Whether it makes a difference in this group which member gets which partition."""
    subscribed = topics.counts.keys() & {topic for each in subscribers for topic in each.topics}
    replica_racks: list[Collection[str]] = []
    for topic in subscribed:
        known = list(topics.racks.get(topic, ()))[: topics.counts[topic]]
        replica_racks += known + [()] * (topics.counts[topic] - len(known))
    return needs_rack_awareness(filter(None, map(rack_of, subscribers)), replica_racks)
