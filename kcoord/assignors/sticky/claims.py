"""Which partitions members still own, by their own account, before a sticky assignor plans.

A member that missed rebalances may claim what another one has by now. The newer generation has it; if both are of the
same generation, neither has.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kcoord.assignors.plan import NO_GENERATION, Partition, Subscriber, TopicPartitions
from kcoord.java_hashing import string_map_order

Owned: TypeAlias = dict[str, Sequence[int]]  # by topic


@dataclass(slots=True, kw_only=True)
class Claims:
    """What the members of a group own, by member id and topic; of topics that exist alone. The member ids are in the
    order of Kafka's map of them, whose entries come from the map of subscriptions, in that one's order.

    `contested` are partitions that two members claimed in the same generation. `same_topics` is whether all members are
    subscribed to the same topics.
    """

    owned: dict[str, Owned]
    partitions: dict[str, set[int]]
    """All that some member owns, by topic."""
    contested: set[Partition] = field(default_factory=set)
    same_topics: bool = True
    max_generation: int = NO_GENERATION


def resolve_claims(
    members: Sequence[Subscriber],
    subscriptions: Mapping[tuple[str, ...], Sequence[int]],
    topics: Mapping[str, int],
) -> Claims:
    """Returns what each member owns. `members` are in the order in which Kafka's HashMap iterates over them, and so are
    their distinct subscriptions, with the positions of the members that have them."""
    by_id = {each.member_id: each for each in members}
    owned = {member_id: _existing(by_id[member_id].owned, topics) for member_id in string_map_order(by_id)}
    listed = _by_topic(owned.values())
    claims = Claims(
        owned=owned,
        partitions={topic: set(numbers) for topic, numbers in listed.items()},
        same_topics=_are_same(subscriptions),
        max_generation=max([NO_GENERATION, *(each.known_generation for each in members)]),
    )
    if any(len(claims.partitions[topic]) < len(numbers) for topic, numbers in listed.items()):
        _resolve_conflicts(members, claims)
    return claims


def _existing(owned: TopicPartitions, topics: Mapping[str, int]) -> Owned:
    """Returns what a member owns of these topics."""
    if owned.keys() <= topics.keys() and all(owned.values()):
        return dict(owned)
    return {topic: numbers for topic, numbers in owned.items() if numbers and topic in topics}


def _are_same(subscriptions: Mapping[tuple[str, ...], Sequence[int]]) -> bool:
    """Compares subscriptions as Kafka does: with the set of topics of the first one that is not empty, and only those
    behind it. So one that lists a topic twice differs from itself, if two members have it."""
    wanting = [each for each in subscriptions.items() if each[0]]
    if not wanting:
        return True
    (topics, positions), *others = wanting
    first = set(topics)
    behind = [topics] * (len(positions) > 1) + [each for each, _ in others]
    behind += [each for each in subscriptions if not each and subscriptions[each][-1] > positions[0]]
    return all(len(each) == len(first) and first.issuperset(each) for each in behind)


def _by_topic(owned: Iterable[Owned]) -> dict[str, list[int]]:
    """Returns all that members own of each topic."""
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for each in owned:
        for topic, numbers in each.items():
            by_topic[topic] += numbers
    return by_topic


def _resolve_conflicts(members: Sequence[Subscriber], claims: Claims) -> None:
    """Gives each partition that is claimed twice to the member of the newer generation, or to nobody.

    The generation of the member that claimed first is the one in the field of its subscription, also where its user
    data has another one: AbstractStickyAssignor.allSubscriptionsEqual compares them so.
    """
    by_id = {each.member_id: each for each in members}
    owner_of: dict[Partition, str] = {}
    resolved: dict[str, dict[str, list[int]]] = {}
    for each in members:
        claimed = claims.owned[each.member_id]
        held: dict[str, list[int]] = {topic: [] for topic in claimed}
        resolved[each.member_id] = held
        generation = each.known_generation
        for topic, partitions in claimed.items():
            for number in partitions:
                partition = topic, number
                other = owner_of.get(partition)
                if other is None:
                    held[topic].append(number)
                    owner_of[partition] = each.member_id
                    continue
                field_generation = by_id[other].field_generation
                other_generation = NO_GENERATION if field_generation is None else field_generation
                if generation < other_generation:
                    continue
                if generation == other_generation:
                    claims.contested.add(partition)
                else:
                    held[topic].append(number)
                # A member that claims a partition twice may be the other one itself, and loses what it has just got.
                if number in resolved[other].get(topic, ()):
                    resolved[other][topic].remove(number)
                owner_of[partition] = each.member_id
    claims.owned = {
        member_id: {topic: numbers for topic, numbers in resolved[member_id].items() if numbers}
        for member_id in claims.owned
    }
    claims.partitions = {topic: set(numbers) for topic, numbers in _by_topic(claims.owned.values()).items()}
