"""`kcoord offsets undo`: restores offsets from an undo file."""

from datetime import UTC, datetime
from pathlib import Path

import click

from kcoord.admin.offsets.files.undo_files import plan_undo, read_undo

from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import output_options
from .options import ApplyOptions, execute_options, offsets_connection
from .plan import preview_or_apply


@click.command(short_help="Take back a change of offsets.")
@click.argument("path", metavar="UNDO", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--force", "forced", is_flag=True, help="Even if the offsets are no longer those that the change had set."
)
@execute_options
@connection_options
@output_options
@click.pass_context
def undo(ctx: click.Context, path: Path, forced: bool, apply_options: ApplyOptions) -> None:
    """Undo a change: offsets, leader epochs and metadata are as they were; where nothing was committed, nothing is.

    \b
    kcoord offsets undo kcoord-undo-payments-20261116T100000Z.json
    kcoord offsets undo kcoord-undo-payments-20261116T100000Z.json --execute

    Undoing is a change like any other: it is shown first, it is refused while the group has members, and it writes an
    undo file of its own.
    """
    saved = read_undo(path)
    with open_cluster(offsets_connection(ctx)) as cluster:
        planned = plan_undo(cluster, saved, name=str(path), now=datetime.now(UTC), forced=forced)
        preview_or_apply(ctx, cluster, planned, apply_options)
