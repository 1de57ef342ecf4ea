"""The uniform plan where members are subscribed to different topics, as UniformHeterogeneousAssignmentBuilder makes it.

Members keep what they have and are still subscribed to. What has no owner goes to the subscribers with the fewest
partitions, topic by topic. Then, topic by topic, partitions move from the subscribers with the most to those with the
fewest, until nothing moves any more.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kcoord.assignors.plan import AssignorFailed, Plan
from kcoord.assignors.server_side.served_group import ServedGroup
from kcoord.java_hashing import uuid_order

_MAX_ITERATION_COUNT: Final = 16
_NOBODY: Final = -1


def assign_uniform_mixed_topics(group: ServedGroup) -> Plan:
    """Returns the target assignment of each member of a group whose members are subscribed to different topics."""
    shares = _Shares(group)
    shares.retain_owned()
    shares.assign_unowned()
    shares.balance()
    return shares.plan()


class _Shares:
    """The assignment so far: the owner of each partition, and the number of partitions of each member, by its index."""

    def __init__(self, group: ServedGroup) -> None:
        self._group = group
        self._sizes = [0] * len(group.members)
        self._owners = {topic: [_NOBODY] * count for topic, count in group.counts.items()}
        self._subscribers: dict[str, list[int]] = {topic: [] for topic in group.counts}
        for index, each in enumerate(group.members):
            for topic in group.topics_of(each):
                self._subscribers[topic].append(index)

    def retain_owned(self) -> None:
        """Leaves members what they have and are subscribed to."""
        for index, each in enumerate(self._group.members):
            for topic, numbers in each.owned.items():
                if topic in each.topics and topic in self._owners:
                    self._sizes[index] += len(numbers)
                    for number in numbers:
                        if number >= len(self._owners[topic]):
                            raise AssignorFailed(f"Index {number} out of bounds for length {len(self._owners[topic])}")
                        self._owners[topic][number] = index

    def assign_unowned(self) -> None:
        """Gives each partition without an owner to the subscriber with the fewest."""
        unowned = {topic: [n for n, owner in enumerate(owners) if owner < 0] for topic, owners in self._owners.items()}
        for topic in self._in_order(topic for topic, numbers in unowned.items() if numbers):
            ranges = _LoadRanges(self._subscribers[topic], self._sizes)
            for number in unowned[topic]:
                self._give(topic, number, ranges.next_least_loaded())

    def balance(self) -> None:
        """Moves partitions between the subscribers of each topic with several, until a whole turn moves none."""
        topics = self._in_order(topic for topic, subscribers in self._subscribers.items() if len(subscribers) > 1)
        last_moved: int | None = None
        for _ in range(_MAX_ITERATION_COUNT):
            for index, topic in enumerate(topics):
                if index == last_moved:
                    return
                if self._balance_topic(topic) or last_moved is None:
                    last_moved = index

    def plan(self) -> Plan:
        """Returns the assignment as a plan."""
        plan: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in self._group.members}
        for topic, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner >= 0:
                    plan[self._group.members[owner].member_id].setdefault(topic, []).append(number)
        return {member_id: {**held} for member_id, held in plan.items()}

    def _in_order(self, topics: Iterable[str]) -> list[str]:
        """Returns topics in the order in which they are assigned: those with the most partitions for each subscriber
        first, then those with few subscribers, then by id."""

        def order(topic: str) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic])
            return -self._group.counts[topic] / subscribers, subscribers, *uuid_order(self._group.topic_ids[topic])

        return sorted(topics, key=order)

    def _balance_topic(self, topic: str) -> int:
        """Moves partitions of one topic; returns how many."""
        subscribers, owners = self._subscribers[topic], self._owners[topic]
        sizes = [self._sizes[index] for index in subscribers]
        if max(sizes) - min(sizes) <= 1:
            return 0
        ranges = _LoadRanges(subscribers, self._sizes)
        left: dict[int, list[int]] = {}
        for number, owner in enumerate(owners):
            left.setdefault(owner, []).append(number)
        moved = 0
        while not ranges.is_balanced():
            giver = ranges.next_most_loaded()
            while giver is not None and not left.get(giver):
                ranges.exclude_most_loaded()
                giver = ranges.next_most_loaded()
            if giver is None:
                break
            number = left[giver].pop()
            taker = ranges.next_least_loaded()
            if ranges.is_balanced():
                break
            self._give(topic, number, taker)
            moved += 1
        return moved

    def _give(self, topic: str, number: int, member: int) -> None:
        owners = self._owners[topic]
        if owners[number] >= 0:
            self._sizes[owners[number]] -= 1
        owners[number] = member
        self._sizes[member] += 1


class _LoadRanges:
    """The subscribers of a topic by their number of partitions, with a range of those that have the fewest and one of
    those that have the most. Partitions are given to the first range and taken from the second one; each grows toward
    the other when all of its members have had their turn."""

    def __init__(self, subscribers: Sequence[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(subscribers, key=lambda index: (sizes[index], index))
        self._least_end = 0
        self._least_size = sizes[self._sorted[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._sorted)
        self._most_size = sizes[self._sorted[-1]] + 1
        self._next_most = len(self._sorted) - 1

    def next_least_loaded(self) -> int:
        """Returns the next member to give a partition to."""
        if self._next_least >= self._least_end:
            self._least_size += 1
            while self._least_end < len(self._sorted) and self._size_at(self._least_end) == self._least_size:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._sorted[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        """Returns the next member to take a partition from; None if none is left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_size = self._size_at(self._most_start - 1)
            else:
                self._most_size -= 1
            while self._most_start > 0 and self._size_at(self._most_start - 1) == self._most_size:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._sorted[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Takes the member that `next_most_loaded` returned last out of its range: it has no partition to give."""
        excluded, last = self._next_most + 1, self._most_end - 1
        self._sorted[excluded], self._sorted[last] = self._sorted[last], self._sorted[excluded]
        self._most_end -= 1

    def is_balanced(self) -> bool:
        """Whether the two ranges differ by one partition at most."""
        return self._most_size - self._least_size <= 1

    def _size_at(self, position: int) -> int:
        return self._sizes[self._sorted[position]]
