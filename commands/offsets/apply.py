"""`kcoord offsets apply`: applies a saved plan, or refuses it."""

import sys
from pathlib import Path

import click

from kcoord.admin.offsets.applying import check
from kcoord.admin.offsets.checking import StalePlan
from kcoord.admin.offsets.files.plan_files import plan_document, read_plan

from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import echo_err, output_options, show
from .options import ApplyOptions, execute_options, offsets_connection
from .plan import apply_and_report, report_differences
from .plan_tables import plan_table


@click.command("apply", short_help="Do exactly what a saved plan says, or refuse.")
@click.argument("path", metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@execute_options
@connection_options
@output_options
@click.pass_context
def apply_plan(ctx: click.Context, path: Path, apply_options: ApplyOptions) -> None:
    """Apply a plan that --plan has saved: exactly that, or nothing if the world has changed since.

    \b
    kcoord offsets reset payments --topic orders --to @-1h --plan back.json
    kcoord offsets apply back.json
    kcoord offsets apply back.json --execute

    It is refused if the cluster is another one, if a group has members, if an offset was committed since, if a topic
    was made anew, or if a log no longer has the offset; each of these is named. Without --execute all is checked. A
    group that changes while those before it are done is left alone, and the exit code is 1.
    """
    plan = read_plan(path)
    with open_cluster(offsets_connection(ctx)) as cluster:
        if apply_options.executes:
            sys.exit(1 if apply_and_report(ctx, cluster, plan, apply_options) else 0)
        show(ctx, "offsets-plan", lambda: plan_document(plan), lambda: [plan_table(plan)])
        try:
            check(cluster, plan)
        except StalePlan as changed:
            report_differences(changed)
            raise
    echo_err("The plan still holds. Nothing was changed: add --execute to do it.")
