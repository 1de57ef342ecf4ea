"""`kcoord groups delete`: deletes groups that have no members."""

import sys
from collections import defaultdict
from datetime import UTC, datetime
from shlex import quote
from typing import Any

import click

from kcoord.admin.groups.deleting import Deleted, Deletion, DeletionPlan, Status, delete, plan_deletion
from kcoord.admin.groups.selection import select_groups

from ..interrupting import StepCounts, format_interruption
from ..offsets.options import ApplyOptions, execute_options, offsets_connection
from ..offsets.plan import UNDO_FILE_REMOVED, report_undo_file
from ..opening import open_cluster
from ..options.connection_options import connection_options, format_cluster_options
from ..output.output import Cell, Column, Table, echo_err, output_options, show
from .choice import GroupSelection, group_options
from .documents import group_fields, refusal_documents
from .snapshots import exit_if_refused
from .tables import state_cell


@click.command("delete", short_help="Delete groups that have no members.")
@group_options
@execute_options
@connection_options
@output_options
@click.pass_context
def delete_groups(ctx: click.Context, choice: GroupSelection, apply_options: ApplyOptions) -> None:
    """Delete groups and all that they have committed. Groups that have members are left alone.

    \b
    kcoord groups delete old-report
    kcoord groups delete --regex '^test-' --execute

    Before anything is deleted an undo file is written, if there are offsets, from which kcoord offsets undo brings them
    back.
    """
    with open_cluster(offsets_connection(ctx)) as cluster:
        names, unlisted = select_groups(
            cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything
        )
        plan = plan_deletion(cluster, names)
        refused = (*unlisted, *plan.refused)
        if not apply_options.executes or not plan.deletions:
            _show_plan(ctx, plan)
            exit_if_refused(refused)
            sys.exit(1 if any(deletion.why_not for deletion in plan.deletions) else 0)
        deleted = delete(
            cluster,
            plan,
            undo=apply_options.undo,
            now=datetime.now(UTC),
            on_undo_written=report_undo_file,
            stop=apply_options.interrupts,
        )
    _show_outcome(ctx, plan, deleted)
    if apply_options.interrupts.exit_code is not None:
        sys.exit(apply_options.interrupts.exit_code)
    exit_if_refused(refused)
    sys.exit(1 if deleted.failed else 0)


def _show_plan(ctx: click.Context, plan: DeletionPlan) -> None:
    show(
        ctx,
        "groups-delete",
        lambda: {
            "executed": False,
            "groups": [{**_document(each), "against": each.why_not} for each in plan.deletions],
            "refused": refusal_documents(plan.refused),
        },
        lambda: [_table([(each, _against(each)) for each in plan.deletions])],
    )
    echo_err("Nothing was changed: add --execute to do it." if plan.deletions else "Nothing to delete.")


def _against(deletion: Deletion) -> Cell:
    return Cell(deletion.why_not, "red") if deletion.why_not else Cell("will be deleted")


def _show_outcome(ctx: click.Context, plan: DeletionPlan, deleted: Deleted) -> None:
    def outcome(deletion: Deletion) -> Cell:
        status, why = deleted.outcomes[deletion.group.name]
        return Cell("deleted", "green") if status is Status.DELETED else Cell(f"{status}: {why}", "red")

    def document(deletion: Deletion) -> dict[str, Any]:
        status, why = deleted.outcomes[deletion.group.name]
        return {**_document(deletion), "result": status.value, "against": why or None}

    try:
        show(
            ctx,
            "groups-delete",
            lambda: {
                "executed": True,
                "groups": [document(each) for each in plan.deletions],
                "undo": deleted.undo_path and str(deleted.undo_path),
                "refused": refusal_documents(plan.refused),
            },
            lambda: [_table([(each, outcome(each)) for each in plan.deletions])],
        )
    finally:  # the groups are deleted, even if stdout cannot be written
        _report_outcome(deleted, format_cluster_options(ctx))


def _report_outcome(deleted: Deleted, options: str) -> None:
    for line in _outcome_lines(deleted):
        echo_err(line)
    if deleted.has_removed_undo:
        echo_err(UNDO_FILE_REMOVED)
    if deleted.undo_path is not None:
        echo_err(f"To bring the offsets back: kcoord offsets undo {quote(str(deleted.undo_path))} --execute{options}")


def _outcome_lines(deleted: Deleted) -> list[str]:
    if not deleted.was_stopped:
        return [f"{len(deleted.outcomes) - len(deleted.failed):,} of {len(deleted.outcomes):,} deleted."]
    names: dict[Status, list[str]] = defaultdict(list)
    for name, outcome in deleted.outcomes.items():
        names[outcome.status].append(name)
    tally = StepCounts(
        done=len(names[Status.DELETED]),
        refused=len(names[Status.NOT_DELETED]),
        untried=len(names[Status.NOT_TRIED]),
        uncertain=names[Status.UNKNOWN],
    )
    return format_interruption(tally, noun="group", verb="deleted")


def _table(rows: list[tuple[Deletion, Cell]]) -> Table:
    columns = (
        Column("GROUP"),
        Column("STATE"),
        Column("TYPE"),
        Column("MEMBERS", align="right"),
        Column("TOPICS", align="right"),
        Column("OFFSETS", align="right"),
        Column("OUTCOME"),
    )
    return Table(
        columns=columns,
        rows=[
            (
                each.group.name,
                state_cell(each.group.state),
                each.group.type.value,
                len(each.group.members),
                len(each.topics),
                len(each.committed),
                outcome,
            )
            for each, outcome in rows
        ],
    )


def _document(deletion: Deletion) -> dict[str, Any]:
    return {
        **group_fields(deletion.group),
        "members": len(deletion.group.members),
        "topics": deletion.topics,
        "offsets": len(deletion.committed),
    }
