"""What a librdkafka consumer plans when it leads: confluent-kafka in Python, and the clients of many other languages.

Two static members are compared by their instance ids, but a static and another member by their member ids. That is no
order, so where a group has both kinds, the order of members is what qsort() happens to leave; here it is glibc's.

The cooperative sticky assignor is KIP-54's original algorithm. Claims of one generation on the same partition void each
other. Of others the newest one counts, but the partition is then moved as if the last claimant in the JoinGroup
response had it, so that it may end up with two members. What is assigned to one member and claimed by another is
withheld, whatever the generation of the claim, and what is claimed and assigned to nobody goes back to the member that
claims it. With racks (KIP-881), a member gives up what has no replica in its rack, and what nobody has goes to members
in a replica's rack first; but where the group is evened out then, racks have no part in it.
"""

from collections.abc import Collection, Iterable, Sequence

from kcoord.assignors.libraries.byte_order import byte_order, known_counts, merge_sort
from kcoord.assignors.libraries.circle import cut_range, deal_in_circle
from kcoord.assignors.libraries.librdkafka_racks import MemberRacks, assign_range_by_racks
from kcoord.assignors.libraries.original_sticky import Claimed, Held, Movements, OriginalSticky
from kcoord.assignors.plan import AssignorFailed, Partition, Plan, Subscriber, Topics, distinct, list_partitions
from kcoord.assignors.racks import rack_of


def assign_range(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's range assignor."""
    members = distinct(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    counts = known_counts(members, topics)
    by_topic = {topic: _in_order(each for each in members if topic in each.topics) for topic in counts}
    if topics.racks and any(map(rack_of, members)):
        assign_range_by_racks(plan, by_topic, topics)
        return plan
    for topic, count in counts.items():
        cut_range(plan, topic, count, [each.member_id for each in by_topic[topic]])
    return plan


def assign_round_robin(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's round-robin assignor."""
    members = distinct(subscribers)
    plan: Plan = {each.member_id: {} for each in members}
    counts = known_counts(members, topics)
    topics_of = {each.member_id: frozenset(each.topics) for each in members}
    # A subscription without topics is one that librdkafka does not read: it drops the member.
    circle = [
        (each.member_id, topics_of[each.member_id]) for each in _in_order(each for each in members if each.topics)
    ]
    partitions = ((topic, number) for topic in sorted(counts, key=byte_order) for number in range(counts[topic]))
    deal_in_circle(plan, partitions, circle)
    return plan


def assign_cooperative(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns the assignment of each member by librdkafka's cooperative sticky assignor. Raises AssignorFailed
    where the consumer would stop with a failed assertion or a bad pointer."""
    members = [each for each in distinct(subscribers) if each.topics]
    plan: Plan = {each.member_id: {} for each in distinct(subscribers)}
    if not members:
        return plan
    counts = known_counts(members, topics)
    racks = MemberRacks.where_they_matter(members, counts, topics.racks)
    wished = _Sticky(members, counts, _resolve_claims(members), racks).plan()
    return plan | _adjust(members, wished)


def _in_order(members: Iterable[Subscriber]) -> list[Subscriber]:
    return merge_sort(list(members), _is_before_or_equal)


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
    partition then. It finds the partitions that have moved between two members by the first one's record, also after
    that partition has moved on and the record was freed."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[tuple[str, tuple[str, str]], Partition] = {}

    def choose(self, partition: Partition, giver: str, taker: str) -> Partition:
        """Returns the partition to move instead of this one: one that the giver has got from the taker, whoever had
        this one at first."""
        pair = self.pair_of.get(partition)
        if pair and pair[1] != giver:
            raise AssignorFailed(f"{partition[0]}-{partition[1]} has moved to {pair[1]}, and {giver} owns it")
        came = self._find(partition[0], (taker, giver))
        return next(iter(came)) if came else partition

    def note(self, partition: Partition, giver: str, taker: str) -> Partition:
        pair = self.pair_of.get(partition)
        if pair is None:
            self.add(partition, (giver, taker))
            return partition
        came = self._find(partition[0], pair)
        if not came:
            raise AssignorFailed(f"{partition[0]}-{partition[1]} moves again after it has moved back")
        is_first = partition == next(iter(came))
        if partition in came:
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

    def add(self, partition: Partition, pair: tuple[str, str]) -> None:
        if not self._find(partition[0], pair):
            self._keys[partition[0], pair] = partition
        super().add(partition, pair)

    def _find(self, topic: str, pair: tuple[str, str]) -> Held:
        came = self.by_pair.get((topic, pair), {})
        if came and self.pair_of[key := self._keys[topic, pair]] != pair:
            raise AssignorFailed(f"the record of {topic}-{key[1]} is read after it was freed")
        return came


class _Sticky(OriginalSticky):
    """librdkafka's choices."""

    def __init__(
        self, members: Sequence[Subscriber], counts: dict[str, int], claimed: Claimed, racks: MemberRacks | None
    ) -> None:
        """`racks` is None where racks make no difference."""
        super().__init__(members, counts, claimed)
        self.movements = _Movements()
        self._racks = racks
        self._last_claimant = {
            partition: each.member_id for each in members for partition in list_partitions(each.owned)
        }

    def is_fresh(self) -> bool:
        return False

    def may_retain(self, member_id: str, partition: Partition) -> bool:
        """Whether a member may retain a partition: one of another rack only where racks make no difference."""
        return super().may_retain(member_id, partition) and self._is_in_rack(member_id, partition)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Gives each partition to the subscriber with the fewest: first those for which there are subscribers in the
        rack of a replica, or without a rack, and then all others."""
        if self._racks is None:
            super().assign(partitions)
            return
        left = []
        for partition in partitions:
            if taker := self._poorest_in_rack(partition):
                self.give(partition, taker)
            else:
                left.append(partition)
        super().assign(left)

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

    def _poorest_in_rack(self, partition: Partition) -> str | None:
        return self.poorest(partition[0], lambda member_id: self._is_in_rack(member_id, partition))

    def _is_in_rack(self, member_id: str, partition: Partition) -> bool:
        return self._racks is None or self._racks.match(member_id, partition)


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
