"""`kcoord groups remove-member`."""

from collections.abc import Collection, Mapping

import click

from kcoord.admin.live import LiveCluster
from kcoord.admin.model import Group, LeavingMember, Member
from kcoord.admin.opening import open_cluster
from kcoord.admin.removing import NotAMember, chosen_members, leaving
from kcoord.errors import ErrorCode

from .completing import complete_groups
from .connection_options import connection, connection_options
from .group_documents import member_document, refusals
from .group_tables import members_table
from .output import Cell, Column, Table, output_options, show, talk
from .seeing import end_with


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
    with open_cluster(connection(ctx)) as cluster:
        described = cluster.describe_groups([group_name])
        end_with(described.refused)
        group = described.found[group_name]
        try:
            members = chosen_members(group, member_ids=member_ids, instance_ids=instance_ids, everyone=everyone)
        except NotAMember as error:
            raise click.ClickException(str(error)) from None
        if execute:
            _remove(ctx, cluster, group, members, reason)
        else:
            _show_plan(ctx, group, members)


def _show_plan(ctx: click.Context, group: Group, members: Collection[Member]) -> None:
    show(
        ctx,
        "groups-remove-member",
        lambda: {"group": group.name, "executed": False, "members": [member_document(member) for member in members]},
        lambda: [members_table(members)],
    )
    talk("Nothing was changed: add --execute to do it.")


def _remove(ctx: click.Context, cluster: LiveCluster, group: Group, members: Collection[Member], reason: str) -> None:
    going = {leaving(member): member for member in members}
    answers = cluster.remove_members(group.name, list(going), reason=reason)
    show(
        ctx,
        "groups-remove-member",
        lambda: {
            "group": group.name,
            "executed": True,
            "members": [
                {**member_document(member), "error": _error(answers.found[each])} for each, member in going.items()
            ],
            "refused": refusals(answers.refused),
        },
        lambda: [_outcome_table(going, answers.found)],
    )
    end_with(answers.refused)


def _outcome_table(going: Mapping[LeavingMember, Member], errors: Mapping[LeavingMember, ErrorCode]) -> Table:
    columns = (Column("CLIENT-ID"), Column("HOST"), Column("MEMBER-ID"), Column("INSTANCE-ID"), Column("OUTCOME"))
    rows = [
        (member.client_id, member.host, member.member_id, member.instance_id, _outcome(errors[each]))
        for each, member in going.items()
    ]
    return Table(columns=columns, rows=rows)


def _outcome(error: ErrorCode) -> Cell:
    return Cell("removed", "green") if error is ErrorCode.none else Cell(error.name.upper(), "red")


def _error(error: ErrorCode) -> str | None:
    return None if error is ErrorCode.none else error.name.upper()
