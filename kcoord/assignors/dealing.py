"""Deals partitions out to members in a circle, as round robin does.

Of a topic, each of k members in the circle gets every k-th partition. That is a slice, and for all partitions of a
topic a range; topics with equally many partitions share these. So a million partitions take a few hundred thousand
steps, and no partition is touched by itself."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice

from kcoord.assignors.plan import MemberPlan

Numbers = Sequence[int]


class Circle:
    """Members in a circle, by their plans, and the position of the next one in it."""

    def __init__(self, plans: Sequence[MemberPlan], *, start: int = 0) -> None:
        self._plans = plans
        self.position = start
        self._slices: dict[range, list[Numbers]] = {}

    def deal_all(self, partitions: Iterable[tuple[str, Numbers]]) -> None:
        """Deals out partitions of one topic after the other. Topics with equally many partitions that begin with the
        same member are dealt out at once."""
        together: dict[tuple[range, int], list[str]] = {}
        for topic, numbers in partitions:
            if isinstance(numbers, range):
                together.setdefault((numbers, self.position), []).append(topic)
                self._move_on(len(numbers))
            else:
                self.deal(topic, numbers)
        for (numbers, position), topics in together.items():
            for plan, gained in zip(self._from(position), self._every(numbers), strict=False):
                if not plan or plan.keys().isdisjoint(topics):
                    plan.update(dict.fromkeys(topics, gained))
                else:
                    plan.update({topic: [*plan.get(topic, ()), *gained] for topic in topics})

    def deal(self, topic: str, numbers: Numbers) -> None:
        """Deals out partitions of a topic, of which members may have others."""
        for plan, gained in zip(self._from(self.position), self._every(numbers), strict=False):
            held = plan.get(topic)
            plan[topic] = [*held, *gained] if held else gained
        self._move_on(len(numbers))

    def _move_on(self, steps: int) -> None:
        self.position = (self.position + steps) % len(self._plans)

    def _every(self, numbers: Numbers) -> list[Numbers]:
        slices = self._slices.get(numbers) if isinstance(numbers, range) else None
        if slices is None:
            step = len(self._plans)
            slices = [numbers[first::step] for first in range(min(step, len(numbers)))]
            if isinstance(numbers, range):
                self._slices[numbers] = slices
        return slices

    def _from(self, position: int) -> "chain[MemberPlan]":
        return chain(islice(self._plans, position, None), islice(self._plans, position))
