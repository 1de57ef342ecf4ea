"""Partitions that are dealt out to members, in order. There may be a million of them, so they are ranges and lists of
numbers, of which slices are given away, and no partition is touched by itself."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from kcoord.assignors.dealing import Numbers
from kcoord.assignors.plan import Partition


@dataclass(frozen=True, slots=True)
class LeftOver:
    """The partitions that have no owner yet: a list of numbers for each topic, in the order in which they are dealt
    out. `ends` are the positions at which the topics end."""

    topics: list[tuple[str, Numbers]]
    ends: list[int] = field(default_factory=list)

    @classmethod
    def listing(cls, partitions: Iterable[Partition]) -> "LeftOver":
        """Returns these partitions in their order."""
        runs = groupby(partitions, key=lambda each: each[0])
        return cls.in_runs([(topic, [number for _, number in run]) for topic, run in runs])

    @classmethod
    def in_runs(cls, topics: Iterable[tuple[str, Numbers]]) -> "LeftOver":
        """Returns the partitions of these topics, one topic after the other."""
        runs = [each for each in topics if each[1]]
        return cls(runs, list(accumulate(len(numbers) for _, numbers in runs)))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __iter__(self) -> Iterator[Partition]:
        return ((topic, number) for topic, numbers in self.topics for number in numbers)

    def between(self, first: int, end: int) -> Iterator[tuple[str, Numbers]]:
        """Yields the partitions at the positions from `first` to before `end`, by topic."""
        index = bisect_right(self.ends, first)
        while first < end:
            topic, numbers = self.topics[index]
            start = self.ends[index] - len(numbers)
            yield topic, numbers[first - start : end - start]
            first = self.ends[index]
            index += 1
