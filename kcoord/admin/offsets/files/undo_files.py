"""Undo files, kcoord.offsets-undo/v1: the committed offsets before and after a change, and the plan that restores them.

See docs/offsets-files.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import first_few
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.offsets.checking import format_committed
from kcoord.admin.offsets.cluster_state import CurrentGroup, CurrentLogs, read_groups, read_logs, why_unchangeable
from kcoord.admin.offsets.files.documents import BadDocument, Fields, document_text, read_document, write_atomically
from kcoord.admin.offsets.files.plan_files import (
    committed_document,
    committed_of,
    group_name,
    partition_of,
    refuse_duplicates,
)
from kcoord.admin.offsets.planning import Planned, with_record_times
from kcoord.admin.offsets.plans import Flag, GroupPlan, Note, OffsetChange, Plan, Verb
from kcoord.admin.offsets.resetting import CannotReset, out_of_range_notes

FORMAT: Final = "offsets-undo/v1"
_MAX_FILES_PER_SECOND: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """The change of one partition's committed offset, as an undo file has it; None means nothing committed."""

    tp: TopicPartition
    topic_id: str | None
    before: Committed | None
    after: Committed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The content of an undo file: the changes of committed offsets, by group. `operation` names what made them: "reset
    to-earliest"."""

    operation: str
    cluster_id: str | None
    made_at: datetime
    groups: tuple[tuple[str, tuple[UndoStep, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoDestination:
    """Where an undo file is written: to this path, or to a generated name in this folder."""

    path: Path | None = None
    folder: Path = Path()


def undo_of(plan: Plan, *, made_at: datetime) -> Undo:
    """Returns the undo file's content for a plan of offset changes."""
    return Undo(
        operation=f"{plan.verb} {plan.target}".strip(),
        cluster_id=plan.cluster_id,
        made_at=made_at,
        groups=tuple(
            (
                group.group,
                tuple(
                    UndoStep(tp=each.tp, topic_id=each.topic_id, before=each.old, after=each.new)
                    for each in group.changes
                ),
            )
            for group in plan.groups
        ),
    )


# Files


def write_undo(undo: Undo, destination: UndoDestination) -> Path:
    """Writes an undo file and returns its path, before anything is changed; it never replaces another file."""
    document = {
        "kcoord": FORMAT,
        "of": undo.operation,
        "cluster_id": undo.cluster_id,
        "made_at": undo.made_at.isoformat(),
        "groups": [
            {
                "group": group,
                "partitions": [
                    {
                        "topic": step.tp.topic,
                        "topic_id": step.topic_id,
                        "partition": step.tp.partition,
                        "before": committed_document(step.before),
                        "after": committed_document(step.after),
                    }
                    for step in steps
                ],
            }
            for group, steps in undo.groups
        ],
    }
    text = document_text(document)
    if destination.path is not None:
        write_atomically(destination.path, text, overwrites=False, advice="take another name")
        return destination.path
    for name in undo_names(undo):
        try:
            write_atomically(destination.folder / name, text, overwrites=False)
        except FileExistsError:
            continue
        return destination.folder / name
    raise FileExistsError(f"{destination.folder} has too many undo files of this second: name one with --undo")


def undo_names(undo: Undo) -> Iterator[str]:
    """Yields names for an undo file: kcoord-undo-<group>-<time>.json, then names with a number for when that exists.
    Any group name makes a safe file name."""
    groups = [group for group, _ in undo.groups]
    who = re.sub(r"[^A-Za-z0-9._-]", "_", groups[0])[:80] if len(groups) == 1 else f"{len(groups)}-groups"
    stem = f"kcoord-undo-{who}-{undo.made_at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    yield f"{stem}.json"
    yield from (f"{stem}-{number}.json" for number in range(2, _MAX_FILES_PER_SECOND))


def read_undo(path: Path) -> Undo:
    """Reads an undo file. Raises BadDocument."""
    fields = read_document(path, FORMAT)
    groups = tuple((group_name(group), _steps(group)) for group in fields.each("groups"))
    if not any(steps for _, steps in groups):
        raise BadDocument(f"{path}: there is nothing in it to undo")
    refuse_duplicates([group for group, _ in groups], f"{path}: group")
    return Undo(
        operation=fields.text("of"),
        cluster_id=fields.optional_text("cluster_id"),
        made_at=fields.time("made_at"),
        groups=groups,
    )


def _steps(group: Fields) -> tuple[UndoStep, ...]:
    steps = tuple(
        UndoStep(
            tp=partition_of(each),
            topic_id=each.optional_text("topic_id"),
            before=committed_of(each.optional_inner("before")),
            after=committed_of(each.optional_inner("after")),
        )
        for each in group.each("partitions")
    )
    refuse_duplicates([str(step.tp) for step in steps], f"{group.where}: partition")
    return steps


# Planning


def plan_undo(cluster: ClusterClient, undo: Undo, *, name: str, now: datetime, forced: bool = False) -> Planned:
    """Plans to restore exactly the offsets that were committed before a change. Unless it is forced, it requires that
    the offsets are still those that the change left.

    Partitions that the cluster no longer has, or that have no leader, are left out and reported as refused.
    """
    if undo.cluster_id != cluster.cluster_id() and not forced:
        raise CannotReset(f"{name} is of the cluster {undo.cluster_id!r}, and this is {cluster.cluster_id()!r}")
    groups = read_groups(cluster, [group for group, _ in undo.groups])
    logs = read_logs(cluster, (step.tp for _, steps in undo.groups for step in steps))
    refused = [str(refusal) for refusal in groups.refused]
    made = []
    for group, steps in undo.groups:
        if group not in groups.found:
            continue
        unrestorable = {step.tp: why for step in steps if (why := _why_unrestorable(step, groups.found[group], logs))}
        refused += [f"group {group!r}, {tp}: {why}" for tp, why in unrestorable.items()]
        try:
            left = tuple(step for step in steps if step.tp not in unrestorable)
            changes = _changes(groups.found[group], left, logs, forced=forced)
        except CannotReset as error:
            refused.append(f"group {group!r}: {error}")
            continue
        if changes:
            made.append(GroupPlan(group=group, exists=groups.found[group].group is not None, changes=changes))
    plan = Plan(
        verb=Verb.UNDO,
        target=name,
        cluster_id=cluster.cluster_id(),
        made_at=now,
        groups=with_record_times(cluster, made),
    )
    return Planned(plan=plan, refused=tuple(refused))


def _why_unrestorable(step: UndoStep, now: CurrentGroup, logs: CurrentLogs) -> str | None:
    """Returns why an offset cannot be restored, whatever else holds; None if it can. Deleting one needs no log."""
    if step.before is None or step.tp in logs.bounds or now.committed.get(step.tp) == step.before:
        return None
    topic = logs.topics.get(step.tp.topic)
    if topic is None:
        return "left out, the cluster does not show this topic"
    if step.tp.partition not in topic.leaders:
        return "left out, the topic does not have this partition"
    return "left out, the log cannot be asked where it begins and ends"


def _changes(
    now: CurrentGroup, steps: tuple[UndoStep, ...], logs: CurrentLogs, *, forced: bool
) -> tuple[OffsetChange, ...]:
    """Returns the changes of one group. Partitions that are as before need none: after a partial change, that part is
    undone."""
    if why_not := why_unchangeable(now):
        raise CannotReset(why_not)
    pending = [step for step in steps if now.committed.get(step.tp) != step.before]
    against = [f"{step.tp}: {why}" for step in pending if (why := _conflict(step, now, logs))]
    if against and not forced:
        raise CannotReset(f"{'; '.join(first_few(against))}: to undo it nevertheless, say --force")
    return tuple(_undo_change(step, now, logs) for step in pending)


def _conflict(step: UndoStep, now: CurrentGroup, logs: CurrentLogs) -> str | None:
    committed = now.committed.get(step.tp)
    if committed != step.after:
        return f"the undo file expects {format_committed(step.after)}, and now there is {format_committed(committed)}"
    if step.before is not None and _is_recreated_topic(step, logs):
        return f"the topic was made anew: its id was {step.topic_id} and is {logs.topic_id(step.tp.topic)}"
    return None


def _is_recreated_topic(step: UndoStep, logs: CurrentLogs) -> bool:
    topic_id = logs.topic_id(step.tp.topic)
    return step.topic_id is not None and topic_id is not None and topic_id != step.topic_id


def _undo_change(step: UndoStep, now: CurrentGroup, logs: CurrentLogs) -> OffsetChange:
    """Restores one offset. A leader epoch of one log is not valid in another of the same name, and is dropped."""
    bounds = logs.bounds.get(step.tp)
    before = step.before
    if before is not None and _is_recreated_topic(step, logs):
        before = before._replace(leader_epoch=-1)
    notes = out_of_range_notes(before, bounds) if before is not None and bounds is not None else ()
    if why := _conflict(step, now, logs):
        notes = (Note(Flag.CHANGED_SINCE, why), *notes)
    return OffsetChange(
        tp=step.tp,
        topic_id=logs.topic_id(step.tp.topic),
        old=now.committed.get(step.tp),
        new=before,
        bounds=bounds,
        notes=notes,
    )
