"""The types of the assignors: subscribers, partitions by topic, plans."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias
from uuid import UUID

from kcoord.exceptions import InvalidInput
from kcoord.java_hashing import string_order

Partition: TypeAlias = tuple[str, int]
TopicPartitions: TypeAlias = Mapping[str, Sequence[int]]  # by topic, as the consumer protocol has them on the wire
MemberPlan: TypeAlias = dict[str, Sequence[int]]  # by topic; topics without partitions are left out
Plan: TypeAlias = dict[str, MemberPlan]  # by member id; members without partitions are included

NO_GENERATION: Final = -1


class AssignorFailed(InvalidInput):
    """Raised where Kafka's assignor throws an exception, so that the leader's consumer fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What an assignor knows of the topics of a cluster, by name: how many partitions each has, the racks of all
    replicas of each partition, and the topics' ids. A topic without a count does not exist; racks and ids may be
    missing."""

    counts: Mapping[str, int]
    racks: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    ids: Mapping[str, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member of a group as an assignor sees it: its subscribed topics, and the partitions that it has now.

    `generation` is that of the rebalance that assigned `owned`, or None if the member does not send it. A sticky
    assignor reads both from its user data, and then `field_generation` is the one of the subscription beside it.
    """

    member_id: str
    topics: Collection[str]
    instance_id: str | None = None
    owned: TopicPartitions = field(default_factory=dict)
    generation: int | None = None
    field_generation: int | None = None
    rack: str | None = None

    @property
    def known_generation(self) -> int:
        """The generation, or -1 if the member does not send it."""
        return NO_GENERATION if self.generation is None else self.generation


_PRESENT_GENERATION: Final = 1


def with_owned(subscriber: Subscriber, owned: TopicPartitions) -> Subscriber:
    """Returns a member that owns these partitions since the latest rebalance. A sticky assignor considers only what
    was assigned in the latest generation that it hears of, so all such members have the same one."""
    return replace(subscriber, owned=owned, generation=_PRESENT_GENERATION, field_generation=_PRESENT_GENERATION)


def distinct(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Returns one subscriber for each member id: of several the last one, at the position of the first one."""
    return list({each.member_id: each for each in subscribers}.values())


def in_member_order(
    subscribers: Iterable[Subscriber], *, order: Callable[[str], bytes] = string_order
) -> list[Subscriber]:
    """Returns the subscribers as Kafka sorts members: static ones by instance id, then the others by member id. `order`
    is the order of ids."""

    def rank(each: Subscriber) -> tuple[bool, bytes]:
        return each.instance_id is None, order(each.member_id if each.instance_id is None else each.instance_id)

    return sorted(subscribers, key=rank)


def subscriptions_of(subscribers: Iterable[Subscriber]) -> dict[tuple[str, ...], list[int]]:
    """Returns each distinct subscription, with the positions of the subscribers that have it. Most groups have one, so
    what depends on the subscription alone is done once for all members."""
    positions: dict[tuple[str, ...], list[int]] = {}
    for position, each in enumerate(subscribers):
        positions.setdefault(tuple(each.topics), []).append(position)
    return positions


def subscribed_counts(subscriptions: Iterable[tuple[str, ...]], topics: Topics) -> dict[str, int]:
    """Returns the number of partitions of each subscribed topic that exists and has any."""
    subscribed = dict.fromkeys(topic for subscription in subscriptions for topic in subscription)
    return {topic: count for topic in subscribed if (count := topics.counts.get(topic, 0)) > 0}


def subscribers_by_topic(
    subscriptions: Mapping[tuple[str, ...], Sequence[int]], topics: Iterable[str]
) -> dict[str, tuple[int, ...]]:
    """Returns the positions of the subscribers of each of these topics, in order."""
    wanting: dict[str, list[tuple[str, ...]]] = {topic: [] for topic in topics}
    for subscription in subscriptions:
        for topic in dict.fromkeys(subscription):
            if topic in wanting:
                wanting[topic].append(subscription)
    merged: dict[tuple[tuple[str, ...], ...], tuple[int, ...]] = {}
    by_topic: dict[str, tuple[int, ...]] = {}
    for topic, wanted_by in wanting.items():
        key = tuple(wanted_by)
        if key not in merged:
            merged[key] = tuple(sorted(position for each in key for position in subscriptions[each]))
        by_topic[topic] = merged[key]
    return by_topic


def group_by_topic(partitions: Iterable[Partition]) -> MemberPlan:
    """Returns the partitions by topic, in their order."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {**by_topic}


def list_partitions(by_topic: TopicPartitions) -> Iterator[Partition]:
    """Yields each partition as a pair of topic and number."""
    return ((topic, partition) for topic, partitions in by_topic.items() for partition in partitions)


def count_partitions(by_topic: TopicPartitions) -> int:
    """Counts the partitions of all topics."""
    return sum(map(len, by_topic.values()))


def shares(plan: Mapping[str, TopicPartitions]) -> list[int]:
    """Returns how many partitions each member gets by an assignment plan, the largest number first."""
    return sorted(map(count_partitions, plan.values()), reverse=True)


def spread(plan: Mapping[str, TopicPartitions]) -> int:
    """Returns how uneven an assignment plan is: the difference between the largest and the smallest number of
    partitions of a member.
    """
    sizes = shares(plan)
    return sizes[0] - sizes[-1] if sizes else 0
