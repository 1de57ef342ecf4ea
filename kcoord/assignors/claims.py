"""Which partitions members still own, by their own account, before a sticky assignor plans.

A member that missed rebalances may claim what another one has by now. The newer generation has it; if both are of the
same generation, neither has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kcoord.assignors.plan import Partition, Subscriber, count_partitions
from kcoord.java_hashing import string_map_order

Owned: TypeAlias = dict[str, Sequence[int]]  # by topic

NO_GENERATION: Final = -1


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


def resolve_claims(members: Sequence[Subscriber], topics: Mapping[str, int]) -> Claims:
    """Returns what each member owns. `members` are in the order in which Kafka's HashMap iterates over them."""
    by_id = {each.member_id: each for each in members}
    owned: dict[str, Owned] = {
        member_id: {topic: numbers for topic, numbers in by_id[member_id].owned.items() if numbers and topic in topics}
        for member_id in string_map_order(by_id)
    }
    claims = Claims(
        owned=owned,
        partitions={topic: set[int]().union(*claimed) for topic, claimed in _by_topic(owned.values()).items()},
        same_topics=_have_same_topics(members),
        max_generation=max([NO_GENERATION, *(_generation(each) for each in members)]),
    )
    if sum(map(len, claims.partitions.values())) < sum(map(count_partitions, owned.values())):
        _resolve_conflicts(members, claims)
    return claims


def _generation(each: Subscriber) -> int:
    return NO_GENERATION if each.generation is None else each.generation


def _have_same_topics(members: Sequence[Subscriber]) -> bool:
    """Compares subscriptions as Kafka does: with the first one that is not empty."""
    first: set[str] = set()
    for each in members:
        if not first:
            first = set(each.topics)
        elif len(each.topics) != len(first) or not first.issuperset(each.topics):
            return False
    return True


def _by_topic(owned: Iterable[Owned]) -> dict[str, list[Sequence[int]]]:
    by_topic: dict[str, list[Sequence[int]]] = {}
    for each in owned:
        for topic, numbers in each.items():
            by_topic.setdefault(topic, []).append(numbers)
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
        generation = _generation(each)
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
                if number in resolved[other].get(topic, ()):
                    resolved[other][topic].remove(number)
                owner_of[partition] = each.member_id
                if generation == other_generation:
                    claims.contested.add(partition)
                else:
                    held[topic].append(number)
    claims.owned = {
        member_id: {topic: numbers for topic, numbers in resolved[member_id].items() if numbers}
        for member_id in claims.owned
    }
    claims.partitions = {
        topic: set[int]().union(*claimed) for topic, claimed in _by_topic(claims.owned.values()).items()
    }
