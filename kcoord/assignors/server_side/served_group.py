"""What the server-side assignors of consumer groups (KIP-848) share: how they see a group's members and topics."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kcoord.assignors.plan import Subscriber, Topics, distinct, subscriptions_of
from kcoord.java_hashing import hash_map_order, hash_set_order, string_map_order, string_order, uuid_hash, uuid_order


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGroup:
    """A consumer group as its coordinator gives it to an assignor: the members in the order of Kafka's HashMap, the
    subscribed topics that exist with their partitions, and the ids of these topics and of those that members have.
    `is_homogeneous` is whether all members are subscribed to the same topics."""

    members: list[Subscriber]
    counts: Mapping[str, int]
    topic_ids: Mapping[str, UUID]
    is_homogeneous: bool

    @classmethod
    def of(cls, members: Collection[Subscriber], topics: Topics) -> "ServedGroup":
        """Returns the group with these members. Topics without an id get one that sorts as their name does."""
        by_id = {each.member_id: each for each in distinct(members)}
        subscribers: dict[str, int] = {}
        for subscription, positions in subscriptions_of(by_id.values()).items():
            for topic in set(subscription):
                subscribers[topic] = subscribers.get(topic, 0) + len(positions)
        existing = {topic: topics.counts[topic] for topic in subscribers if topic in topics.counts}
        assigned = set[str]().union(*(each.owned for each in by_id.values()))
        named = sorted(existing, key=string_order) + sorted(assigned - existing.keys(), key=string_order)
        return cls(
            members=[by_id[member_id] for member_id in string_map_order(by_id)],
            counts=existing,
            topic_ids={topic: topics.ids.get(topic, UUID(int=rank)) for rank, topic in enumerate(named, start=1)},
            is_homogeneous=all(count == len(by_id) for count in subscribers.values()),
        )

    def topics_of(self, member: Subscriber) -> list[str]:
        """Returns the topics of a member that exist."""
        return [topic for topic in dict.fromkeys(member.topics) if topic in self.counts]

    def in_map_order(self, topics: Iterable[str]) -> list[str]:
        """Returns topics in the order in which a HashMap by topic id iterates over them."""
        return hash_map_order(topics, self._hash, compared_by=self._order)

    def in_set_order(self, topics: Collection[str]) -> list[str]:
        """Returns topics in the order in which a HashSet of these topic ids iterates over them."""
        return hash_set_order(list(topics), self._hash, compared_by=self._order)

    def _hash(self, topic: str) -> int:
        return uuid_hash(self.topic_ids[topic])

    def _order(self, topic: str) -> tuple[int, int]:
        return uuid_order(self.topic_ids[topic])
