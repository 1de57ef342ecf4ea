"""Which batches of a partition hold nothing that counts any more, known without a look into them.

A member commits to the same places again and again (groups/records: UsualPlaces), and each of its commits replaces the
one before it whole. So it is counted how many commits of a batch are the last to their places. Once none is, the batch
is overtaken, and compaction need not read it to drop it; after a while, that is most of a log:

    batch    1: A B C    2: A C    3: B        the last of A and C is in 2, that of B in 3: 1 is overtaken

What is no such commit counts, however old it is: that is for compaction to find out. Known are only batches that this
process has written, from some offset on without a gap, and one is overtaken only by what is written.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

_MOST_BATCHES: Final = 10_000
"""Of a partition, that are not overtaken. If there are more, those before are not known any more."""


class _Written:
    """A batch, and how many of its commits are the last to their places."""

    __slots__ = ("base_offset", "last_commits")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.last_commits = 0


class Trail:
    """Commits to the same places. Each is in one batch, whole."""

    __slots__ = ("count", "written")

    def __init__(self, count: int) -> None:
        self.count = count  # of the records of one commit
        self.written: _Written | None = None  # where the last one is, if nothing but such commits is there


class Trailed(Protocol):
    """A batch that is to be written."""

    @property
    def count(self) -> int:
        """Of its records."""

    @property
    def trails(self) -> Sequence[Trail]:
        """Of those of its commits that have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRead:
    """Which batches of a log are to be read: all that begin before an offset, and of those behind it these."""

    all_before: int
    base_offsets: Sequence[int]  # in their order


class Overtaken:
    """What is known of one partition."""

    def __init__(self) -> None:
        self._start = self._end = 0  # it is known of the batches from this offset to that one
        self._with_last: dict[int, _Written] = {}  # batches that have last commits and nothing else, by base offset
        self._other = array("q")  # base offsets of batches with something else in them, in their order

    def to_read(self, end_offset: int) -> ToRead:
        """The batches of a log that ends there that are not known to be overtaken."""
        if end_offset != self._end:  # somebody else has written to it
            return ToRead(all_before=end_offset, base_offsets=())
        return ToRead(all_before=self._start, base_offsets=sorted([*self._with_last, *self._other]))

    def wrote(self, batches: Iterable[Trailed], base_offset: int) -> None:
        """These batches are in the log from this offset on."""
        if base_offset != self._end or len(self._with_last) + len(self._other) > _MOST_BATCHES:
            self._start = base_offset
            self._with_last.clear()
            del self._other[:]
        for batch in batches:
            self._note(batch, base_offset)
            base_offset += batch.count
        self._end = base_offset

    def forget_before(self, offset: int) -> None:
        """What was before this offset is there no more, or not as it was."""
        self._start = max(self._start, offset)
        self._with_last = {base: each for base, each in self._with_last.items() if base >= offset}
        del self._other[: bisect_left(self._other, offset)]

    def _note(self, batch: Trailed, base_offset: int) -> None:
        written, trails, records, last_commits = _Written(base_offset), batch.trails, 0, 0
        for trail in trails:
            records += trail.count
            before = trail.written
            if before is written:
                continue
            if before is not None:
                before.last_commits -= 1
                if not before.last_commits and self._with_last.get(before.base_offset) is before:
                    del self._with_last[before.base_offset]
            trail.written = written
            last_commits += 1
        written.last_commits = last_commits
        if records == batch.count:
            self._with_last[base_offset] = written
            return
        self._other.append(base_offset)
        for trail in trails:
            trail.written = None
