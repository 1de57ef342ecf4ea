"""The cheapest plan: as even as possible, and of the plans that are as even one that moves the fewest partitions.

Theory of operation. Topics with the same subscribers form a row; what counts is how many partitions of a row each
member has, and how many of them it had before. A partition beyond those is a move. Partitions are handed out step by
step, always to the smallest member that can still get one, and with the fewest moves that this takes. To get one, a
member may take it from a row, or from another member of that row, which takes one of another row instead, and so on.

That is the method of successive shortest paths for a flow of minimum cost, so the outcome is the cheapest plan. The
shortest paths are Dijkstra's, with a potential of each row and member so that no step has a negative price: handing a
moved partition on undoes a move. As in Dinic's method, many paths of one length are found at once: each member may take
one partition before the paths are looked for again.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TypeAlias

from kcoord.assignors.plan import Partition

Row: TypeAlias = tuple[int, ...]  # the subscribers of its topics, by their positions


def cheapest_shares(
    member_count: int, partitions_of: Mapping[Row, Sequence[Partition]], owner_of: Mapping[Partition, int]
) -> list[list[Partition]]:
    """Returns the partitions of each member by the cheapest plan. `owner_of` has the position of the member that had a
    partition before; it must be a subscriber of the partition's row."""
    rows = [_Row(members, partitions, owner_of) for members, partitions in partitions_of.items() if members]
    _Flow(member_count, rows).fill()
    shares: list[list[Partition]] = [[] for _ in range(member_count)]
    for row in rows:
        for member, partition in row.deal(owner_of):
            shares[member].append(partition)
    return shares


class _Row:
    """Partitions with the same subscribers: how many each member has, and how many it had before."""

    def __init__(self, members: Row, partitions: Sequence[Partition], owner_of: Mapping[Partition, int]) -> None:
        self.members = members
        self.counts = dict.fromkeys(members, 0)
        self.before = dict.fromkeys(members, 0)
        self.left = len(partitions)
        self._partitions = partitions
        for partition in partitions:
            if partition in owner_of:
                self.before[owner_of[partition]] += 1

    def price_to_take(self, member: int) -> int:
        return int(self.counts[member] >= self.before[member])

    def price_to_give(self, member: int) -> int | None:
        count = self.counts[member]
        return -int(count > self.before[member]) if count else None

    def retain(self, member: int, count: int) -> int:
        """Leaves a member up to so many of the partitions that it had; returns how many."""
        retained = min(count, self.before[member])
        self.counts[member] += retained
        self.left -= retained
        return retained

    def deal(self, owner_of: Mapping[Partition, int]) -> Iterator[tuple[int, Partition]]:
        """Yields the member of each partition: first the one that had it, then those with room."""
        room = dict(self.counts)
        left_over = []
        for partition in self._partitions:
            owner = owner_of.get(partition)
            if owner is not None and room[owner]:
                room[owner] -= 1
                yield owner, partition
            else:
                left_over.append(partition)
        takers = (member for member, count in room.items() for _ in range(count))
        yield from zip(takers, left_over, strict=True)


class _Flow:
    """What has been handed out so far. Rows and members are nodes: rows are numbered from 0, and members after them."""

    def __init__(self, member_count: int, rows: Sequence[_Row]) -> None:
        self._rows = rows
        self._first_member = len(rows)
        self._ways: list[Sequence[int]] = [[len(rows) + member for member in row.members] for row in rows]
        rows_of: list[list[int]] = [[] for _ in range(member_count)]
        for index, row in enumerate(rows):
            for member in row.members:
                rows_of[member].append(index)
        self._ways += rows_of
        self._sizes = [0] * member_count
        self._potentials = [0] * len(self._ways)

    def fill(self) -> None:
        """Hands all partitions out."""
        self._retain()
        while any(row.left for row in self._rows):
            self._hand_out(self._count_steps())

    def _retain(self) -> None:
        """Leaves each member as many of the partitions that it had as all members had at least. Nothing is cheaper than
        equal sizes without a move."""
        rows_of = [[self._rows[index] for index in ways] for ways in self._ways[self._first_member :]]
        had = [sum(row.before[member] for row in rows) for member, rows in enumerate(rows_of) if rows]
        for member, rows in enumerate(rows_of):
            for row in rows:
                self._sizes[member] += row.retain(member, min(had) - self._sizes[member])

    def _count_steps(self) -> list[int]:
        """Finds the cheapest paths from the rows with partitions left, adds their prices to the potentials, and returns
        the number of steps to each node by the shortest of them: -1 if none leads there."""
        nodes, potentials = len(self._ways), self._potentials
        unreached = nodes * nodes * 4
        lengths = [unreached] * nodes  # the price times the number of nodes, plus the number of steps
        heap = [(0, index) for index, row in enumerate(self._rows) if row.left]
        for _, index in heap:
            lengths[index] = 0
        while heap:
            length, node = heapq.heappop(heap)
            if length > lengths[node]:
                continue
            for other in self._ways[node]:
                if (price := self._price(node, other)) is None:
                    continue
                beyond = length + 1 + nodes * (price + potentials[node] - potentials[other])
                if beyond < lengths[other]:
                    lengths[other] = beyond
                    heapq.heappush(heap, (beyond, other))
        for node, length in enumerate(lengths):
            if length < unreached:
                potentials[node] += length // nodes
        return [length % nodes if length < unreached else -1 for length in lengths]

    def _price(self, node: int, other: int) -> int | None:
        """Returns the price of passing a partition on, None if there is none. From a row to a member: it takes one;
        from a member to a row: it gives one up."""
        first = self._first_member
        if node < first:
            return self._rows[node].price_to_take(other - first)
        return self._rows[other].price_to_give(node - first)

    def _hand_out(self, steps: Sequence[int]) -> None:
        """Gives one partition each to the smallest members that the cheapest paths lead to, as far as possible."""
        takers = self._find_takers(steps)
        tried = [0] * len(steps)
        for index, row in enumerate(self._rows):
            while row.left and takers and (path := self._find_path(index, steps, takers, tried)):
                row.left -= 1
                takers.remove(path[-1])
                self._sizes[path[-1] - self._first_member] += 1
                for row_node, member_node in zip(path[::2], path[1::2], strict=True):
                    self._rows[row_node].counts[member_node - self._first_member] += 1
                for member_node, row_node in zip(path[1::2], path[2::2], strict=False):
                    self._rows[row_node].counts[member_node - self._first_member] -= 1

    def _find_takers(self, steps: Sequence[int]) -> set[int]:
        """Returns the smallest members that can be reached, of these the ones with the cheapest paths."""
        first = self._first_member
        ranks = {
            first + member: (size, self._potentials[first + member])
            for member, size in enumerate(self._sizes)
            if steps[first + member] >= 0
        }
        best = min(ranks.values())
        return {node for node, rank in ranks.items() if rank == best}

    def _find_path(self, row: int, steps: Sequence[int], takers: Set[int], tried: list[int]) -> list[int]:
        """Returns a cheapest path from a row to one of the takers, empty if there is none. `tried` counts the ways from
        each node that have led nowhere."""
        path = [row]
        while path and path[-1] not in takers:
            node = path[-1]
            ways = self._ways[node]
            while tried[node] < len(ways) and not self._leads_on(node, ways[tried[node]], steps):
                tried[node] += 1
            if tried[node] < len(ways):
                path.append(ways[tried[node]])
                continue
            path.pop()
            if path:
                tried[path[-1]] += 1
        return path

    def _leads_on(self, node: int, other: int, steps: Sequence[int]) -> bool:
        """Whether a cheapest path leads from one node to the other."""
        if steps[other] != steps[node] + 1:
            return False
        price = self._price(node, other)
        return price is not None and self._potentials[other] == self._potentials[node] + price
