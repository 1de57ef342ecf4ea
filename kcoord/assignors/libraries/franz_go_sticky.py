"""The best sticky plan, as franz-go makes it: as even as possible, and of the plans that are as even one that moves the
fewest partitions.

franz-go chooses among such plans by the order of a Go map, which is another one each time. So this is one of them: the
sizes of the shares and the number of moves are franz-go's, but not which partitions move.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kcoord.assignors.libraries.byte_order import byte_order, known_counts
from kcoord.assignors.libraries.cheapest_plan import Row, cheapest_shares
from kcoord.assignors.libraries.franz_go import in_member_order
from kcoord.assignors.plan import (
    NO_GENERATION,
    Partition,
    Plan,
    Subscriber,
    Topics,
    group_by_topic,
    list_partitions,
    subscribers_by_topic,
    subscriptions_of,
)


def assign_sticky(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns a plan that is as good as that of franz-go's sticky balancer."""
    members = in_member_order(subscribers)
    counts = known_counts(members, topics)
    subscribers_of = subscribers_by_topic(subscriptions_of(members), sorted(counts, key=byte_order))
    rows: dict[Row, list[Partition]] = {}
    for topic, row in subscribers_of.items():
        rows.setdefault(row, []).extend((topic, number) for number in range(counts[topic]))
    held = cheapest_shares(len(members), rows, _resolve_claims(members, counts))
    return {each.member_id: group_by_topic(sorted(share)) for each, share in zip(members, held, strict=True)}


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns a plan that is as good as that of franz-go's cooperative sticky balancer: the sticky plan, without what
    another member must give up first. What members claim without a generation counts for the second part alone."""
    members = in_member_order(subscribers)
    counting = [each if each.generation is not None else replace(each, owned={}) for each in members]
    planned = {member_id: set(list_partitions(held)) for member_id, held in assign_sticky(counting, topics).items()}
    claims = {each.member_id: set(list_partitions(each.owned)) for each in members}
    newest = _newest_claims(members)
    revoked = {each for member_id, claimed in claims.items() for each in claimed - planned[member_id]}
    plan: Plan = {}
    for each in members:
        current = {one for one in claims[each.member_id] if each.known_generation >= newest[one]}
        plan[each.member_id] = group_by_topic(sorted(planned[each.member_id] - (revoked - current)))
    return plan


def _newest_claims(members: Sequence[Subscriber]) -> dict[Partition, int]:
    newest: dict[Partition, int] = {}
    for each in members:
        for partition in list_partitions(each.owned):
            newest[partition] = max(newest.get(partition, NO_GENERATION), each.known_generation)
    return newest


def _generation(each: Subscriber) -> int:
    """Returns the generation of a claim in user data. An unknown one is as good as the first one."""
    return max(each.known_generation, 0)


def _resolve_claims(members: Sequence[Subscriber], counts: Mapping[str, int]) -> dict[Partition, int]:
    """Returns the index of the owner of each partition: of several claims the newest one counts, and of those of one
    generation the first one. A second one gets it back if the first one is not subscribed any more, or has at least
    two more partitions."""
    topics_of = [frozenset(each.topics) for each in members]
    claims: dict[Partition, list[tuple[int, int]]] = {}
    for index, each in enumerate(members):
        for topic, number in list_partitions(each.owned):
            if 0 <= number < counts.get(topic, 0):
                claims.setdefault((topic, number), []).append((-_generation(each), index))
    ranked = {partition: [index for _, index in sorted(of_partition)] for partition, of_partition in claims.items()}
    owner_of = {each: indexes[0] for each, indexes in ranked.items() if each[0] in topics_of[indexes[0]]}
    sizes = Counter(owner_of.values())
    for partition, (_, *stale) in ranked.items():
        if not stale or partition[0] not in topics_of[stale[0]]:
            continue
        owner = owner_of.get(partition)
        if owner is None or sizes[stale[0]] + 1 < sizes[owner]:
            if owner is not None:
                sizes[owner] -= 1
            owner_of[partition] = stale[0]
            sizes[stale[0]] += 1
    return owner_of
