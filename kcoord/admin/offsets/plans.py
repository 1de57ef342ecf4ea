"""A plan: what is to be changed in the offsets of groups, decided before anything is done.

Reset, import, delete and undo all make one, show it, and have it applied in the same way. A plan knows what it found:
the offsets that were committed, where the logs began and ended, the ids of the topics. So it can be kept in a file, and
refused later if that is no longer so (`checking`).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.record_marks import RecordMark


class Verb(StrEnum):
    """What a plan was made by."""

    RESET = "reset"
    IMPORT = "import"
    COPY = "copy"
    DELETE = "delete"
    UNDO = "undo"


class Flag(StrEnum):
    """What an operator should know before it is done. Kafka's tool does the same, and says less of it."""

    CLAMPED_TO_START = "clamped-to-start"
    CLAMPED_TO_END = "clamped-to-end"
    NOTHING_COMMITTED = "nothing-committed"
    NO_RECORD_THAT_NEW = "no-record-that-new"
    OUT_OF_RANGE = "out-of-range"
    OTHER_TOPIC_ID = "other-topic-id"
    CHANGED_SINCE = "changed-since"
    DIFFERENT_RECORDS = "different-records"
    RECORDS_NOT_COMPARED = "records-not-compared"
    PARTLY_COMPARED = "partly-compared"
    SOURCE_HAS_MEMBERS = "source-has-members"


class Note(NamedTuple):
    """A flag, and why it was raised."""

    flag: Flag
    reason: str


class Risk(StrEnum):
    """Why a change is refused unless the risk is accepted, each by an option of its own: --accept-different-records."""

    DIFFERENT_RECORDS = "different-records"
    UNCOMPARED_RECORDS = "uncompared-records"
    CLAMPED_OFFSETS = "clamped-offsets"
    SOURCE_MEMBERS = "source-members"

    @property
    def option(self) -> str:
        return f"--accept-{self.value}"


class Verdict(StrEnum):
    """Whether the records at an offset are the same where it comes from and where it is committed."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The records that were compared: the next ones, or the last ones before where the source has no next one.

    `reason` says in words what differs or why nothing could be compared; or, of records that are the same, what of them
    was not compared. It is empty if all was.
    """

    verdict: Verdict
    reason: str = ""
    source: RecordMark | None = None
    target: RecordMark | None = None


class Effect(StrEnum):
    REPLAYS = "replays"
    SKIPS = "skips"
    NOTHING = "nothing"


class RecordTimes(NamedTuple):
    """When the first and the last of some records were written, in ms since 1970."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One partition: what is committed, and what shall be. None is nothing: `new` is None where it is deleted.

    `bounds` is None where the log cannot be asked, as of a topic that was deleted. `comparison` is None where records
    need not be compared, since the offset was committed for the very same log.
    """

    tp: TopicPartition
    topic_id: str | None
    old: Committed | None
    new: Committed | None
    bounds: Bounds | None
    notes: tuple[Note, ...] = ()
    times: RecordTimes | None = None  # of the records that are replayed or skipped
    comparison: Comparison | None = None
    risks: tuple[Risk, ...] = ()

    @property
    def difference(self) -> int | None:
        return None if self.old is None or self.new is None else self.new.offset - self.old.offset

    @property
    def effect(self) -> Effect:
        if not self.records:
            return Effect.NOTHING
        return Effect.REPLAYS if (self.difference or 0) < 0 else Effect.SKIPS

    @property
    def between(self) -> tuple[int, int] | None:
        """From which offset up to which the log has what lies between old and new; None if there is nothing there."""
        if self.old is None or self.new is None or self.bounds is None:
            return None
        low = max(min(self.old.offset, self.new.offset), self.bounds.start)
        high = min(max(self.old.offset, self.new.offset), self.bounds.end)
        return (low, high) if low < high else None

    @property
    def records(self) -> int:
        """How many are replayed or skipped. Counted by offsets, as lag is: compacted logs and markers have gaps."""
        return self.between[1] - self.between[0] if self.between else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The changes of one group, in order of topic and partition. `exists` is False if a commit will create it."""

    group: str
    exists: bool
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`target` is in the words of the command line: "to-earliest", "shift-by -10". Every risk in it is `accepted`."""

    verb: Verb
    target: str
    cluster_id: str | None
    made_at: datetime
    groups: tuple[GroupPlan, ...]
    accepted: tuple[Risk, ...] = ()

    @property
    def changes(self) -> int:
        return sum(len(group.changes) for group in self.groups)
