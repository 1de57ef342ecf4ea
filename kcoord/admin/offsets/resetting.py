"""Targets of a reset, and the offset that each gives a partition. Pure.

The results are those of kafka-consumer-groups 4.3 (its OffsetsUtils), which differ by target:

| target             | nothing committed     | outside the log       | no record that new |
|--------------------|-----------------------|-----------------------|--------------------|
| earliest, latest   | as the others         | –                     | –                  |
| current            | the end of the log    | stays as it is        | –                  |
| an offset, a file  | as the others         | the log's start, end  | –                  |
| shift by           | refused               | the log's start, end  | –                  |
| a time             | as the others         | –                     | the end of the log |

Where Kafka's tool prints a warning, or nothing at all, the plan here has a note.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from kcoord.admin.formatting import format_partitions
from kcoord.admin.model import Bounds, Committed, FoundOffset, TopicPartition
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.plans import Flag, Note
from kcoord.admin.times import utc_text
from kcoord.exceptions import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ToEarliest:
    """The reset target: the log start offset."""

    def __str__(self) -> str:
        return "to-earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToLatest:
    """The reset target: the log end offset."""

    def __str__(self) -> str:
        return "to-latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCurrent:
    """The reset target: the committed offset stays; where none is committed, the log end offset."""

    def __str__(self) -> str:
        return "to-current"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToOffset:
    """The reset target: this offset, moved into the range of the log."""

    offset: int

    def __str__(self) -> str:
        return f"to-offset {self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftBy:
    """The reset target: the committed offset plus `by`, moved into the range of the log."""

    by: int

    def __str__(self) -> str:
        return f"shift-by {self.by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTime:
    """The reset target: the offset of the first record of that time or later, in ms since 1970."""

    timestamp: int

    def __str__(self) -> str:
        return f"to-datetime {utc_text(self.timestamp)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFromFile:
    """The reset target of a file: the offset that it lists for each partition of a group, and the ids of their topics,
    if the file has those.

    `lines` are the whole lines of the file, by which records are compared.
    """

    offsets: Mapping[TopicPartition, Committed]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[TopicPartition, OffsetLine] = field(default_factory=dict)


ResetTarget = ToEarliest | ToLatest | ToCurrent | ToOffset | ShiftBy | ToTime  # one target for all partitions
Target = ResetTarget | OffsetsFromFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetInputs:
    """The current state of a group's partitions, from which the target offsets of a reset are computed: committed
    offsets and bounds of logs. `found` are the offsets of a target in time; topic ids are for offsets from files."""

    committed: Mapping[TopicPartition, Committed]
    bounds: Mapping[TopicPartition, Bounds]
    found: Mapping[TopicPartition, FoundOffset] = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOffset:
    """The offset that a reset or import is to commit for a partition, with notes for the operator."""

    new: Committed
    notes: tuple[Note, ...] = ()


class CannotReset(InvalidInput, RuntimeError):
    """An error: offsets cannot be set, for example because a partition has no offset for the target."""


def target_offsets(
    target: Target, partitions: Collection[TopicPartition], inputs: ResetInputs
) -> dict[TopicPartition, TargetOffset]:
    """Computes the offset to commit for each partition by a reset target. Raises CannotReset if one of them has none:
    then nothing may be changed at all."""
    uncommitted = [tp for tp in partitions if tp not in inputs.committed]
    if isinstance(target, ShiftBy) and uncommitted:
        raise CannotReset(f"nothing is committed for {format_partitions(uncommitted)}, so there is nothing to shift")
    return {tp: _target_offset(target, tp, inputs) for tp in partitions}


def _target_offset(target: Target, tp: TopicPartition, inputs: ResetInputs) -> TargetOffset:
    bounds = inputs.bounds[tp]
    match target:
        case ToEarliest():
            return TargetOffset(new=Committed(bounds.start))
        case ToLatest():
            return TargetOffset(new=Committed(bounds.end))
        case ToCurrent():
            return _current(inputs.committed.get(tp), bounds)
        case ToOffset(offset=offset):
            return _clamped(Committed(offset), bounds)
        case ShiftBy(by=by):
            return _clamped(Committed(inputs.committed[tp].offset + by), bounds)
        case ToTime():
            return _at_time(target, inputs.found[tp], bounds)
        case OffsetsFromFile(offsets=offsets):
            return _from_file(tp, offsets[tp], target, inputs, bounds)
        case _:
            assert_never(target)


def _current(committed: Committed | None, bounds: Bounds) -> TargetOffset:
    if committed is None:
        return TargetOffset(
            new=Committed(bounds.end),
            notes=(Note(Flag.NOTHING_COMMITTED, "nothing is committed: the end of the log is taken"),),
        )
    return TargetOffset(new=committed, notes=out_of_range_notes(committed, bounds))


def out_of_range_notes(committed: Committed, bounds: Bounds) -> tuple[Note, ...]:
    """Returns a note if a committed offset is not in the log's range, none otherwise. Consumers that start there follow
    their auto.offset.reset."""
    if bounds.start <= committed.offset <= bounds.end:
        return ()
    return (Note(Flag.OUT_OF_RANGE, f"the log is from {bounds.start} to {bounds.end}"),)


def _clamped(wanted: Committed, bounds: Bounds) -> TargetOffset:
    """Clamps an offset to the log. A clamped offset has neither leader epoch nor metadata: they belong to the offset
    that was requested."""
    if wanted.offset > bounds.end:
        reason = f"{wanted.offset} is after the end of the log, {bounds.end}"
        return TargetOffset(new=Committed(bounds.end), notes=(Note(Flag.CLAMPED_TO_END, reason),))
    if wanted.offset < bounds.start:
        reason = f"{wanted.offset} is before the start of the log, {bounds.start}"
        return TargetOffset(new=Committed(bounds.start), notes=(Note(Flag.CLAMPED_TO_START, reason),))
    return TargetOffset(new=wanted)


def _from_file(
    tp: TopicPartition, wanted: Committed, target: OffsetsFromFile, inputs: ResetInputs, bounds: Bounds
) -> TargetOffset:
    """Takes an offset of a file. Its leader epoch is valid only in the log that it was committed for, and in no other
    of the same name.

    Brokers before 2.8 report no topic ids, so that the log is unknown there.
    """
    listed_id, topic_id = target.topic_ids.get(tp.topic), inputs.topic_ids.get(tp.topic)
    if listed_id is not None and listed_id == topic_id:
        return _clamped(wanted, bounds)
    clamped = _clamped(wanted._replace(leader_epoch=-1), bounds)
    if listed_id is None or topic_id is None:
        return clamped
    note = Note(Flag.OTHER_TOPIC_ID, f"listed for the topic id {listed_id}, and this is {topic_id}")
    return TargetOffset(new=clamped.new, notes=(note, *clamped.notes))


def _at_time(target: ToTime, found: FoundOffset, bounds: Bounds) -> TargetOffset:
    if found.offset >= 0:
        return TargetOffset(new=Committed(found.offset))
    why = "the log is empty" if bounds.start == bounds.end else f"no record is as new as {utc_text(target.timestamp)}"
    note = Note(Flag.NO_RECORD_THAT_NEW, f"{why}: the end of the log is taken")
    return TargetOffset(new=Committed(bounds.end), notes=(note,))
