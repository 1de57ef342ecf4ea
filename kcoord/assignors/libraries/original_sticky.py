"""KIP-54's sticky algorithm as Kafka had it first, which librdkafka, kafka-python and sarama have each rewritten.

Members keep what they own and are still subscribed to. Each other partition goes to the subscriber with the fewest, in
a fixed order of partitions. Then partitions move, one after the other, from an owner that has at least two more than
another subscriber to the subscriber with the fewest. If that did not make the group more even, the moves are undone.

Java has changed this since: it has an algorithm of its own for members with the same topics, and other conditions for a
balanced group. Each library resolves claims, orders partitions and chooses among equal ones in its own way; it does so
in a subclass.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kcoord.assignors.libraries.byte_order import byte_order
from kcoord.assignors.plan import AssignorFailed, Partition, Plan, Subscriber, group_by_topic

Held: TypeAlias = dict[Partition, None]  # a set that remembers the order of insertion
Counted: TypeAlias = dict[Partition, int]  # librdkafka may give a member the same partition twice
_Pair: TypeAlias = tuple[str, str]  # the member that gave a partition, the one that got it


@dataclass(slots=True, kw_only=True)
class Claimed:
    """What members own by their own account: what each has, and for partitions with several claims the former owner,
    which is the one of the second newest generation."""

    held: dict[str, Held]
    former_owners: dict[Partition, str] = field(default_factory=dict)


def newest_claims(members: Iterable[Subscriber], claims: Mapping[Partition, Mapping[int, str]]) -> Claimed:
    """Returns what members own if each partition belongs to the newest of its claims, which are member ids by
    generation."""
    claimed = Claimed(held={each.member_id: {} for each in members})
    for partition, by_generation in claims.items():
        newest, *older = sorted(by_generation, reverse=True)
        claimed.held[by_generation[newest]][partition] = None
        if older:
            claimed.former_owners[partition] = by_generation[older[0]]
    return claimed


class Movements:
    """Which partitions have moved between which members. A partition that would move where another one of its topic
    came from stays, and that one goes back."""

    def __init__(self) -> None:
        self.pair_of: dict[Partition, _Pair] = {}
        self.by_pair: dict[tuple[str, _Pair], Held] = {}

    def choose(self, partition: Partition, giver: str, taker: str) -> Partition:
        """Returns the partition to move instead of this one."""
        if pair := self.pair_of.get(partition):
            if pair[1] != giver:
                raise AssignorFailed(f"{partition[0]}-{partition[1]} has moved to {pair[1]}, and {giver} owns it")
            giver = pair[0]
        came = self.by_pair.get((partition[0], (taker, giver)))
        return next(iter(came)) if came else partition

    def note(self, partition: Partition, giver: str, taker: str) -> Partition:
        """Notes that a partition moves; returns the one that the library moves then."""
        if pair := self.pair_of.pop(partition, None):
            self.forget(partition, pair)
            if pair[1] != giver:
                raise AssignorFailed(f"{partition[0]}-{partition[1]} has moved to {pair[1]}, and {giver} owns it")
            giver = pair[0]
        if giver != taker:
            self.add(partition, (giver, taker))
        return partition

    def add(self, partition: Partition, pair: _Pair) -> None:
        """Adds the record of a partition that has moved."""
        self.pair_of[partition] = pair
        self.by_pair.setdefault((partition[0], pair), {})[partition] = None

    def forget(self, partition: Partition, pair: _Pair) -> None:
        """Removes a partition from those that have moved between two members."""
        came = self.by_pair[partition[0], pair]
        del came[partition]
        if not came:
            del self.by_pair[partition[0], pair]


class OriginalSticky:
    """The assignment of a group so far. `members` are in the order in which the library goes through them, `counts` has
    the subscribed topics that exist."""

    def __init__(self, members: Sequence[Subscriber], counts: Mapping[str, int], claimed: Claimed) -> None:
        self.counts = counts
        self.former_owners = claimed.former_owners
        self.wanted = {each.member_id: [t for t in dict.fromkeys(each.topics) if t in counts] for each in members}
        self.subscribers: dict[str, list[str]] = {topic: [] for topic in counts}
        for member_id, topics in self.wanted.items():
            for topic in topics:
                self.subscribers[topic].append(member_id)
        self.held: dict[str, Counted] = {
            each.member_id: dict.fromkeys(claimed.held.get(each.member_id, ()), 1) for each in members
        }
        self.owner_of: dict[Partition, str] = {}
        self.movements = Movements()
        self.revokes = False
        self._topics_of = {member_id: frozenset(topics) for member_id, topics in self.wanted.items()}
        self._sizes: dict[str, int] = {}
        self._by_size: list[tuple[int, bytes, str]] = []

    def plan(self) -> Plan:
        """Plans, and returns the assignment of each member."""
        in_order = self.order_partitions()
        unassigned = dict.fromkeys(in_order)
        self.retain(unassigned)
        self._sizes = {member_id: len(held) for member_id, held in self.held.items()}
        self._by_size = sorted((size, byte_order(each), each) for each, size in self._sizes.items())
        if self._by_size:
            self.balance(in_order, list(unassigned))
        return {member_id: group_by_topic(sorted(held)) for member_id, held in self.held.items()}

    def has_same_topics(self) -> bool:
        """Whether the library finds all members subscribed to the same topics."""
        return len(set(self._topics_of.values())) < 2

    def is_fresh(self) -> bool:
        """Whether the library takes the group for one that has no assignment yet."""
        return not any(self.held.values())

    def may_retain(self, member_id: str, partition: Partition) -> bool:
        """Whether a member may retain a partition that exists."""
        return partition[0] in self._topics_of[member_id]

    def pick(self, remaining: Sequence[Partition]) -> int:
        """Returns the index of the partition, of those of one member, that is the next one to consider: one that had
        another owner before, or else the first one."""
        return next((index for index, each in enumerate(remaining) if each in self.former_owners), 0)

    def remaining_of(self, member_id: str) -> list[Partition]:
        """Returns the partitions of a member from which `pick` chooses."""
        return sorted(each for each in self.held[member_id] if self.exists(each))

    def others(self) -> Iterable[Partition]:
        """Yields all partitions in the order in which those without an owner are considered."""
        return self.all_partitions()

    def reassign(self, partition: Partition, taker: str) -> None:
        """Moves a partition, or another one of its topic instead."""
        self.move(self.movements.choose(partition, self.owner_of[partition], taker), taker)

    def balance(self, in_order: Sequence[Partition], unassigned: Sequence[Partition]) -> None:
        """Assigns what has no owner, and evens the group out."""
        was_empty = self._by_size[-1][0] == 0
        self.assign(unassigned)
        fixed = self.take_fixed()
        before = self.snapshot()
        if not self.revokes:
            self.even_out(unassigned)
        if self.even_out(in_order) and not was_empty and self.imbalance() >= before[1]:
            self.held = before[0]
        self.held |= fixed

    def exists(self, partition: Partition) -> bool:
        """Whether a partition exists."""
        return 0 <= partition[1] < self.counts.get(partition[0], 0)

    def all_partitions(self) -> Iterable[Partition]:
        """Yields all partitions, those of topics with few subscribers first."""
        topics = sorted(self.counts, key=lambda each: (len(self.subscribers[each]), byte_order(each)))
        return ((topic, number) for topic in topics for number in range(self.counts[topic]))

    def order_partitions(self) -> list[Partition]:
        """Returns all partitions in the order in which they are considered. In a group whose members have the same
        topics, those that have owners come first, each time from the member with the most that are left."""
        if self.is_fresh() or not self.has_same_topics():
            return list(self.all_partitions())
        in_order: Held = {}
        remaining = {member_id: self.remaining_of(member_id) for member_id in self.held}
        heap = [(-len(each), _descending(member_id), member_id) for member_id, each in remaining.items() if each]
        heapq.heapify(heap)
        while heap:
            _, rank, member_id = heap[0]
            left = remaining[member_id]
            in_order[left.pop(self.pick(left))] = None
            if left:
                heapq.heapreplace(heap, (-len(left), rank, member_id))
            else:
                heapq.heappop(heap)
        return list(in_order | dict.fromkeys(self.others()))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Gives each partition to the subscriber with the fewest."""
        for partition in partitions:
            if taker := self.poorest(partition[0]):
                self.give(partition, taker)

    def poorest(self, topic: str, may_take: Callable[[str], bool] = lambda _: True) -> str | None:
        """Returns the subscriber with the fewest partitions, of equal ones the first by its id."""
        return next((each for _, _, each in self._by_size if topic in self._topics_of[each] and may_take(each)), None)

    def take_fixed(self) -> dict[str, Counted]:
        """Takes out the members that neither give nor get a partition when the group is evened out."""
        fixed = {}
        for _, _, member_id in list(self._by_size):
            held = self.held[member_id]
            is_full = self._sizes[member_id] >= sum(self.counts[topic] for topic in self.wanted[member_id])
            if is_full and all(len(self.subscribers[topic]) < 2 for topic, _ in held):
                fixed[member_id] = self.held.pop(member_id)
                del self._sizes[member_id]
        self._by_size = [each for each in self._by_size if each[2] not in fixed]
        return fixed

    def snapshot(self) -> tuple[dict[str, Counted], int]:
        """Returns a copy of the assignment, and how uneven it is."""
        return {member_id: dict(held) for member_id, held in self.held.items()}, self.imbalance()

    def imbalance(self) -> int:
        """Returns the sum of the differences between any two members that are not fixed."""
        sizes = sorted(self._sizes.values())
        return sum(size * (2 * rank + 1 - len(sizes)) for rank, size in enumerate(sizes))

    def even_out(self, partitions: Sequence[Partition]) -> bool:
        """Moves partitions of these as long as that helps. Returns whether any was moved."""
        movable = [each for each in partitions if len(self.subscribers[each[0]]) > 1]
        has_moved = False
        while self._even_out_once(movable):
            has_moved = True
        return has_moved

    def move(self, partition: Partition, taker: str) -> None:
        """Takes a partition from its owner and gives it to another member."""
        giver = self.owner_of[partition]
        partition = self.movements.note(partition, giver, taker)
        self.take(partition, giver)
        self.give(partition, taker)

    def give(self, partition: Partition, member_id: str) -> None:
        """Gives a partition to a member."""
        held = self.held[member_id]
        held[partition] = held.get(partition, 0) + 1
        self.owner_of[partition] = member_id
        self._resize(member_id, 1)

    def take(self, partition: Partition, member_id: str) -> None:
        """Takes a partition from a member, if it has it."""
        held = self.held[member_id]
        if partition in held:
            held[partition] -= 1
            if not held[partition]:
                del held[partition]
            self._resize(member_id, -1)

    def size_of(self, member_id: str) -> int:
        """Returns how many partitions a member has that takes part."""
        if member_id not in self._sizes:
            raise AssignorFailed(f"{member_id} takes no part any more")
        return self._sizes[member_id]

    def retain(self, unassigned: Held) -> None:
        """Leaves members what they own, may retain and what exists, and takes that from the unassigned partitions."""
        for member_id, held in self.held.items():
            existing = [each for each in held if self.exists(each)]
            retained = [each for each in existing if self.may_retain(member_id, each)]
            self.revokes = self.revokes or len(retained) < len(existing)
            self.held[member_id] = dict.fromkeys(retained, 1)
            self.owner_of |= dict.fromkeys(retained, member_id)
            for each in retained:
                unassigned.pop(each, None)

    def _even_out_once(self, partitions: Sequence[Partition]) -> bool:
        has_moved = False
        for partition in partitions:
            taker = self._taker(partition)
            if taker is None:
                continue
            # The libraries stop where all is balanced before they look for a taker. Nothing changes in between.
            if self._is_balanced():
                break
            self.reassign(partition, taker)
            has_moved = True
        return has_moved

    def _taker(self, partition: Partition) -> str | None:
        """Returns the member that should have the partition instead of its owner: its former owner, or the subscriber
        with the fewest."""
        size = self.size_of(self.owner_of[partition])
        former = self.former_owners.get(partition)
        if former is not None and size > self.size_of(former) + 1:
            return former
        poorest = self.poorest(partition[0])
        return poorest if poorest is not None and size > self._sizes[poorest] + 1 else None

    def _resize(self, member_id: str, change: int) -> None:
        size, key = self._sizes[member_id], byte_order(member_id)
        del self._by_size[bisect_left(self._by_size, (size, key, member_id))]
        self._sizes[member_id] = size + change
        insort(self._by_size, (size + change, key, member_id))

    def _is_balanced(self) -> bool:
        """Whether no member lacks a partition of its topics that a member with more has."""
        if self._by_size[0][0] >= self._by_size[-1][0] - 1:
            return True
        largest: dict[str, int] = {}
        for member_id, held in self.held.items():
            for topic, _ in held:
                largest[topic] = max(largest.get(topic, 0), self._sizes[member_id])
        return not any(
            size < largest.get(topic, 0)
            for size, _, member_id in self._by_size
            if size != sum(self.counts[topic] for topic in self.wanted[member_id])
            for topic in self.wanted[member_id]
        )


def _descending(member_id: str) -> bytes:
    """Returns a key that sorts ids in the opposite order."""
    return bytes(255 - byte for byte in byte_order(member_id)) + b"\xff"
