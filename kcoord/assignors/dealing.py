"""Deals partitions out to members in a circle, as round robin does.

Of a topic, each of k members in the circle gets every k-th partition. That is a slice, and for all partitions of a
topic a range; topics with equally many partitions share these. So a million partitions take a few hundred thousand
steps, and no partition is touched by itself."""

from collections.abc import Sequence
from itertools import chain, islice

from kcoord.assignors.plan import MemberPlan

Numbers = Sequence[int]


class Circle:
    """Members in a circle, by their plans, and the position of the next one in it."""

    def __init__(self, plans: Sequence[MemberPlan], *, start: int = 0) -> None:
        self._plans = plans
        self.position = start
        self._slices: dict[range, list[Numbers]] = {}

    def deal(self, topic: str, numbers: Numbers) -> None:
        """Deals out partitions of a topic, of which members may have others."""
        for plan, gained in zip(self._from_position(), self._every(numbers), strict=False):
            held = plan.get(topic)
            plan[topic] = [*held, *gained] if held else gained
        self.position = (self.position + len(numbers)) % len(self._plans)

    def _every(self, numbers: Numbers) -> list[Numbers]:
        slices = self._slices.get(numbers) if isinstance(numbers, range) else None
        if slices is None:
            step = len(self._plans)
            slices = [numbers[first::step] for first in range(min(step, len(numbers)))]
            if isinstance(numbers, range):
                self._slices[numbers] = slices
        return slices

    def _from_position(self) -> "chain[MemberPlan]":
        return chain(islice(self._plans, self.position, None), islice(self._plans, self.position))
