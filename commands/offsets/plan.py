"""Common steps of verbs that change offsets: preview, save or apply a plan, and report the outcome."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import format_count
from kcoord.admin.model import Refusal
from kcoord.admin.offsets.applying import Applied, Outcome, Status, apply
from kcoord.admin.offsets.checking import StalePlan
from kcoord.admin.offsets.files.plan_files import (
    change_document,
    committed_document,
    group_document,
    plan_document,
    write_plan,
)
from kcoord.admin.offsets.planning import Planned
from kcoord.admin.offsets.plans import Effect, GroupPlan, Plan

from ..interrupting import StepCounts, format_interruption
from ..options.connection_options import format_cluster_options
from ..output.output import echo_err, output_of, show
from .options import ApplyOptions
from .plan_tables import applied_table, plan_table, stays, why_withheld


def preview_or_apply(
    ctx: click.Context,
    cluster: ClusterClient,
    planned: Planned,
    apply_options: ApplyOptions,
    *,
    unlisted: Iterable[Refusal] = (),
    where: str | None = None,
) -> None:
    """Applies a plan of offset changes with --execute, or shows it without. Exits with code 1 if anything was refused
    or failed.

    `unlisted` are errors from selecting groups. `where` are the options that name the cluster, if they are not those of
    this command.
    """
    planned = replace(planned, refused=(*map(str, unlisted), *planned.refused))
    plan = planned.plan
    for line in (*planned.refused, *planned.warnings):
        echo_err(f"kcoord: {line}")
    if not plan.changes:
        if planned.withheld or not output_of(ctx).is_for_people:
            show(ctx, "offsets-plan", _plan_document(planned), [plan_table(plan, planned.withheld)])
        echo_err(_format_no_changes(planned, apply_options))
        sys.exit(1 if planned.refused else 0)
    if apply_options.plan_path is not None:
        write_plan(apply_options.plan_path, plan, overwrites=apply_options.overwrites_plan)
    if apply_options.executes:
        has_failed = apply_and_report(ctx, cluster, plan, apply_options, where=where, withheld=planned.withheld)
    else:
        has_failed = _preview(ctx, planned, apply_options, format_cluster_options(ctx) if where is None else where)
    if has_failed or planned.refused:
        sys.exit(1)


def _format_no_changes(planned: Planned, apply_options: ApplyOptions) -> str:
    if not planned.refused:
        return "Nothing to change."
    return "Nothing was changed." if apply_options.plan_path is None else "Nothing was changed, and no plan was saved."


def _preview(ctx: click.Context, planned: Planned, apply_options: ApplyOptions, options: str) -> bool:
    plan = planned.plan
    show(ctx, "offsets-plan", lambda: _plan_document(planned), lambda: [plan_table(plan, planned.withheld)])
    echo_err(_summary(plan, planned.withheld))
    if apply_options.plan_path is None:
        echo_err("Nothing was changed: add --execute to do it.")
    else:
        path = quote(str(apply_options.plan_path))
        echo_err(f"Nothing was changed: kcoord offsets apply {path} --execute{options} does it.")
    return False


def _plan_document(planned: Planned) -> dict[str, Any]:
    return {
        **plan_document(planned.plan),
        "refused": list(planned.refused),
        "refused_groups": [group_document(group) for group in planned.withheld],
    }


def apply_and_report(
    ctx: click.Context,
    cluster: ClusterClient,
    plan: Plan,
    apply_options: ApplyOptions,
    *,
    where: str | None = None,
    withheld: Sequence[GroupPlan] = (),
) -> bool:
    """Applies a plan of offset changes and shows the outcome of each partition; returns True if any of it failed.
    Withheld groups are shown as refused."""
    try:
        applied = apply(
            cluster,
            plan,
            undo=apply_options.undo,
            now=datetime.now(UTC),
            on_undo_written=report_undo_file,
            stop=apply_options.interrupts,
        )
    except StalePlan as changed:
        report_differences(changed)
        raise
    tried = applied.failed
    applied = replace(applied, outcomes=(*applied.outcomes, *_withheld_outcomes(withheld, plan)))
    try:
        show(ctx, "offsets-applied", lambda: _applied_document(plan, applied), lambda: [applied_table(applied)])
    finally:  # the changes are made, even if stdout cannot be written
        _report_outcome(applied, tried, format_cluster_options(ctx) if where is None else where)
    if apply_options.interrupts.exit_code is not None:
        sys.exit(apply_options.interrupts.exit_code)
    return bool(applied.failed)


def _report_outcome(applied: Applied, failed: Iterable[Outcome], options: str) -> None:
    """Reports on stderr which attempts failed, how much was changed, and how to undo it."""
    for outcome in _first_of_each_reason(failed):
        echo_err(f"kcoord: group {outcome.group!r}, {outcome.change.tp}: {outcome.reason}")
    for line in _outcome_lines(applied):
        echo_err(line)
    if applied.undo_path is None:
        echo_err(UNDO_FILE_REMOVED)
    else:
        echo_err(f"To take it back: kcoord offsets undo {quote(str(applied.undo_path))} --execute{options}")


def _withheld_outcomes(withheld: Iterable[GroupPlan], plan: Plan) -> Iterable[Outcome]:
    """Yields outcomes of withheld groups, which were not attempted: their offsets are those that the plan read."""
    for group in withheld:
        for change in group.changes:
            reason = why_withheld(change, plan.accepted)
            yield Outcome(group=group.group, change=change, status=Status.REFUSED, now=change.old, reason=reason)


def _outcome_lines(applied: Applied) -> list[str]:
    if applied.was_stopped:
        return format_interruption(_tally(applied), noun="group", verb="changed")
    staying = [each for each in applied.outcomes if each.status is Status.DONE and stays(each.change)]
    changed = len(applied.outcomes) - len(applied.failed) - len(staying)
    of_all = f" of {len(applied.outcomes):,}" if applied.failed else ""
    rest = f", {len(staying):,} {'stays where it was' if len(staying) == 1 else 'stay where they were'}"
    noun = "partition" if len(applied.outcomes) == 1 or (changed == 1 and not of_all) else "partitions"
    return [f"{changed:,}{of_all} {noun} {'was' if changed == 1 else 'were'} changed{rest if staying else ''}."]


def _tally(applied: Applied) -> StepCounts:
    """Counts groups by the worst outcome of their partitions. A group is changed in part if some of its partitions
    were changed."""
    statuses_by_group: dict[str, set[Status]] = defaultdict(set)
    for outcome in applied.outcomes:
        statuses_by_group[outcome.group].add(outcome.status)
    uncertain = [group for group, statuses in statuses_by_group.items() if Status.UNKNOWN in statuses]
    done = [group for group, statuses in statuses_by_group.items() if statuses == {Status.DONE}]
    untried = [group for group, statuses in statuses_by_group.items() if statuses == {Status.NOT_TRIED}]
    written = {Status.DONE, Status.OVERWRITTEN}
    in_part = [
        group
        for group, statuses in statuses_by_group.items()
        if statuses & written and group not in {*uncertain, *done}
    ]
    refused = len(statuses_by_group) - len(uncertain) - len(done) - len(untried) - len(in_part)
    return StepCounts(done=len(done), in_part=len(in_part), refused=refused, untried=len(untried), uncertain=uncertain)


def report_differences(changed: StalePlan) -> None:
    """Prints how the cluster differs from a plan, each difference on a line, unless there is only one, which the error
    itself names."""
    if len(changed.differences) > 1:
        for line in changed.differences:
            echo_err(f"kcoord: {line}")


UNDO_FILE_REMOVED: Final = "The undo file was removed: nothing was changed."


def report_undo_file(path: Path) -> None:
    """Prints the path of the undo file. This happens before the first change, so that the file is known however the
    command ends."""
    echo_err(f"The undo file is {quote(str(path))}.")


def _first_of_each_reason(failed: Iterable[Outcome]) -> Iterable[Outcome]:
    """Returns one outcome for each group and reason: a thousand partitions may fail for one reason. The table has
    all."""
    tried = [outcome for outcome in failed if outcome.status is not Status.NOT_TRIED]
    return {(outcome.group, outcome.reason): outcome for outcome in reversed(tried)}.values()


def _summary(plan: Plan, withheld: Sequence[GroupPlan]) -> str:
    changes = [change for group in plan.groups for change in group.changes]
    parts = [f"{format_count(len(plan.groups), 'group')}, {format_count(len(changes), 'partition')}"]
    for effect in (Effect.REPLAYS, Effect.SKIPS):
        records = sum(change.records for change in changes if change.effect is effect)
        if records:
            parts.append(f"{effect} {format_count(records, 'record')}")
    staying = [change for change in changes if stays(change)]
    if staying:
        parts.append(f"{format_count(len(staying), 'partition')} {'stays' if len(staying) == 1 else 'stay'}")
    flagged = [change for change in changes if change.notes]
    if flagged:
        parts.append(f"{len(flagged):,} flagged (-o wide says why)")
    if withheld:
        parts.append(f"{format_count(len(withheld), 'group')} refused")
    return "; ".join(parts) + "."


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
                "result": outcome.status.value,
                "reason": outcome.reason,
            }
            for outcome in applied.outcomes
        ],
    }
