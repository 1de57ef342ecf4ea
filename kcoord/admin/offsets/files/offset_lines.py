"""One committed offset as a line of a file, with the ids of the log that it was committed for."""

from dataclasses import dataclass

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.record_marks import RecordMark


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLine:
    """One line of a file of offsets: the offset that a group committed for a partition, and the ids and bounds of the
    log. None stands for everything that the file does not contain.

    `next_record` is the first record at the offset or after it; `last_record` is the one before, which is read only if
    there is no next one, because the group has read everything.
    """

    group: str
    tp: TopicPartition
    committed: Committed
    topic_id: str | None = None
    bounds: Bounds | None = None
    cluster_id: str | None = None
    group_state: str | None = None
    next_record: RecordMark | None = None
    last_record: RecordMark | None = None

    @property
    def timestamp(self) -> int | None:
        """The time of the next record in ms since 1970; None if unknown."""
        return self.next_record.timestamp if self.next_record else None
