"""What kafka-python plans when it leads.

Static members come first, as in Java. But members are grouped in the order of the JoinGroup response, and only the last
run of static members and the last run of others count: where they alternate, the members before get no partitions.

Round robin fails with a KeyError as soon as it has to pass over a member that is not subscribed to a topic.

Both sticky assignors are KIP-54's original algorithm. Of claims of one generation the first one counts. Racks are
never considered.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import cycle, groupby

from kcoord.assignors.libraries.byte_order import byte_order, known_counts
from kcoord.assignors.libraries.circle import cut_range
from kcoord.assignors.libraries.original_sticky import Claimed, OriginalSticky, newest_claims
from kcoord.assignors.plan import (
    AssignorFailed,
    Partition,
    Plan,
    Subscriber,
    Topics,
    distinct,
    group_by_topic,
    list_partitions,
)


def assign_range(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by kafka-python's range assignor."""
    members = distinct(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    for topic, count in known_counts(members, topics).items():
        cut_range(plan, topic, count, _considered(each for each in members if topic in each.topics))
    return plan


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by kafka-python's round-robin assignor. Raises AssignorFailed where the
    consumer would fail with a KeyError."""
    members = distinct(subscribers)
    counts = known_counts(members, topics)
    topics_of = {each.member_id: frozenset(each.topics) for each in members}
    dealt: dict[str, list[Partition]] = {each.member_id: [] for each in members}
    partitions = [(topic, number) for topic in sorted(counts, key=byte_order) for number in range(counts[topic])]
    for (topic, number), member_id in zip(partitions, cycle(_considered(members)), strict=False):
        if topic not in topics_of[member_id]:
            raise AssignorFailed(
                f"KeyError: {member_id} is not subscribed to {topic}, and the next member is not found"
            )
        dealt[member_id].append((topic, number))
    return {member_id: group_by_topic(given) for member_id, given in dealt.items()}


def assign_sticky(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by kafka-python's sticky assignor, and by its cooperative one before
    partitions are withheld."""
    members = distinct(subscribers)
    if not members:
        return {}
    return _Sticky(members, known_counts(members, topics), _resolve_claims(members)).plan()


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by kafka-python's cooperative sticky assignor: the sticky plan, without
    what another member claims, whatever the generation of its claim."""
    claimant = {
        partition: each.member_id for each in distinct(subscribers) for partition in list_partitions(each.owned)
    }
    return {
        member_id: group_by_topic(each for each in list_partitions(held) if claimant.get(each, member_id) == member_id)
        for member_id, held in assign_sticky(subscribers, topics).items()
    }


def _considered(members: Iterable[Subscriber]) -> list[str]:
    """Returns the members that count, in their order."""
    runs = {is_static: list(run) for is_static, run in groupby(members, key=lambda each: each.instance_id is not None)}
    static = sorted(
        runs.get(True, []), key=lambda each: (byte_order(each.instance_id or ""), byte_order(each.member_id))
    )
    others = sorted(runs.get(False, []), key=lambda each: byte_order(each.member_id))
    return [each.member_id for each in [*static, *others]]


def _resolve_claims(members: Sequence[Subscriber]) -> Claimed:
    """Returns what members own: a partition belongs to the newest of its claims. Of those of one generation the first
    one counts, and of generation 0 the last one."""
    claims: dict[Partition, dict[int, str]] = {}
    for each in members:
        generation = each.known_generation
        for partition in list_partitions(each.owned):
            by_generation = claims.setdefault(partition, {})
            if not generation or generation not in by_generation:
                by_generation[generation] = each.member_id
    return newest_claims(members, claims)


class _Sticky(OriginalSticky):
    """kafka-python's choices."""

    def has_same_topics(self) -> bool:
        """Compares the topics in the order in which members name them."""
        return len({tuple(topics) for topics in self.wanted.values()}) < 2

    def pick(self, remaining: Sequence[Partition]) -> int:
        former = [each for each in remaining if each in self.former_owners]
        return remaining.index(min(former)) if former else len(remaining) - 1

    def remaining_of(self, member_id: str) -> list[Partition]:
        return [each for each in self.held[member_id] if self.exists(each)]

    def reassign(self, partition: Partition, taker: str) -> None:
        owner = self.owner_of[partition]
        chosen = self.movements.choose(partition, owner, taker)
        if self.owner_of[chosen] != owner:
            self.move(partition, self.owner_of[chosen])
        self.move(chosen, taker)
