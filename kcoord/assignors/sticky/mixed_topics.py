"""The sticky plan where members are subscribed to different topics, as AbstractStickyAssignor's general builder makes
it.

Members keep what they own and are still subscribed to. The other partitions go to the subscriber with the fewest,
topics with few subscribers first. Then partitions move from member to member as long as that makes two members more
even: first those that had no owner, then all. If the moves did not improve the balance as a whole, they are undone.

Kafka compares all pairs of members and partitions over and over. The same choices are made here from the sizes of the
subscribers of one topic at a time, in heaps, since nothing else decides them.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Final, TypeAlias

from kcoord.assignors.plan import AssignorFailed, Partition, Plan, Subscriber
from kcoord.assignors.sticky.claims import Claims
from kcoord.assignors.sticky.racks import StickyRacks
from kcoord.java_hashing import HashedSet, string_hash, string_order

_Pair: TypeAlias = tuple[str, str]  # the member that gave a partition, the one that got it
_NOTHING: Final = ("", -1)


def assign_mixed_topics(
    members: Sequence[Subscriber], claims: Claims, topics: Mapping[str, int], racks: StickyRacks
) -> Plan:
    """Returns the plan for members in the order of Kafka's HashMap. Raises AssignorFailed where Kafka's assignor throws
    an exception."""
    shares = _Shares(members, claims.owned, topics, racks)
    revokes = shares.retain_owned(members, claims)
    unassigned = shares.unassigned()
    former_owners = _former_owners(members, claims.max_generation)
    was_empty = not any(shares.sizes.values())
    shares.assign(unassigned)

    movable = shares.fix_members()
    before = shares.copy_assignment()
    balancing = _Balancing(shares, former_owners)
    if not revokes:
        balancing.run([each for each in unassigned if each[0] in movable])
    moved = balancing.run([each for each in shares.all_partitions() if each[0] in movable])
    if moved and not was_empty and shares.imbalance() >= before.imbalance:
        shares.restore(before)
    return shares.plan()


def _former_owners(members: Iterable[Subscriber], max_generation: int) -> dict[Partition, str]:
    """Returns the owners of partitions by claims of older generations: of several the newest."""
    former: dict[Partition, tuple[int, str]] = {}
    for each in members:
        generation = each.known_generation
        if generation >= max_generation:
            continue
        for topic, numbers in each.owned.items():
            for number in numbers:
                known = former.get((topic, number))
                if known is None or generation > known[0]:
                    former[topic, number] = generation, each.member_id
    return {partition: member_id for partition, (_, member_id) in former.items()}


@dataclass(frozen=True, slots=True)
class _AssignmentCopy:
    """A copy of the assignment, made before partitions were moved."""

    held: dict[str, Counter[Partition]]
    sizes: dict[str, int]
    owner_of: dict[Partition, str]
    imbalance: int


class _Shares:
    """The assignment so far: which partitions each member has, and the owner of each partition."""

    def __init__(
        self, members: Sequence[Subscriber], in_order: Iterable[str], topics: Mapping[str, int], racks: StickyRacks
    ) -> None:
        self._counts = topics
        self._racks = racks
        self._topics_of = {each.member_id: [topic for topic in each.topics if topic in topics] for each in members}
        self.subscribers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member_id, subscribed in self._topics_of.items():
            for topic in subscribed:
                self.subscribers[topic].append(member_id)
        self._rank = {member_id: rank for rank, member_id in enumerate(sorted(self._topics_of, key=string_order))}
        # A partition is counted, since one that is dealt out twice may come to the same member twice.
        self._held = {member_id: Counter[Partition]() for member_id in in_order}
        self.sizes: dict[str, int] = dict.fromkeys(self._topics_of, 0)
        self.owner_of: dict[Partition, str] = {}
        self._topic_order = sorted(topics, key=lambda topic: (len(self.subscribers[topic]), string_order(topic)))
        self.fixed: set[str] = set()
        """The members that neither give nor get a partition when the assignment is balanced."""

    def retain_owned(self, members: Iterable[Subscriber], claims: Claims) -> bool:
        """Leaves members what they own; returns whether some must give up what they are not subscribed to any more, or
        what is in another rack."""
        revokes = False
        for each in members:
            for topic, numbers in claims.owned[each.member_id].items():
                for number in numbers:
                    if topic not in each.topics or self._racks.mismatch(each.member_id, (topic, number)):
                        revokes = True
                    else:
                        self._give((topic, number), each.member_id)
        return revokes

    def all_partitions(self) -> Iterable[Partition]:
        """Yields all partitions, those of topics with few subscribers first."""
        return ((topic, number) for topic in self._topic_order for number in range(self._counts[topic]))

    def unassigned(self) -> list[Partition]:
        """Returns the partitions without an owner. As in same_topics, a partition that does not exist has Kafka
        take all that come after it for unassigned."""
        if all(0 <= number < self._counts[topic] for topic, number in self.owner_of):
            return [each for each in self.all_partitions() if each not in self.owner_of]
        assigned = [each for held in self._held.values() for each in held.elements()]
        following = iter(sorted(assigned, key=cmp_to_key(self._compare)))
        unassigned, expected = [], next(following)
        for each in self.all_partitions():
            if each == expected:
                expected = next(following, _NOTHING)
            else:
                unassigned.append(each)
        return unassigned

    def _compare(self, one: Partition, other: Partition) -> int:
        """Compares partitions as Kafka does: by the difference of their numbers at last, which overflows for those that
        are 2^31 apart."""
        if one[0] != other[0]:
            return self._topic_order.index(one[0]) - self._topic_order.index(other[0])
        return (one[1] - other[1] + 2**31) % 2**32 - 2**31

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Gives each partition to the subscriber with the fewest: of those in the rack of a replica first, where racks
        count."""
        if self._racks.of_members:
            partitions = [each for each in partitions if not self._assign_by_rack(each)]
        topic, heap = None, list[tuple[int, int, str]]()
        for partition in partitions:
            if partition[0] != topic:
                topic = partition[0]
                heap = [(self.sizes[each], self._rank[each], each) for each in dict.fromkeys(self.subscribers[topic])]
                heapq.heapify(heap)
            _, rank, member_id = heap[0]
            self._give(partition, member_id)
            heapq.heapreplace(heap, (self.sizes[member_id], rank, member_id))

    def fix_members(self) -> set[str]:
        """Notes which members balancing leaves alone. Returns the topics whose partitions it may move: those with two
        subscribers and more."""
        movable = {topic for topic, subscribers in self.subscribers.items() if len(subscribers) > 1}
        for member_id, held in self._held.items():
            if self.sizes[member_id] >= self._max_size(member_id) and all(topic not in movable for topic, _ in held):
                self.fixed.add(member_id)
        return movable

    def poorest(self, topic: str) -> str:
        """Returns the subscriber with the fewest partitions, of equal ones the first by its id."""
        candidates = (each for each in self.subscribers[topic] if each not in self.fixed)
        return min(candidates, key=lambda each: (self.sizes[each], self._rank[each]))

    def is_balanced(self) -> bool:
        """Whether no member could get a partition of its topics from a member that has at least two more."""
        sizes = [size for member_id, size in self.sizes.items() if member_id not in self.fixed]
        if min(sizes) >= max(sizes) - 1:
            return True
        # A partition that was dealt out twice counts for the member that comes last.
        owner_of = {
            partition: member_id
            for member_id, held in self._held.items()
            if member_id not in self.fixed
            for partition in held
        }
        largest: dict[str, int] = {}
        for (topic, number), owner in owner_of.items():
            if 0 <= number < self._counts[topic]:
                largest[topic] = max(largest.get(topic, 0), self.sizes[owner])
        return not any(
            self.sizes[member_id] + 1 < largest.get(topic, 0) and self._could_get_more(member_id, topic, owner_of)
            for member_id, topics in self._topics_of.items()
            if member_id not in self.fixed and self.sizes[member_id] != self._max_size(member_id)
            for topic in topics
        )

    def _could_get_more(self, member_id: str, topic: str, owner_of: Mapping[Partition, str]) -> bool:
        return any(
            (topic, number) not in self._held[member_id]
            and self.sizes[member_id] + 1 < self.sizes[owner_of[topic, number]]
            for number in range(self._counts[topic])
        )

    def move(self, partition: Partition, member_id: str) -> None:
        """Takes the partition from its owner and gives it to another member."""
        owner = self.owner_of[partition]
        held = self._held[owner]
        held[partition] -= 1
        if not held[partition]:
            del held[partition]
        self.sizes[owner] -= 1
        self._give(partition, member_id)

    def copy_assignment(self) -> _AssignmentCopy:
        """Returns a copy of the assignment, to restore it."""
        held = {member_id: Counter(partitions) for member_id, partitions in self._held.items()}
        return _AssignmentCopy(held, dict(self.sizes), dict(self.owner_of), self.imbalance())

    def restore(self, copy: _AssignmentCopy) -> None:
        """Undoes all changes since the copy was made."""
        self._held, self.sizes, self.owner_of = copy.held, copy.sizes, copy.owner_of

    def imbalance(self) -> int:
        """Returns the sum of the differences between any two members that are not fixed."""
        sizes = sorted(size for member_id, size in self.sizes.items() if member_id not in self.fixed)
        return sum(size * (2 * rank + 1 - len(sizes)) for rank, size in enumerate(sizes))

    def plan(self) -> Plan:
        """Returns the assignment as a plan."""
        plan: Plan = {}
        for member_id, held in self._held.items():
            numbers: dict[str, list[int]] = {}
            for topic, number in sorted(held.elements()):
                numbers.setdefault(topic, []).append(number)
            plan[member_id] = {**numbers}
        return plan

    def _assign_by_rack(self, partition: Partition) -> bool:
        matching = [each for each in self.subscribers[partition[0]] if not self._racks.mismatch(each, partition)]
        if matching:
            self._give(partition, min(matching, key=lambda each: (self.sizes[each], self._rank[each])))
        return bool(matching)

    def _give(self, partition: Partition, member_id: str) -> None:
        self._held[member_id][partition] += 1
        self.sizes[member_id] += 1
        self.owner_of[partition] = member_id

    def _max_size(self, member_id: str) -> int:
        topics = self._topics_of[member_id]
        if len(topics) == len(self._counts):
            return sum(self._counts.values())
        return sum(self._counts[topic] for topic in topics)


class _Balancing:
    """Moves partitions between members until no move makes two of them more even."""

    def __init__(self, shares: _Shares, former_owners: Mapping[Partition, str]) -> None:
        self._shares = shares
        self._former_owners = former_owners
        self._movements = _Movements()

    def run(self, partitions: Sequence[Partition]) -> bool:
        """Moves partitions of these as long as that helps. Returns whether any was moved."""
        has_moved = False
        while self._run_once(partitions):
            has_moved = True
        return has_moved

    def _run_once(self, partitions: Sequence[Partition]) -> bool:
        shares, has_moved = self._shares, False
        topic, poorest = "", ""
        for partition in partitions:
            if partition[0] != topic:
                topic, poorest = partition[0], shares.poorest(partition[0])
            taker = self._taker(partition, poorest)
            if taker is None:
                continue
            # Kafka stops at a partition where all is balanced. Nothing could move then anyway, unless a former owner
            # has got what it is not subscribed to any more: it counts as having all that it can get.
            if self._former_owners and shares.is_balanced():
                break
            self._move(partition, taker)
            has_moved, poorest = True, shares.poorest(topic)
        return has_moved

    def _taker(self, partition: Partition, poorest: str) -> str | None:
        """Returns the member that should have the partition instead of its owner: its former owner, or the subscriber
        with the fewest."""
        shares = self._shares
        size = shares.sizes[shares.owner_of[partition]]
        former = self._former_owners.get(partition)
        if former in shares.fixed and not shares.is_balanced():
            raise AssignorFailed(f"the former owner {former} of {partition[0]}-{partition[1]} takes no part any more")
        if former is not None and former not in shares.fixed and size > shares.sizes[former] + 1:
            return former
        return poorest if size > shares.sizes[poorest] + 1 else None

    def _move(self, partition: Partition, member_id: str) -> None:
        partition = self._movements.choose(partition, self._shares.owner_of[partition], member_id)
        self._movements.note(partition, self._shares.owner_of[partition], member_id)
        self._shares.move(partition, member_id)


@dataclass(slots=True)
class _Movements:
    """Which partitions have moved between which members, so that none is moved where another one of its topic came
    from: then that one goes back instead."""

    _by_pair: dict[tuple[str, _Pair], HashedSet] = field(default_factory=dict)
    _pair_of: dict[Partition, _Pair] = field(default_factory=dict)

    def choose(self, partition: Partition, giver: str, taker: str) -> Partition:
        """Returns the partition to move instead of this one, of the same topic."""
        topic, _ = partition
        if partition in self._pair_of:
            giver = self._pair_of[partition][0]
        came = self._by_pair.get((topic, (taker, giver)))
        return (topic, came.first()) if came else partition

    def note(self, partition: Partition, giver: str, taker: str) -> None:
        """Notes that a partition moves."""
        topic, number = partition
        if earlier := self._pair_of.pop(partition, None):
            came = self._by_pair[topic, earlier]
            came.remove(number)
            if not came:
                del self._by_pair[topic, earlier]
            giver = earlier[0]
            if giver == taker:
                return
        self._pair_of[partition] = giver, taker
        came = self._by_pair.setdefault((topic, (giver, taker)), HashedSet())
        came.add(number, partition_hash(partition))


def partition_hash(partition: Partition) -> int:
    """Returns TopicPartition.hashCode()."""
    topic, number = partition
    return (31 * (31 + number) + string_hash(topic)) & 0xFFFFFFFF
