"""`kcoord offsets delete`: deletes committed offsets of a group."""

from datetime import UTC, datetime

import click

from kcoord.admin.offsets.planning import plan_delete
from kcoord.admin.offsets.selecting import Selection

from ..completion.completing import complete_groups
from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import output_options
from .options import ApplyOptions, offsets_connection, planning_options, scope_of, scope_options
from .plan import preview_or_apply


@click.command(short_help="Forget offsets of a group.")
@click.argument("group", shell_complete=complete_groups)
@scope_options
@planning_options
@connection_options
@output_options
@click.pass_context
def delete(
    ctx: click.Context, group: str, selections: tuple[Selection, ...], all_topics: bool, apply_options: ApplyOptions
) -> None:
    """Delete what a group has committed for topics or partitions. It starts there by auto.offset.reset next time.

    \b
    kcoord offsets delete payments --topic orders
    kcoord offsets delete payments --topic orders:0,3 --execute

    The group must have no members. Topics may be named that exist no longer. Before anything is deleted an undo file is
    written.
    """
    scope = scope_of(selections, all_topics)
    with open_cluster(offsets_connection(ctx)) as cluster:
        planned = plan_delete(cluster, group, scope=scope, target=_format_scope(scope), now=datetime.now(UTC))
        preview_or_apply(ctx, cluster, planned, apply_options)


def _format_scope(scope: tuple[Selection, ...] | None) -> str:
    return "all topics" if scope is None else ", ".join(sorted({selection.topic for selection in scope}))
