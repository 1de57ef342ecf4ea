"""What a librdkafka consumer plans when it leads: confluent-kafka in Python, and the clients of many other languages.

Two static members are compared by their instance ids, but a static and another member by their member ids. That is no
order, so where a group has both kinds, the order of members is what qsort() happens to leave; here it is glibc's.

The cooperative sticky assignor is KIP-54's original algorithm. Claims of one generation on the same partition void each
other. Of others the newest one counts, but the partition is then moved as if the last claimant in the JoinGroup
response had it, so that it may end up with two members. What is assigned to one member and claimed by another is
withheld, whatever the generation of the claim, and what is claimed and assigned to nobody goes back to the member that
claims it.
"""

from collections.abc import Collection, Iterable, Sequence

from kcoord.assignors.libraries.byte_order import byte_order, known_counts, merge_sort
from kcoord.assignors.libraries.circle import cut_range, deal_in_circle
from kcoord.assignors.libraries.original_sticky import Claimed, Held, Movements, OriginalSticky
from kcoord.assignors.plan import AssignorFailed, Partition, Plan, Subscriber, Topics, distinct, list_partitions


def assign_range(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's range assignor, where racks make no difference."""
    members = distinct(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    for topic, count in known_counts(members, topics).items():
        cut_range(plan, topic, count, _sorted_ids(each for each in members if topic in each.topics))
    return plan


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's round-robin assignor."""
    members = distinct(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    counts = known_counts(members, topics)
    topics_of = {each.member_id: frozenset(each.topics) for each in members}
    # A subscription without topics is one that librdkafka does not read: it drops the member.
    circle = [(each, topics_of[each]) for each in _sorted_ids(each for each in members if each.topics)]
    partitions = ((topic, number) for topic in sorted(counts, key=byte_order) for number in range(counts[topic]))
    deal_in_circle(plan, partitions, circle)
    return plan


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's cooperative sticky assignor, where racks make no
    difference. Raises AssignorFailed where the consumer would stop with a failed assertion or a bad pointer."""
    members = [each for each in distinct(subscribers) if each.topics]
    plan: Plan = {each.member_id: {} for each in distinct(subscribers)}
    if not members:
        return plan
    wished = _Sticky(members, known_counts(members, topics), _resolve_claims(members)).plan()
    return plan | _adjust(members, wished)


def _sorted_ids(members: Iterable[Subscriber]) -> list[str]:
    return [each.member_id for each in merge_sort(list(members), _is_before_or_equal)]


def _is_before_or_equal(one: Subscriber, other: Subscriber) -> bool:
    if one.instance_id is not None and other.instance_id is not None:
        return byte_order(one.instance_id) <= byte_order(other.instance_id)
    return byte_order(one.member_id) <= byte_order(other.member_id)


def _resolve_claims(members: Sequence[Subscriber]) -> Claimed:
    """Returns what members own: a partition belongs to the newest of its claims, and to nobody if any two of them are
    of the same generation."""
    claims: dict[Partition, list[tuple[int, str]]] = {}
    for each in members:
        generation = -1 if each.field_generation is None else each.field_generation
        for partition in list_partitions(each.owned):
            claims.setdefault(partition, []).append((generation, each.member_id))
    claimed = Claimed(held={each.member_id: {} for each in members})
    for partition, of_partition in claims.items():
        of_partition.sort(key=lambda claim: claim[0])
        if len({generation for generation, _ in of_partition}) < len(of_partition):
            continue
        claimed.held[of_partition[-1][1]][partition] = None
        if len(of_partition) > 1:
            claimed.former_owners[partition] = of_partition[-2][1]
    return claimed


class _Movements(Movements):
    """librdkafka keeps the record of where a partition came from when it moves back, and reads that of another
    partition then."""

    def note(self, partition: Partition, giver: str, taker: str) -> Partition:
        pair = self.pair_of.get(partition)
        if pair is None:
            self.add(partition, (giver, taker))
            return partition
        came = self.by_pair.get((partition[0], pair), {})
        if partition not in came:
            raise AssignorFailed(f"{partition[0]}-{partition[1]} moves again after it has moved back")
        is_first = partition == next(iter(came))
        self.forget(partition, pair)
        if pair[1] != giver:
            raise AssignorFailed(f"{partition[0]}-{partition[1]} has moved to {pair[1]}, and {giver} owns it")
        if pair[0] != taker:
            self.add(partition, (pair[0], taker))
            return partition
        if not is_first:
            return partition
        if not came:
            raise AssignorFailed(f"the record of {partition[0]}-{partition[1]} is read after it was freed")
        return next(iter(came))


class _Sticky(OriginalSticky):
    """librdkafka's choices."""

    def __init__(self, members: Sequence[Subscriber], counts: dict[str, int], claimed: Claimed) -> None:
        super().__init__(members, counts, claimed)
        self.movements = _Movements()
        self._last_claimant = {
            partition: each.member_id for each in members for partition in list_partitions(each.owned)
        }

    def is_fresh(self) -> bool:
        return False

    def retain(self, unassigned: Held) -> None:
        """Takes the last claimant for the owner of a partition, also where another one has it by its generation."""
        super().retain(unassigned)
        self.owner_of |= {partition: self._last_claimant[partition] for partition in self.owner_of}

    def others(self) -> Iterable[Partition]:
        if not any(map(self.remaining_of, self.held)):
            return self.all_partitions()
        return (
            (topic, number) for topic in reversed(list(self.counts)) for number in reversed(range(self.counts[topic]))
        )


def _adjust(members: Sequence[Subscriber], wished: Plan) -> Plan:
    """Returns the plan without what must be given up first, and with what is assigned to nobody but claimed."""
    claimant = {partition: each.member_id for each in members for partition in list_partitions(each.owned)}
    planned = {one: each.member_id for each in members for one in list_partitions(wished[each.member_id])}
    plan: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in members}
    for topic, number in sorted(planned | claimant):
        owner = claimant.get((topic, number))
        member_id = planned.get((topic, number), owner)
        if member_id is not None and owner in (None, member_id):
            plan[member_id].setdefault(topic, []).append(number)
    return {member_id: {**held} for member_id, held in plan.items()}
