"""What changing verbs of `kcoord offsets` do with a plan: show it, save it, do it if told to, tell what came of it."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click

from kcoord.admin.durations import say_duration
from kcoord.admin.live import LiveCluster
from kcoord.admin.model import Refusal
from kcoord.admin.offsets.applying import Applied, Fate, Outcome, apply
from kcoord.admin.offsets.checking import WorldChanged
from kcoord.admin.offsets.plan_files import change_document, committed_document, plan_document, write_plan
from kcoord.admin.offsets.planning import Planned
from kcoord.admin.offsets.plans import Change, Effect, Plan
from kcoord.admin.saying import say_count

from .connection_options import as_given
from .offsets_options import Doing
from .output import Cell, Column, Table, output_of, show, talk


def show_and_do(
    ctx: click.Context,
    cluster: LiveCluster,
    planned: Planned,
    doing: Doing,
    *,
    unlisted: Iterable[Refusal] = (),
    where: str | None = None,
) -> None:
    """Ends the command with exit code 1 if something was refused or failed. `unlisted` is what was refused before.

    `where` are the options that name the cluster, if they are not those of this command.
    """
    planned = replace(planned, refused=(*map(str, unlisted), *planned.refused))
    plan = planned.plan
    for line in planned.refused:
        talk(f"kcoord: {line}")
    if not plan.changes:
        if not output_of(ctx).is_for_people:
            show(ctx, "offsets-plan", _plan_document(planned), [plan_table(plan)])
        talk("Nothing to change." if not planned.refused else "Nothing was changed.")
        sys.exit(1 if planned.refused else 0)
    if doing.plan_path is not None:
        write_plan(doing.plan_path, plan, overwrites=doing.overwrites_plan)
    has_failed = do(ctx, cluster, plan, doing, where=where) if doing.executes else _only_show(ctx, planned, doing)
    if has_failed or planned.refused:
        sys.exit(1)


def _only_show(ctx: click.Context, planned: Planned, doing: Doing) -> bool:
    plan = planned.plan
    show(ctx, "offsets-plan", lambda: _plan_document(planned), lambda: [plan_table(plan)])
    talk(_summary(plan))
    if doing.plan_path is None:
        talk("Nothing was changed: add --execute to do it.")
    else:
        talk(f"Nothing was changed: kcoord offsets apply {quote(str(doing.plan_path))} --execute does it.")
    return False


def _plan_document(planned: Planned) -> dict[str, Any]:
    return {**plan_document(planned.plan), "refused": list(planned.refused)}


def do(ctx: click.Context, cluster: LiveCluster, plan: Plan, doing: Doing, *, where: str | None = None) -> bool:
    """Apply the plan and show the outcome; True if any of it failed."""
    try:
        applied = apply(cluster, plan, undo=doing.undo, now=datetime.now(UTC), wrote=tell_undo_file)
    except WorldChanged as changed:
        tell_differences(changed)
        raise
    show(ctx, "offsets-applied", lambda: _applied_document(plan, applied), lambda: [_applied_table(applied)])
    for outcome in _first_of_each_reason(applied.failed):
        talk(f"kcoord: group {outcome.group!r}, {outcome.change.tp}: {outcome.reason}")
    done = len(applied.outcomes) - len(applied.failed)
    of_all = f" of {len(applied.outcomes):,}" if applied.failed else ""
    talk(f"{done:,}{of_all} {'partition was' if done == 1 else 'partitions were'} changed.")
    if applied.undo_path is None:
        talk(UNDO_FILE_REMOVED)
    else:
        options = as_given(ctx) if where is None else where
        talk(f"To take it back: kcoord offsets undo {quote(str(applied.undo_path))} --execute{options}")
    return bool(applied.failed)


def tell_differences(changed: WorldChanged) -> None:
    """A line for each; a single one is in the error itself."""
    if len(changed.differences) > 1:
        for line in changed.differences:
            talk(f"kcoord: {line}")


UNDO_FILE_REMOVED: Final = "The undo file was removed: nothing was changed."


def tell_undo_file(path: Path) -> None:
    """Before anything is changed: whatever ends the command then, it is known where the file is."""
    talk(f"The undo file is {quote(str(path))}.")


def _first_of_each_reason(failed: Iterable[Outcome]) -> Iterable[Outcome]:
    """A thousand partitions of one group that are refused for one reason are one line; the table has them all."""
    return {(outcome.group, outcome.reason): outcome for outcome in reversed(list(failed))}.values()


# Tables

_FIRST_COLUMNS = [
    Column("GROUP"),
    Column("TOPIC"),
    Column("PARTITION", align="right"),
    Column("OLD", align="right"),
    Column("NEW", align="right"),
]


def plan_table(plan: Plan) -> Table:
    columns = [
        *_FIRST_COLUMNS,
        Column("DIFFERENCE", align="right", spare=True),  # OLD and NEW say it
        Column("EFFECT"),
        Column("FLAGS"),
        Column("REASON", wide=True),
        Column("LOG-START", wide=True),
        Column("LOG-END", wide=True),
    ]
    rows = [
        (
            *_first_cells(group.group, change),
            _difference(change),
            say_effect(change, exists=group.exists),
            _flags(change),
            _reasons(change),
            change.bounds and change.bounds.start,
            change.bounds and change.bounds.end,
        )
        for group in plan.groups
        for change in group.changes
    ]
    return Table(columns=columns, rows=rows)


def _first_cells(group: str, change: Change) -> tuple[str, str, int, int | None, int | None]:
    old = change.old.offset if change.old else None
    new = change.new.offset if change.new else None
    return group, change.tp.topic, change.tp.partition, old, new


def _difference(change: Change) -> Cell | None:
    return None if change.difference is None else Cell(f"{change.difference:+d}", raw=change.difference)


def say_effect(change: Change, *, exists: bool = True) -> str:
    """`replays 1,200 records, 3h 12m`."""
    if change.new is None:
        return "forgets the offset"
    if change.old is None:
        lag = f", lag {max(change.bounds.end - change.new.offset, 0):,}" if change.bounds else ""
        return f"{'first commit' if exists else 'creates the group'}{lag}"
    if change.effect is Effect.NOTHING:
        return "stays" if change.old.offset == change.new.offset else "moves over no records"
    span = f", {say_duration((change.times.last - change.times.first) / 1000)}" if change.times else ""
    return f"{change.effect} {say_count(change.records, 'record')}{span}"


def _summary(plan: Plan) -> str:
    changes = [change for group in plan.groups for change in group.changes]
    parts = [f"{say_count(len(plan.groups), 'group')}, {say_count(len(changes), 'partition')}"]
    for effect in (Effect.REPLAYS, Effect.SKIPS):
        records = sum(change.records for change in changes if change.effect is effect)
        if records:
            parts.append(f"{effect} {say_count(records, 'record')}")
    flagged = [change for change in changes if change.notes]
    if flagged:
        parts.append(f"{len(flagged):,} flagged (-o wide says why)")
    return "; ".join(parts) + "."


def _applied_table(applied: Applied) -> Table:
    columns = [
        *_FIRST_COLUMNS,
        Column("NOW", align="right"),
        Column("RESULT"),
        Column("EFFECT"),
        Column("FLAGS"),
        Column("REASON", wide=not applied.failed),
    ]
    rows = [
        (
            *_first_cells(outcome.group, outcome.change),
            (outcome.now and outcome.now.offset) if outcome.was_read else "?",
            Cell(outcome.fate.value, style="green" if outcome.fate is Fate.DONE else "bold red"),
            say_effect(outcome.change) if outcome.fate is Fate.DONE else "",
            _flags(outcome.change),
            outcome.reason or _reasons(outcome.change),
        )
        for outcome in applied.outcomes
    ]
    return Table(columns=columns, rows=rows)


def _flags(change: Change) -> Cell:
    return Cell(", ".join(note.flag for note in change.notes), style="yellow")


def _reasons(change: Change) -> str:
    return "; ".join(note.reason for note in change.notes)


def _applied_document(plan: Plan, applied: Applied) -> dict[str, Any]:
    return {
        "verb": plan.verb.value,
        "target": plan.target,
        "cluster_id": plan.cluster_id,
        "undo": applied.undo_path and str(applied.undo_path),
        "partitions": [
            {
                "group": outcome.group,
                **change_document(outcome.change),
                "now": committed_document(outcome.now),
                "result": outcome.fate.value,
                "reason": outcome.reason,
            }
            for outcome in applied.outcomes
        ],
    }
