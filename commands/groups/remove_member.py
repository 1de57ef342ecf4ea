"""`kcoord groups remove-member`: removes members from a group."""

import sys
from collections.abc import Collection, Mapping
from shlex import quote

import click

from kcoord.admin.cluster_client import ClusterClient
from kcoord.admin.formatting import format_member
from kcoord.admin.groups.removing import NotAMember, Removed, chosen_members, member_to_remove, remove
from kcoord.admin.model import Group, Member, MemberToRemove
from kcoord.errors import ErrorCode

from ..completion.completing import complete_groups
from ..interrupting import Interrupts, StepCounts, format_interruption
from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..output.output import Cell, Column, Table, echo_err, output_options, show
from .documents import member_document, refusal_documents
from .snapshots import exit_if_refused
from .tables import members_table


@click.command("remove-member", short_help="Remove members from a group.")
@click.argument("group_name", metavar="GROUP", shell_complete=complete_groups)
@click.option("--member-id", "member_ids", multiple=True, metavar="ID", help="A member by its id. May be repeated.")
@click.option("--instance-id", "instance_ids", multiple=True, metavar="ID", help="A static member by its instance id.")
@click.option("--all-members", "everyone", is_flag=True, help="All members.")
@click.option("--reason", default="removed by an operator with kcoord", show_default=True, help="For the broker's log.")
@click.option("--execute", is_flag=True, help="Do it. Without this the plan is shown and nothing happens.")
@connection_options
@output_options
@click.pass_context
def remove_member(
    ctx: click.Context,
    group_name: str,
    member_ids: tuple[str, ...],
    instance_ids: tuple[str, ...],
    everyone: bool,
    reason: str,
    execute: bool,
) -> None:
    """Remove members from a group, so that their partitions go to others at once.

    \b
    kcoord groups remove-member payments --instance-id worker-3
    kcoord groups remove-member payments --instance-id worker-3 --execute
    kcoord groups remove-member payments --all-members --execute

    A member that still runs learns of it with its next heartbeat and joins again: stop it first. This is for those that
    are gone but still hold partitions, static ones above all. It cannot be undone.
    """
    if not (member_ids or instance_ids or everyone):
        raise click.UsageError("say which: --member-id, --instance-id or --all-members")
    with Interrupts() as interrupts, open_cluster(connection(ctx)) as cluster:
        described = cluster.describe_groups([group_name])
        exit_if_refused(described.refused)
        group = described.found[group_name]
        try:
            members = chosen_members(group, member_ids=member_ids, instance_ids=instance_ids, everyone=everyone)
        except NotAMember as error:
            raise click.ClickException(str(error)) from None
        if execute:
            _remove(ctx, cluster, group, members, reason, interrupts)
        else:
            _show_plan(ctx, group, members)


def _show_plan(ctx: click.Context, group: Group, members: Collection[Member]) -> None:
    show(
        ctx,
        "groups-remove-member",
        lambda: {"group": group.name, "executed": False, "members": [member_document(member) for member in members]},
        lambda: [members_table(members)],
    )
    echo_err("Nothing was changed: add --execute to do it.")


def _remove(
    ctx: click.Context,
    cluster: ClusterClient,
    group: Group,
    members: Collection[Member],
    reason: str,
    interrupts: Interrupts,
) -> None:
    going = {member_to_remove(member): member for member in members}
    removed = remove(cluster, group.name, list(going), reason=reason, stop=interrupts)
    try:
        show(
            ctx,
            "groups-remove-member",
            lambda: {
                "group": group.name,
                "executed": True,
                "members": [
                    {**member_document(member), "error": _error(each, removed)} for each, member in going.items()
                ],
                "refused": refusal_documents(removed.refused),
            },
            lambda: [_outcome_table(going, removed)],
        )
    except OSError:  # the members are removed, even if stdout cannot be written
        echo_err(f"{sum(_error(each, removed) is None for each in going):,} of {len(going):,} removed.")
        raise
    if removed.was_stopped:
        _report_interruption(group, going, removed)
        sys.exit(interrupts.exit_code)
    exit_if_refused(removed.refused)


def _report_interruption(group: Group, going: Mapping[MemberToRemove, Member], removed: Removed) -> None:
    done = [each for each, error in removed.errors.items() if error is ErrorCode.none]
    uncertain = [format_member(going[each]) for each in removed.begun if each not in removed.errors]
    tally = StepCounts(
        done=len(done),
        refused=len(removed.errors) - len(done),
        untried=len(going) - len(removed.begun),
        uncertain=uncertain,
    )
    for line in format_interruption(tally, noun="member", verb="removed"):
        echo_err(line)
    echo_err(f"Who is a member now: kcoord groups describe {quote(group.name)} --members. Removing cannot be undone.")


def _outcome_table(going: Mapping[MemberToRemove, Member], removed: Removed) -> Table:
    columns = (Column("CLIENT-ID"), Column("HOST"), Column("MEMBER-ID"), Column("INSTANCE-ID"), Column("OUTCOME"))
    rows = [
        (member.client_id, member.host, member.member_id, member.instance_id, _outcome(_error(each, removed)))
        for each, member in going.items()
    ]
    return Table(columns=columns, rows=rows)


def _outcome(error: str | None) -> Cell:
    return Cell("removed", "green") if error is None else Cell(error, "red")


def _error(member: MemberToRemove, removed: Removed) -> str | None:
    """Returns the error by which a member was not removed, UNKNOWN or NOT_TRIED if it has no answer, None if it was
    removed."""
    if member not in removed.errors:
        return "UNKNOWN" if member in removed.begun else "NOT_TRIED"
    error = removed.errors[member]
    return None if error is ErrorCode.none else error.name.upper()
