"""The best sticky plan, as franz-go makes it: as even as possible, and of the plans that are as even one that moves the
fewest partitions.

franz-go chooses among such plans by the order of a Go map, which is another one each time. So this is one of them: the
sizes of the shares and the number of moves are franz-go's, but not which partitions move.

Theory of operation. Topics with the same subscribers form a row; what counts is how many partitions of a row each
member has, and how many it had before. Handing a partition on has a price: 1 for a partition beyond those that the
taker had before, and -1 for a giver that has more than it had. Beyond all of that, the square of each member's size
counts, so that the most even plan is the cheapest one. That is a flow, and a flow is the cheapest one if no rotation of
partitions around some rows and members lowers the price. Bellman and Ford's algorithm finds such rotations.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from kcoord.assignors.libraries.byte_order import byte_order, known_counts
from kcoord.assignors.libraries.franz_go import in_member_order
from kcoord.assignors.plan import Partition, Plan, Subscriber, Topics, group_by_topic, list_partitions

_Row: TypeAlias = tuple[int, ...]  # the subscribers of its topics, by their index
_Node: TypeAlias = tuple[str, int | _Row]
_HUB: _Node = ("hub", 0)
_UNKNOWN: Final = -1


def assign_sticky(subscribers: Collection[Subscriber], topics: Topics) -> Plan:
    """Returns a plan that is as good as that of franz-go's sticky balancer."""
    members = in_member_order(subscribers)
    counts = known_counts(members, topics)
    owner_of = _resolve_claims(members, counts)
    flow = _Flow(members, counts, owner_of)
    flow.improve()
    return {members[index].member_id: group_by_topic(sorted(held)) for index, held in enumerate(flow.deal())}


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
        current = {one for one in claims[each.member_id] if _known_generation(each) >= newest[one]}
        plan[each.member_id] = group_by_topic(sorted(planned[each.member_id] - (revoked - current)))
    return plan


def _newest_claims(members: Sequence[Subscriber]) -> dict[Partition, int]:
    newest: dict[Partition, int] = {}
    for each in members:
        for partition in list_partitions(each.owned):
            newest[partition] = max(newest.get(partition, _UNKNOWN), _known_generation(each))
    return newest


def _known_generation(each: Subscriber) -> int:
    return _UNKNOWN if each.generation is None else each.generation


def _generation(each: Subscriber) -> int:
    """Returns the generation of a claim in user data. An unknown one is as good as the first one."""
    return max(_known_generation(each), 0)


def _resolve_claims(members: Sequence[Subscriber], counts: Mapping[str, int]) -> dict[Partition, int]:
    """Returns the index of the owner of each partition: of several claims the newest one counts, and of those of one
    generation the first one. A second one gets it back if the first one is not subscribed any more, or has at least
    two more partitions."""
    claims: dict[Partition, list[tuple[int, int]]] = {}
    for index, each in enumerate(members):
        for topic, number in list_partitions(each.owned):
            if 0 <= number < counts.get(topic, 0):
                claims.setdefault((topic, number), []).append((-_generation(each), index))
    ranked = {partition: [index for _, index in sorted(of_partition)] for partition, of_partition in claims.items()}
    owner_of = {each: indexes[0] for each, indexes in ranked.items() if each[0] in members[indexes[0]].topics}
    sizes = Counter(owner_of.values())
    for partition, (_, *stale) in ranked.items():
        if not stale or partition[0] not in members[stale[0]].topics:
            continue
        owner = owner_of.get(partition)
        if owner is None or sizes[stale[0]] + 1 < sizes[owner]:
            if owner is not None:
                sizes[owner] -= 1
            owner_of[partition] = stale[0]
            sizes[stale[0]] += 1
    return owner_of


@dataclass(slots=True)
class _Cell:
    """How many partitions of a row a member has, and how many it had before."""

    count: int
    before: int

    @property
    def price_to_take(self) -> int:
        return int(self.count >= self.before)

    @property
    def price_to_give(self) -> int:
        return -int(self.count > self.before)


class _Flow:
    """Partitions by row and member."""

    def __init__(
        self, members: Sequence[Subscriber], counts: Mapping[str, int], owner_of: Mapping[Partition, int]
    ) -> None:
        self._owner_of = owner_of
        self._sizes = [0] * len(members)
        self._weight = sum(counts.values()) + 1  # of a more even plan: more than all moves
        self._rows: dict[_Row, list[Partition]] = {}
        for topic in sorted(counts, key=byte_order):
            row = tuple(index for index, each in enumerate(members) if topic in each.topics)
            self._rows.setdefault(row, []).extend((topic, number) for number in range(counts[topic]))
        self._cells = {(row, index): _Cell(0, 0) for row in self._rows for index in row}
        for row, partitions in self._rows.items():
            self._assign(row, partitions)

    def improve(self) -> None:
        """Rotates partitions until no rotation lowers the price."""
        while rotation := self._find_rotation():
            for source, target in rotation:
                self._pass(source, target)

    def deal(self) -> list[list[Partition]]:
        """Returns the partitions of each member: first what it had before, then what is left over."""
        held: list[list[Partition]] = [[] for _ in self._sizes]
        for row, partitions in self._rows.items():
            room = {index: self._cells[row, index].count for index in row}
            left_over = []
            for partition in partitions:
                owner = self._owner_of.get(partition)
                if owner is not None and room[owner]:
                    room[owner] -= 1
                    held[owner].append(partition)
                else:
                    left_over.append(partition)
            takers = (index for index in row for _ in range(room[index]))
            for index, partition in zip(takers, left_over, strict=True):
                held[index].append(partition)
        return held

    def _assign(self, row: _Row, partitions: Sequence[Partition]) -> None:
        """Leaves partitions with their owners, and gives each other one to the subscriber with the fewest."""
        for partition in partitions:
            owner = self._owner_of.get(partition)
            if owner is not None:
                self._cells[row, owner].before += 1
                self._add(row, owner, 1)
        for partition in partitions:
            if partition not in self._owner_of:
                self._add(row, min(row, key=lambda index: self._sizes[index]), 1)

    def _add(self, row: _Row, index: int, change: int) -> None:
        self._cells[row, index].count += change
        self._sizes[index] += change

    def _pass(self, source: _Node, target: _Node) -> None:
        match source, target:
            case ("row", row), ("member", int(index)) if isinstance(row, tuple):
                self._add(row, index, 1)
            case ("member", int(index)), ("row", row) if isinstance(row, tuple):
                self._add(row, index, -1)

    def _edges(self) -> Iterator[tuple[_Node, _Node, int]]:
        """Yields the ways in which one partition can be passed on, with their prices. From a row to a member: it takes
        one; back: it gives one up. Through the hub, one member's size grows and that of another one shrinks."""
        for (row, index), cell in self._cells.items():
            yield ("row", row), ("member", index), cell.price_to_take
            if cell.count:
                yield ("member", index), ("row", row), cell.price_to_give
        for index, size in enumerate(self._sizes):
            yield ("member", index), _HUB, self._weight * (2 * size + 1)
            if size:
                yield _HUB, ("member", index), -self._weight * (2 * size - 1)

    def _find_rotation(self) -> list[tuple[_Node, _Node]]:
        """Returns a rotation that lowers the price, as steps from node to node; nothing if there is none."""
        edges = list(self._edges())
        prices: dict[_Node, int] = {}
        came_from: dict[_Node, _Node] = {}
        for _ in range(len(self._rows) + len(self._sizes) + 1):
            last = None
            for source, target, price in edges:
                if prices.get(source, 0) + price < prices.get(target, 0):
                    prices[target] = prices.get(source, 0) + price
                    came_from[target] = source
                    last = target
            if last is None:
                return []
        return _cycle(came_from, last)


def _cycle(came_from: Mapping[_Node, _Node], node: _Node | None) -> list[tuple[_Node, _Node]]:
    """Returns the cycle that the way back from a node ends in."""
    assert node is not None
    for _ in came_from:
        node = came_from[node]
    steps = []
    at = node
    while True:
        steps.append((came_from[at], at))
        at = came_from[at]
        if at == node:
            return steps
