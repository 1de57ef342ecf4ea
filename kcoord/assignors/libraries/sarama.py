"""What sarama plans when it leads.

It does not know instance ids: all members are sorted by the bytes of their member ids. Round robin deals partitions out
in the order of their names as text, "t-10" before "t-2".

Both sticky assignors are KIP-54's original algorithm, but they go through members and partitions in the order of a Go
map, which is another one each time. Here it is the order of names. Moves that do not help are not undone: instead, the
members that take no part in them lose everything. Racks are never considered.
"""

from collections.abc import Collection, Sequence

from kcoord.assignors.libraries.byte_order import byte_order, known_counts
from kcoord.assignors.libraries.circle import cut_range, deal_in_circle
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
    """Returns the assignment of each member by sarama's range strategy."""
    members = _in_order(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    for topic, count in known_counts(members, topics).items():
        cut_range(plan, topic, count, [each.member_id for each in members if topic in each.topics])
    return plan


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by sarama's round-robin strategy. Raises AssignorFailed if no member is
    subscribed to anything."""
    members = _in_order(subscribers)
    if not any(each.topics for each in members):
        raise AssignorFailed("members and topics are not provided")
    plan: Plan = {each.member_id: {} for each in members}
    counts = known_counts(members, topics)
    partitions = [(topic, number) for topic, count in counts.items() for number in range(count)]
    partitions.sort(key=lambda each: byte_order(f"{each[0]}-{each[1]}"))
    deal_in_circle(plan, partitions, [(each.member_id, frozenset(each.topics)) for each in members])
    return plan


def assign_sticky(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns a plan that sarama's sticky strategy may make, and its cooperative one before partitions are withheld."""
    members = _in_order(subscribers)
    if not members:
        return {}
    counts = known_counts(members, topics)
    return _Sticky(members, dict(sorted(counts.items())), _resolve_claims(members)).plan()


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns a plan that sarama's cooperative sticky strategy may make: the sticky plan, without what another member
    must give up first."""
    planned = {member_id: set(list_partitions(held)) for member_id, held in assign_sticky(subscribers, topics).items()}
    claims = {each.member_id: set(list_partitions(each.owned)) for each in distinct(subscribers)}
    revoked = {each for member_id, claimed in claims.items() for each in claimed - planned[member_id]}
    return {
        member_id: group_by_topic(sorted(held - (revoked - claims[member_id]))) for member_id, held in planned.items()
    }


def _in_order(subscribers: Collection[Subscriber]) -> list[Subscriber]:
    return sorted(distinct(subscribers), key=lambda each: byte_order(each.member_id))


def _resolve_claims(members: Sequence[Subscriber]) -> Claimed:
    """Returns what members own: a partition belongs to the newest of its claims, and of those of one generation to the
    first one. A claim without a generation counts as the oldest, and replaces others such."""
    claims: dict[Partition, dict[int, str]] = {}
    for each in members:
        generation = each.known_generation
        for partition in list_partitions(each.owned):
            by_generation = claims.setdefault(partition, {})
            if each.generation is None or generation not in by_generation:
                by_generation[generation] = each.member_id
    return newest_claims(members, claims)


class _Sticky(OriginalSticky):
    """sarama's choices."""

    def balance(self, in_order: Sequence[Partition], unassigned: Sequence[Partition]) -> None:
        """Assigns what has no owner, and evens the group out."""
        was_empty = self._by_size[0][0] == 0
        self.assign(unassigned)
        fixed = self.take_fixed()
        imbalance = self.imbalance()
        if self.even_out(in_order) and not was_empty and self.imbalance() >= imbalance:
            fixed = {member_id: {} for member_id in fixed}
        self.held |= fixed

    def size_of(self, member_id: str) -> int:
        """Returns the size of a member: 0 if it takes no part."""
        return super().size_of(member_id) if member_id in self.held else 0

    def give(self, partition: Partition, member_id: str) -> None:
        """Gives a partition to a member. It is lost if that one takes no part, as a former owner may."""
        if member_id in self.held:
            super().give(partition, member_id)
        self.owner_of[partition] = member_id

    def take(self, partition: Partition, member_id: str) -> None:
        """Takes a partition from a member, if it has it."""
        if member_id in self.held:
            super().take(partition, member_id)
