"""Risks of committing offsets for another log than their source: compares records, and names the risks.

An offset that returns to the very same log needs no comparison. A line without its origin, as in the CSV of
kafka-consumer-groups, cannot be compared at all: that is a flag and a warning, and no risk by itself.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import first_few, format_partitions
from kcoord.admin.model import Position, Resource, TopicPartition
from kcoord.admin.offsets.cluster_state import STATES_WITHOUT_MEMBERS
from kcoord.admin.offsets.comparing import Origin, TargetRecords, compare, not_compared, origin_of
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.marking import Marks, read_marks
from kcoord.admin.offsets.plans import Comparison, Flag, GroupPlan, Note, OffsetChange, Risk, Verb, Verdict
from kcoord.admin.offsets.resetting import OffsetsFromFile

_CLAMPED = (Flag.CLAMPED_TO_START, Flag.CLAMPED_TO_END)
_SHOWN = 3


def with_risks(
    cluster: ClusterClient, groups: Collection[GroupPlan], listed: Mapping[str, OffsetsFromFile], verb: Verb
) -> tuple[GroupPlan, ...]:
    """Adds to planned offset changes the comparison of records at source and target, and the risks that follow from it.
    Records are read only if the logs may differ. `listed` are the offsets of the file by group."""
    cluster_id = cluster.cluster_id()
    pairs = [
        (change, line)
        for group in groups
        for change in group.changes
        for line in [listed[group.group].lines.get(change.tp)]
        if line is not None and origin_of(line, cluster_id=cluster_id, topic_id=change.topic_id) is not Origin.SAME_LOG
    ]
    marks = _read_target(cluster, pairs)

    def assess(group: str, change: OffsetChange) -> OffsetChange:
        line = listed[group].lines.get(change.tp)
        if line is None:
            return change
        origin = origin_of(line, cluster_id=cluster_id, topic_id=change.topic_id)
        comparison = None if origin is Origin.SAME_LOG else _compared(change, line, marks)
        return add_risks(replace(change, comparison=comparison), line, origin, verb)

    return tuple(
        replace(group, changes=tuple(assess(group.group, change) for change in group.changes)) for group in groups
    )


def _read_target(cluster: ClusterClient, pairs: Iterable[tuple[OffsetChange, OffsetLine]]) -> Marks:
    bounds, next_at, last_before = {}, set[Position](), set[Position]()
    for change, line in pairs:
        if change.new is None or change.bounds is None:
            continue
        bounds[change.tp] = change.bounds
        if line.next_record is not None:
            next_at.add((change.tp, change.new.offset))
            if change.new.offset == change.bounds.end:
                last_before.add((change.tp, change.new.offset))
            if (aligned := _aligned(change, line)) is not None:
                next_at.add((change.tp, aligned))
        elif line.last_record is not None:
            last_before.add((change.tp, change.new.offset))
    return read_marks(cluster, bounds, next_at=next_at, last_before=last_before)


def _aligned(change: OffsetChange, line: OffsetLine) -> int | None:
    """Returns the offset of the source's next record if that lies behind a gap; a clamped offset has nothing to align
    with."""
    assert change.new is not None
    offset = line.next_record.offset if line.next_record else None
    return offset if offset is not None and change.new.offset == line.committed.offset < offset else None


def _compared(change: OffsetChange, line: OffsetLine, marks: Marks) -> Comparison | None:
    if change.new is None or change.bounds is None:
        return None
    if change.tp in marks.unreadable:
        return not_compared(line, _why_unreadable(change, marks))
    at, aligned = change.new.offset, _aligned(change, line)
    target = TargetRecords(
        next=marks.next.get((change.tp, at)),
        last=marks.last.get((change.tp, at)),
        aligned=marks.next.get((change.tp, aligned)) if aligned is not None else None,
    )
    return compare(line, at=at, bounds=change.bounds, target=target)


def _why_unreadable(change: OffsetChange, marks: Marks) -> str:
    about = ((Resource.TOPIC, change.tp.topic), (Resource.PARTITION, change.tp))
    return "; ".join(str(refusal) for refusal in marks.refused if (refusal.kind, refusal.name) in about)


# Decisions


def add_risks(change: OffsetChange, line: OffsetLine, origin: Origin, verb: Verb) -> OffsetChange:
    """Adds to a planned offset change its risks, and the flags that name them."""
    notes, risks = list(change.notes), []
    has_members = line.group_state is not None and line.group_state not in STATES_WITHOUT_MEMBERS
    if has_members and (verb is Verb.COPY or origin is Origin.OTHER_LOG):
        reason = f"the group is {line.group_state} where the offset comes from: its members go on from there"
        notes.append(Note(Flag.SOURCE_HAS_MEMBERS, reason))
        risks.append(Risk.SOURCE_MEMBERS)
    comparison = change.comparison
    if comparison is not None and (flag := _comparison_flag(comparison)):
        notes.append(Note(flag, comparison.reason))
        if flag is Flag.DIFFERENT_RECORDS:
            risks.append(Risk.DIFFERENT_RECORDS)
        elif flag is Flag.RECORDS_NOT_COMPARED and origin is Origin.OTHER_LOG:
            risks.append(Risk.UNCOMPARED_RECORDS)
    if any(note.flag in _CLAMPED for note in notes) and not _is_clamping_expected(origin, verb):
        risks.append(Risk.CLAMPED_OFFSETS)
    return replace(change, notes=tuple(notes), risks=tuple(risks))


def _comparison_flag(comparison: Comparison) -> Flag | None:
    match comparison.verdict:
        case Verdict.DIFFERENT:
            return Flag.DIFFERENT_RECORDS
        case Verdict.UNKNOWN:
            return Flag.RECORDS_NOT_COMPARED
        case Verdict.SAME:
            is_partial = bool(comparison.reason) and comparison.target is not None
            return Flag.PARTLY_COMPARED if is_partial else None


def _is_clamping_expected(origin: Origin, verb: Verb) -> bool:
    """Whether clamping is no risk: an offset that its own log no longer has cannot go elsewhere, and `reset
    --from-file` does as Kafka's tool does."""
    return origin is Origin.SAME_LOG or (origin is Origin.UNKNOWN_LOG and verb is Verb.RESET)


def unaccepted_risks(change: OffsetChange, accepted: Collection[Risk]) -> tuple[Risk, ...]:
    """Returns the risks of a planned offset change that the operator has not accepted."""
    return tuple(risk for risk in change.risks if risk not in accepted)


def why_withheld(group: GroupPlan, accepted: Collection[Risk]) -> str | None:
    """Explains why the offset changes of a group are withheld as a whole (risks that are not accepted); None if all of
    its risks are."""
    open_risks = {risk: None for change in group.changes for risk in unaccepted_risks(change, accepted)}
    if not open_risks:
        return None
    reasons: dict[str, list[TopicPartition]] = defaultdict(list)
    for change in group.changes:
        for risk in unaccepted_risks(change, accepted):
            if risk is not Risk.SOURCE_MEMBERS:
                reasons[_reason(change, risk)].append(change.tp)
    lines = [f"{format_partitions(partitions)}: {reason}" for reason, partitions in reasons.items()]
    if Risk.SOURCE_MEMBERS in open_risks:
        lines.insert(0, "it has members where its offsets come from, which go on from there: stop them first")
    options = " ".join(risk.option for risk in open_risks)
    why = "; ".join(first_few(lines, limit=_SHOWN))
    return f"nothing of it is changed, since {why}. If that is meant, say {options}"


def _reason(change: OffsetChange, risk: Risk) -> str:
    if risk is Risk.CLAMPED_OFFSETS:
        return next(note.reason for note in change.notes if note.flag in _CLAMPED)
    return change.comparison.reason if change.comparison else ""


def format_uncompared(groups: Iterable[GroupPlan]) -> tuple[str, ...]:
    """Returns a warning, as lines of text, if planned changes have records that were not compared and nothing is
    refused for it."""
    changes = [
        change
        for group in groups
        for change in group.changes
        if any(note.flag is Flag.RECORDS_NOT_COMPARED for note in change.notes)
        and Risk.UNCOMPARED_RECORDS not in change.risks
    ]
    if not changes:
        return ()
    return (
        "the records at these offsets were not compared, as it is not told which cluster and records they come from: "
        "in another cluster the same offset may be another record",
    )
