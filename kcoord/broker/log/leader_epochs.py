"""The leader epochs of a log and where each begins, as in Kafka's LeaderEpochFileCache.

A log that kcoord created has one epoch; one that a broker wrote may have several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The answer of OffsetForLeaderEpoch; -1 and -1 for an epoch that the log does not know."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    def __init__(self, epochs: Sequence[tuple[int, int]]) -> None:
        """`epochs` are epochs and their first offsets, the current one last."""
        self._epochs = epochs

    @property
    def current(self) -> int:
        return self._epochs[-1][0]

    def at(self, offset: int) -> int:
        """Returns the epoch of this offset; -1 if that is not known."""
        return next((epoch for epoch, first in reversed(self._epochs) if first <= offset), UNKNOWN)

    def end_of(self, epoch: int, *, start_offset: int, end_offset: int) -> EpochEnd:
        """Returns where this epoch ends in a log of these bounds: where the next one begins, or where the log ends."""
        if epoch == self.current:
            return EpochEnd(leader_epoch=epoch, end_offset=end_offset)
        if not 0 <= epoch < self.current:
            return EpochEnd(leader_epoch=UNKNOWN, end_offset=UNKNOWN)
        later = next(index for index, (each, _) in enumerate(self._epochs) if each > epoch)
        next_begins = self._epochs[later][1]
        if later == 0 or next_begins <= start_offset:  # Nothing is left of the epoch.
            return EpochEnd(leader_epoch=epoch, end_offset=max(next_begins, start_offset))
        return EpochEnd(leader_epoch=self._epochs[later - 1][0], end_offset=next_begins)
