"""The leader epochs of a log and where each begins, as in Kafka's LeaderEpochFileCache.

A log that kcoord created has one epoch; one that a broker wrote may have several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The answer to OffsetForLeaderEpoch for one partition: a leader epoch and the offset at which it ends; -1 and -1
    for an epoch that the log does not know.
    """

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of a partition log and the offset at which each begins (Kafka's LeaderEpochFileCache)."""

    def __init__(self, epochs: Sequence[tuple[int, int]]) -> None:
        """`epochs` are epochs and their first offsets, the current one last."""
        self._epochs = epochs

    @property
    def current(self) -> int:
        """The latest leader epoch."""
        return self._epochs[-1][0]

    def at(self, offset: int) -> int:
        """Returns the leader epoch of the record at this offset; -1 if that is not known."""
        return next((epoch for epoch, first in reversed(self._epochs) if first <= offset), UNKNOWN)

    def end_of(self, epoch: int, *, start_offset: int, end_offset: int) -> EpochEnd:
        """Returns the end of a leader epoch in a log with these first and end offsets: where the next epoch begins, or
        where the log ends.
        """
        if epoch == self.current:
            return EpochEnd(leader_epoch=epoch, end_offset=end_offset)
        if not 0 <= epoch < self.current:
            return EpochEnd(leader_epoch=UNKNOWN, end_offset=UNKNOWN)
        later = next(index for index, (each, _) in enumerate(self._epochs) if each > epoch)
        next_begins = self._epochs[later][1]
        if later == 0 or next_begins <= start_offset:  # Nothing is left of the epoch.
            return EpochEnd(leader_epoch=epoch, end_offset=max(next_begins, start_offset))
        return EpochEnd(leader_epoch=self._epochs[later - 1][0], end_offset=next_begins)
