"""The index of superseded batches: batches whose commits were all replaced by later ones, known without reading them.

A member commits to the same partitions again and again (groups: CommitPartitions), and each commit replaces the one
before it completely. So for each batch it is counted how many of its commits are the last of their series. Once none
is, the batch is superseded, and compaction need not read it to drop it. After a while that holds for most of a log:

    batch    1: A B C    2: A C    3: B        the last of A and C is in 2, that of B in 3: 1 is superseded

Records that belong to no such series count as live, however old they are: compaction reads them. The index knows only
batches that this process has written, without a gap from some offset on; only such batches supersede others.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

_MOST_BATCHES: Final = 10_000
"""The most batches of a partition that are indexed as live. If there are more, the older ones are no longer known."""


class _BatchEntry:
    """A batch, and how many of its commits are the last of their series."""

    __slots__ = ("base_offset", "last_commits")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.last_commits = 0


class CommitSeries:
    """The repeated commits of one member to one set of partitions, each of which replaces the one before it.
    `last_batch` is the batch in `__consumer_offsets` that has the last one."""

    __slots__ = ("count", "last_batch")

    def __init__(self, count: int) -> None:
        self.count = count  # The records of one commit.
        # The batch of the last commit, if that batch holds nothing but such commits.
        self.last_batch: _BatchEntry | None = None


class BatchWithSeries(Protocol):
    """A batch of `__consumer_offsets` that is about to be written, as the index of superseded batches sees it."""

    @property
    def count(self) -> int:
        """How many records the batch holds."""

    @property
    def series(self) -> Sequence[CommitSeries]:
        """The series of the repeated commits in the batch; other records have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesToRead:
    """Which batches of a log a compaction must read: all that begin before the offset `all_before`, and behind it those
    with these base offsets."""

    all_before: int
    base_offsets: Sequence[int]  # In ascending order.


class SupersededBatches:
    """The index of the superseded batches of one partition of `__consumer_offsets`: those whose commits were all
    replaced by later ones, so that compaction can drop them without reading them."""

    def __init__(self) -> None:
        self._start = self._end = 0  # The index knows the batches between these offsets.
        # Batches that hold nothing but commits of series, with a last one among them, by base offset.
        self._live: dict[int, _BatchEntry] = {}
        self._other = array("q")  # Base offsets of batches with other records in them, in ascending order.

    def to_read(self, end_offset: int) -> BatchesToRead:
        """Returns which batches of the partition's log a compaction must read: all that are not known to be superseded.
        `end_offset` is that of the log; if it is not the one known here, all batches are returned."""
        if end_offset != self._end:  # Another writer has appended to the log.
            return BatchesToRead(all_before=end_offset, base_offsets=())
        return BatchesToRead(all_before=self._start, base_offsets=sorted([*self._live, *self._other]))

    def on_written(self, batches: Iterable[BatchWithSeries], base_offset: int) -> None:
        """Adds batches that were appended to the log, the first of them at this offset."""
        if base_offset != self._end or len(self._live) + len(self._other) > _MOST_BATCHES:
            self._start = base_offset
            self._live.clear()
            del self._other[:]
        for batch in batches:
            self._note(batch, base_offset)
            base_offset += batch.count
        self._end = base_offset

    def forget_before(self, offset: int) -> None:
        """Drops batches before this offset from the index, because they were deleted or compacted."""
        self._start = max(self._start, offset)
        self._live = {base: each for base, each in self._live.items() if base >= offset}
        del self._other[: bisect_left(self._other, offset)]

    def _note(self, batch: BatchWithSeries, base_offset: int) -> None:
        entry, all_series, records, last_commits = _BatchEntry(base_offset), batch.series, 0, 0
        for series in all_series:
            records += series.count
            previous = series.last_batch
            if previous is entry:
                continue
            if previous is not None:
                previous.last_commits -= 1
                if not previous.last_commits and self._live.get(previous.base_offset) is previous:
                    del self._live[previous.base_offset]
            series.last_batch = entry
            last_commits += 1
        entry.last_commits = last_commits
        if records == batch.count:
            self._live[base_offset] = entry
            return
        self._other.append(base_offset)
        for series in all_series:
            series.last_batch = None
