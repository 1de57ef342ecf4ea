"""A plan: the changes of the offsets of groups, decided before anything is done.

Reset, import, delete and undo all make one, show it, and apply it in the same way. A plan contains the state that it
was made from: the committed offsets, the bounds of the logs, the ids of the topics. So it can be written to a file, and
refused later if the cluster has changed (`checking`).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.record_marks import RecordMark


class Verb(StrEnum):
    """The operation on committed offsets that a plan was made for: the verb of `kcoord offsets`."""

    RESET = "reset"
    IMPORT = "import"
    COPY = "copy"
    DELETE = "delete"
    UNDO = "undo"


class Flag(StrEnum):
    """A peculiarity of a planned offset change that an operator should know before the plan is applied, such as an
    offset that had to be moved into the log's range. Kafka's tool does the same, and reports less of it."""

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
    """A flag of a planned offset change, and why it was set."""

    flag: Flag
    reason: str


class Risk(StrEnum):
    """A reason to refuse a planned offset change unless the operator accepts the risk, each by an option:
    --accept-different-records."""

    DIFFERENT_RECORDS = "different-records"
    UNCOMPARED_RECORDS = "uncompared-records"
    CLAMPED_OFFSETS = "clamped-offsets"
    SOURCE_MEMBERS = "source-members"

    @property
    def option(self) -> str:
        """The option of the command line that accepts this risk."""
        return f"--accept-{self.value}"


class Verdict(StrEnum):
    """Whether the records at an offset are the same at the source and at the target."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing the records at an offset in the source's and the target's log: the next ones, or the last
    ones before if the source has no next one.

    `reason` says what differs or why nothing could be compared or, for equal records, which part of them was not
    compared. It is empty if all was.
    """

    verdict: Verdict
    reason: str = ""
    source: RecordMark | None = None
    target: RecordMark | None = None


class Effect(StrEnum):
    """The effect of a planned offset change on the group's consumers: they read records again, skip some, or
    neither."""

    REPLAYS = "replays"
    SKIPS = "skips"
    NOTHING = "nothing"


class RecordTimes(NamedTuple):
    """The times, in ms since 1970, of the first and the last record that an offset change replays or skips."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """The planned change of one partition's committed offset. `old` is None if there is none, `new` is None for a
    deletion.

    `bounds` is None if the log cannot be read, as for a deleted topic. `comparison` is None if records need not be
    compared, since the offset was committed for the very same log.
    """

    tp: TopicPartition
    topic_id: str | None
    old: Committed | None
    new: Committed | None
    bounds: Bounds | None
    notes: tuple[Note, ...] = ()
    times: RecordTimes | None = None  # times of the records that are replayed or skipped
    comparison: Comparison | None = None
    risks: tuple[Risk, ...] = ()

    @property
    def difference(self) -> int | None:
        """By how many offsets the change moves forward, negative for backward; None if there is no offset before or
        after."""
        return None if self.old is None or self.new is None else self.new.offset - self.old.offset

    @property
    def effect(self) -> Effect:
        """Whether consumers will replay or skip records, or neither."""
        if not self.records:
            return Effect.NOTHING
        return Effect.REPLAYS if (self.difference or 0) < 0 else Effect.SKIPS

    @property
    def between(self) -> tuple[int, int] | None:
        """The offsets of the log that the change passes over, from the first to the one after the last; None if there
        are none."""
        if self.old is None or self.new is None or self.bounds is None:
            return None
        low = max(min(self.old.offset, self.new.offset), self.bounds.start)
        high = min(max(self.old.offset, self.new.offset), self.bounds.end)
        return (low, high) if low < high else None

    @property
    def records(self) -> int:
        """The number of records that are replayed or skipped. They are counted by offsets, as lag is: compacted logs
        and markers have gaps."""
        return self.between[1] - self.between[0] if self.between else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The planned offset changes of one group, sorted by topic and partition. `exists` is False if a commit will create
    the group."""

    group: str
    exists: bool
    changes: tuple[OffsetChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of changes of committed offsets, which can be shown, written to a file, checked and applied.

    `target` is in the words of the command line: "to-earliest", "shift-by -10". Every risk of its changes is in
    `accepted`.
    """

    verb: Verb
    target: str
    cluster_id: str | None
    made_at: datetime
    groups: tuple[GroupPlan, ...]
    accepted: tuple[Risk, ...] = ()

    @property
    def changes(self) -> int:
        """The number of partitions whose committed offset changes."""
        return sum(len(group.changes) for group in self.groups)
