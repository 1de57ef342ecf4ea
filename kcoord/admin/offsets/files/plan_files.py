"""Plans as files, kcoord.reset-plan/v1: see docs/offsets-files.md."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from kcoord.admin.model import Bounds, Committed, TopicPartition
from kcoord.admin.offsets.files.documents import BadDocument, Fields, document_text, read_document, write_atomically
from kcoord.admin.offsets.plans import (
    Comparison,
    Flag,
    GroupPlan,
    Note,
    OffsetChange,
    Plan,
    RecordTimes,
    Risk,
    Verb,
    Verdict,
)
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.times import utc_text

FORMAT: Final = "reset-plan/v1"


def write_plan(path: Path, plan: Plan, *, overwrites: bool) -> None:
    """Writes a plan of offset changes to a JSON file, kcoord.reset-plan/v1."""
    write_atomically(path, document_text({"kcoord": FORMAT, **plan_document(plan)}), overwrites=overwrites)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Returns the JSON object of a whole plan of offset changes; -o json prints the same."""
    return {
        "verb": plan.verb.value,
        "target": plan.target,
        "cluster_id": plan.cluster_id,
        "made_at": plan.made_at.isoformat(),
        "accepted": [risk.value for risk in plan.accepted],
        "groups": [group_document(group) for group in plan.groups],
    }


def group_document(group: GroupPlan) -> dict[str, Any]:
    """Returns the JSON object of the part of an offset plan that is about one group."""
    return {
        "group": group.group,
        "exists": group.exists,
        "partitions": [change_document(change) for change in group.changes],
    }


def change_document(change: OffsetChange) -> dict[str, Any]:
    """Returns the JSON object of the planned change of one partition's committed offset."""
    return {
        "topic": change.tp.topic,
        "topic_id": change.topic_id,
        "partition": change.tp.partition,
        "old": committed_document(change.old),
        "new": committed_document(change.new),
        "difference": change.difference,
        "effect": change.effect.value,
        "records": change.records,
        "first_record_at": change.times and utc_text(change.times.first),
        "last_record_at": change.times and utc_text(change.times.last),
        "first_timestamp": change.times and change.times.first,
        "last_timestamp": change.times and change.times.last,
        "log_start": change.bounds and change.bounds.start,
        "log_end": change.bounds and change.bounds.end,
        "flags": [{"flag": note.flag.value, "reason": note.reason} for note in change.notes],
        "comparison": _comparison_document(change.comparison),
        "risks": [risk.value for risk in change.risks],
    }


def _comparison_document(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "verdict": comparison.verdict.value,
        "reason": comparison.reason,
        "source_record": mark_document(comparison.source),
        "target_record": mark_document(comparison.target),
    }


def mark_document(mark: RecordMark | None) -> dict[str, Any] | None:
    """Returns the JSON object of a record's mark; None for None."""
    if mark is None:
        return None
    return {
        "offset": mark.offset,
        "timestamp": mark.timestamp,
        "append_time": mark.is_append_time,
        "crc32c": mark.checksum,
    }


def committed_document(committed: Committed | None) -> dict[str, Any] | None:
    """Returns the JSON object of a committed offset; None for None."""
    if committed is None:
        return None
    return {
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def read_plan(path: Path) -> Plan:
    """Reads a plan of offset changes from its JSON file. Raises BadDocument with what is wrong in it, and where."""
    fields = read_document(path, FORMAT)
    plan = Plan(
        verb=_one_of(fields, "verb", {verb.value: verb for verb in Verb}),
        target=fields.text("target"),
        cluster_id=fields.optional_text("cluster_id"),
        made_at=fields.time("made_at"),
        groups=tuple(_group(group) for group in fields.each("groups")),
        accepted=_risks(fields, "accepted"),
    )
    for group in plan.groups:
        for change in group.changes:
            _refuse_unaccepted(change, plan.accepted, f"{path}: group {group.group!r}, {change.tp}")
    if not plan.changes:
        raise BadDocument(f"{path}: this plan changes nothing")
    refuse_duplicates([group.group for group in plan.groups], f"{path}: group")
    return plan


def _group(fields: Fields) -> GroupPlan:
    changes = tuple(_change(each) for each in fields.each("partitions"))
    refuse_duplicates([str(change.tp) for change in changes], f"{fields.where}: partition")
    return GroupPlan(group=group_name(fields), exists=fields.is_true("exists"), changes=changes)


def _change(fields: Fields) -> OffsetChange:
    start, end = fields.optional_number("log_start"), fields.optional_number("log_end")
    first, last = fields.optional_number("first_timestamp"), fields.optional_number("last_timestamp")
    flags = {flag.value: flag for flag in Flag}
    return OffsetChange(
        tp=partition_of(fields),
        topic_id=fields.optional_text("topic_id"),
        old=committed_of(fields.optional_inner("old")),
        new=committed_of(fields.optional_inner("new")),
        bounds=None if start is None or end is None else Bounds(start, end),
        notes=tuple(Note(_one_of(note, "flag", flags), note.text("reason")) for note in fields.each("flags")),
        times=None if first is None or last is None else RecordTimes(first, last),
        comparison=_comparison(fields.optional_inner("comparison")),
        risks=_risks(fields, "risks"),
    )


def _comparison(fields: Fields | None) -> Comparison | None:
    if fields is None:
        return None
    return Comparison(
        verdict=_one_of(fields, "verdict", {verdict.value: verdict for verdict in Verdict}),
        reason=fields.text("reason"),
        source=mark_of(fields.optional_inner("source_record")),
        target=mark_of(fields.optional_inner("target_record")),
    )


def _risks(fields: Fields, name: str) -> tuple[Risk, ...]:
    """Reads a list of risks. Plans of versions before there were risks have none."""
    known = {risk.value: risk for risk in Risk}
    listed = fields.optional_texts(name)
    unknown = [text for text in listed if text not in known]
    if unknown:
        raise BadDocument(f"{fields.where}: {name} {unknown[0]!r} is none of {', '.join(known)}")
    return tuple(known[text] for text in listed)


def _refuse_unaccepted(change: OffsetChange, accepted: tuple[Risk, ...], where: str) -> None:
    for risk in change.risks:
        if risk not in accepted:
            raise BadDocument(f"{where}: the risk {risk.value!r} was not accepted when the plan was made")


def mark_of(fields: Fields | None) -> RecordMark | None:
    """Parses a record's mark from its JSON object; None for None. Raises BadDocument."""
    if fields is None:
        return None
    checksum = fields.optional_text("crc32c")
    if checksum is not None and not re.fullmatch(r"[0-9a-f]{8}", checksum):
        raise BadDocument(f"{fields.where}: {checksum!r} is not a checksum of 8 hexadecimal digits")
    return RecordMark(
        offset=fields.optional_number("offset"),
        timestamp=fields.optional_number("timestamp"),
        is_append_time=fields.is_true("append_time"),
        checksum=checksum,
    )


def group_name(fields: Fields) -> str:
    """Returns the field `group` of a JSON object. Raises BadDocument for an empty name."""
    name = fields.text("group")
    if not name:
        raise BadDocument(f"{fields.where}: the group has no name")
    return name


def partition_of(fields: Fields) -> TopicPartition:
    """Returns the partition that the fields `topic` and `partition` of a JSON object name. Raises BadDocument."""
    topic, partition = fields.text("topic"), fields.number("partition")
    if not topic or not 0 <= partition < 2**31:
        raise BadDocument(f"{fields.where}: {topic!r}, {partition} is not a topic and a partition")
    return TopicPartition(topic, partition)


def committed_of(fields: Fields | None) -> Committed | None:
    """Parses a committed offset from its JSON object; None for None. Raises BadDocument."""
    if fields is None:
        return None
    offset, epoch = fields.number("offset"), fields.number("leader_epoch", -1)
    if offset < 0:
        raise BadDocument(f"{fields.where}: the offset {offset} is negative")
    if not -1 <= epoch < 2**31:
        raise BadDocument(f"{fields.where}: {epoch} is not a leader epoch")
    return Committed(offset, epoch, fields.text("metadata", ""))


Value = TypeVar("Value")


def _one_of(fields: Fields, name: str, known: Mapping[str, Value]) -> Value:
    value = fields.text(name)
    if value not in known:
        raise BadDocument(f"{fields.where}: {name} {value!r} is none of {', '.join(known)}")
    return known[value]


def refuse_duplicates(names: list[str], what: str) -> None:
    """Raises BadDocument if a name (of a group or a partition) is in a file twice. `what` is for the error message."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadDocument(f"{what} {name!r} is in it twice")
        seen.add(name)
