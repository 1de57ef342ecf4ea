"""The sticky plan where all members are subscribed to the same topics, as AbstractStickyAssignor's constrained builder
makes it.

Each member gets `least` or `most` partitions, which differ by one at most. Members keep what they own up to that, in
the order of partition numbers. What is left over goes round the members that have less than `least`, and then to
members with exactly `least`, until as many as necessary have `most`.

Theory of operation. Plans have up to a million partitions, so nothing here touches a single partition if it can be
avoided. Partitions are ranges and slices of lists: a member that takes part in rounds of k members gets every k-th of
the partitions left over.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Set
from itertools import islice

from kcoord.assignors.dealing import Circle, Numbers
from kcoord.assignors.left_over import LeftOver
from kcoord.assignors.plan import AssignorFailed, Partition, Plan, count_partitions, list_partitions
from kcoord.assignors.sticky.claims import Claims, Owned
from kcoord.assignors.sticky.racks import StickyRacks
from kcoord.java_hashing import string_order


def assign_same_topics(
    claims: Claims, topics: Mapping[str, int], racks: StickyRacks
) -> tuple[Plan, dict[Partition, str]]:
    """Returns the plan, and the partitions in it that another member has owned until now, by their new owner."""
    shares = _Shares(claims, topics, racks)
    shares.retain_owned()
    shares.below_least.sort(key=string_order)
    shares.at_least = deque(sorted(shares.at_least, key=string_order))
    left_over = _left_over(topics, shares.retained())
    if racks.members_in_rack:
        partitions = sorted(left_over, key=lambda each: racks.members_in_rack.get(each, 0))
        left_over = LeftOver.listing(shares.deal_by_racks(partitions))
    shares.deal(left_over)
    shares.check()
    return shares.plan, shares.transferred()


def _left_over(topics: Mapping[str, int], retained: Mapping[str, Collection[int]]) -> LeftOver:
    """Returns the partitions of the topics that no member has retained.

    Kafka goes through both in order, and stops at a partition that does not exist: from there on it takes all
    partitions for unassigned, so that they get a second owner.
    """
    left_over: list[tuple[str, Numbers]] = []
    is_stuck = False
    for topic in sorted(topics, key=string_order):
        numbers: Numbers = range(topics[topic])
        taken = retained.get(topic, ())
        if taken and not is_stuck:
            if min(taken) < 0 or max(taken) >= len(numbers):
                is_stuck = True
                first = min(each for each in taken if not 0 <= each < len(numbers))
                taken = {each for each in taken if each < first}
            if len(taken) == len(numbers):
                continue
            numbers = sorted(set(numbers).difference(taken))
        left_over.append((topic, numbers))
    return LeftOver.in_runs(left_over)


class _Shares:
    """The assignment so far, and which members may still get partitions."""

    def __init__(self, claims: Claims, topics: Mapping[str, int], racks: StickyRacks) -> None:
        self._claims = claims
        self._racks = racks
        self._topic_ranks = {topic: rank for rank, topic in enumerate(sorted(topics, key=string_order))}
        self.plan: Plan = {member_id: {} for member_id in claims.owned}
        self._sizes = dict.fromkeys(claims.owned, 0)
        self.below_least: list[str] = []
        self.at_least: deque[str] = deque()
        self._least, self._with_one_more = divmod(sum(topics.values()), len(claims.owned))
        self._most = self._least + (self._with_one_more > 0)
        self._above_least = 0  # the members that have `most`, if that is more than `least`
        self._revoked: dict[Partition, str] = {}
        self._lost: dict[str, set[int]] = {}  # by topic: what members own and may not retain
        self._gainers: set[str] = set()

    def retain_owned(self) -> None:
        """Leaves members what they own, up to their share."""
        for member_id, owned in self._claims.owned.items():
            owned = self._without_lost(member_id, owned)
            size = count_partitions(owned)
            if size < self._least:
                self._retain(member_id, owned, size)
                self.below_least.append(member_id)
            elif size >= self._most and self._above_least < self._with_one_more:
                self._retain(member_id, self._cut(member_id, owned, size - self._most), self._most)
                self._count_above_least()
            else:
                self._retain(member_id, self._cut(member_id, owned, size - self._least), self._least)
                if self._above_least < self._with_one_more:
                    self.at_least.append(member_id)

    def retained(self) -> dict[str, set[int]]:
        """Returns the partitions that members have retained, by topic."""
        return {
            topic: numbers - self._lost[topic] if topic in self._lost else numbers
            for topic, numbers in self._claims.partitions.items()
        }

    def deal(self, left_over: LeftOver) -> None:
        """Deals out all partitions that are left over: in rounds to the members below `least`, then one to each of
        those at `least`."""
        deficits = {member_id: self._least - self._sizes[member_id] for member_id in self.below_least}
        position = rounds = 0
        while deficits and position < len(left_over):
            next_round = min(deficits.values())
            end = min(position + len(deficits) * (next_round - rounds), len(left_over))
            self._deal_rounds(list(deficits), left_over.between(position, end), end - position)
            position, rounds = end, next_round
            self.at_least.extend(each for each in deficits if self._sizes[each] == self._least)
            deficits = {each: lack for each, lack in deficits.items() if self._sizes[each] < self._least}
        self.below_least = list(deficits)
        if position < len(left_over):
            self._deal_extras(left_over.between(position, len(left_over)), len(left_over) - position)

    def deal_by_racks(self, partitions: list[Partition]) -> list[Partition]:
        """Deals out partitions to members in the racks of their replicas, as far as their shares allow. Returns those
        that are left over."""
        if not self._racks.of_members:
            return partitions
        left_over: list[Partition] = []
        turn = 0
        for partition in partitions:
            index = self._racks.next_match(partition, self.below_least, turn)
            if index is not None:
                member_id = self.below_least[index]
                turn = self._after_gain_below_least(index)
            elif (found := self._racks.next_match(partition, self.at_least, 0)) is not None:
                member_id = self.at_least[found]
                if self._sizes[member_id] + 1 == self._most:
                    del self.at_least[found]
                    self._count_above_least()
            else:
                left_over.append(partition)
                continue
            self._gain(member_id, partition)
        return left_over

    def check(self) -> None:
        """Raises AssignorFailed if a member has less than its share, as Kafka does."""
        if not self.below_least:
            return
        if self._above_least != self._with_one_more:
            raise AssignorFailed(
                "We haven't reached the expected number of members with more than the minQuota partitions, but no more"
                " partitions to be assigned"
            )
        if short := [each for each in self.below_least if self._sizes[each] != self._least]:
            raise AssignorFailed(
                f"Consumer: [{short[0]}] doesn't reach minQuota partitions, and no more partitions to be assigned"
            )

    def transferred(self) -> dict[Partition, str]:
        """Returns the partitions that members have gained and others must give up first, by their new owner."""
        if not self._revoked and not self._claims.contested:
            return {}
        owners = self._revoked | dict.fromkeys(self._claims.contested, "")
        suspects: dict[str, set[int]] = {}
        for topic, number in owners:
            suspects.setdefault(topic, set()).add(number)
        return {
            (topic, number): member_id
            for member_id in self._gainers
            for topic in suspects.keys() & self.plan[member_id].keys()
            for number in suspects[topic].intersection(self.plan[member_id][topic])
            if owners[topic, number] != member_id
        }

    def _without_lost(self, member_id: str, owned: Owned) -> Owned:
        """Returns what the member owns without what is contested, and without what is in another rack."""
        lost = {each for each in self._claims.contested if each[1] in owned.get(each[0], ())}
        if member_id in self._racks.of_members:
            elsewhere = {each for each in list_partitions(owned) if self._racks.mismatch(member_id, each)}
            self._revoked |= dict.fromkeys(elsewhere, member_id)
            lost |= elsewhere
        return self._without(owned, lost)

    def _cut(self, member_id: str, owned: Owned, excess: int) -> Owned:
        """Returns what the member owns without `excess` partitions: those with the highest numbers, and of equal ones
        those of the last topics."""
        if not excess:
            return owned
        ranks = self._topic_ranks
        highest = [
            (number, ranks[topic], topic) for topic, numbers in owned.items() for number in _highest(numbers, excess)
        ]
        cut = {(topic, number) for number, _, topic in sorted(highest)[-excess:]}
        self._revoked |= dict.fromkeys(cut, member_id)
        return self._without(owned, cut)

    def _without(self, owned: Owned, lost: Set[Partition]) -> Owned:
        """Returns what a member owns without these partitions, which it loses."""
        if not lost:
            return owned
        by_topic: dict[str, set[int]] = {}
        for topic, number in lost:
            by_topic.setdefault(topic, set()).add(number)
        left = dict(owned)
        for topic, numbers in by_topic.items():
            self._lost.setdefault(topic, set()).update(numbers)
            left[topic] = [number for number in owned[topic] if number not in numbers]
        return left

    def _retain(self, member_id: str, owned: Owned, size: int) -> None:
        has_all = all(owned.values())
        self.plan[member_id] = dict(owned) if has_all else {topic: each for topic, each in owned.items() if each}
        self._sizes[member_id] = size

    def _deal_rounds(self, members: list[str], partitions: Iterable[tuple[str, Numbers]], count: int) -> None:
        """Deals out so many partitions to members in turn."""
        Circle([self.plan[member_id] for member_id in members]).deal_all(partitions)
        each, more = divmod(count, len(members))
        for rank, member_id in enumerate(members):
            self._sizes[member_id] += each + (rank < more)
        self._gainers.update(members)

    def _deal_extras(self, partitions: Iterable[tuple[str, Numbers]], count: int) -> None:
        """Deals out one partition to each of the members at `least`."""
        if count > len(self.at_least):
            raise AssignorFailed("No more unfilled consumers to be assigned.")
        members = list(islice(self.at_least, count))
        self._deal_rounds(members, partitions, count)
        self._above_least += sum(self._sizes[each] == self._most for each in members)

    def _gain(self, member_id: str, partition: Partition) -> None:
        topic, number = partition
        self.plan[member_id][topic] = [*self.plan[member_id].get(topic, ()), number]
        self._sizes[member_id] += 1
        self._gainers.add(member_id)

    def _after_gain_below_least(self, index: int) -> int:
        """Moves the member at this index on, if its next partition brings it to `least`; returns the index after it."""
        member_id = self.below_least[index]
        size = self._sizes[member_id] + 1
        if size < self._least:
            index += 1
        else:
            del self.below_least[index]
            if size < self._most and self._above_least < self._with_one_more:
                self.at_least.append(member_id)
        return index % len(self.below_least) if self.below_least else 0

    def _count_above_least(self) -> None:
        self._above_least += 1
        if self._above_least == self._with_one_more:
            self.at_least.clear()


def _highest(numbers: Numbers, count: int) -> Iterable[int]:
    return (max(numbers),) if count == 1 and numbers else sorted(numbers)[-count:]
