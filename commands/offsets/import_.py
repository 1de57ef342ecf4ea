"""`kcoord offsets import`: commits the offsets of a file."""

from datetime import UTC, datetime
from pathlib import Path

import click

from kcoord.admin.offsets.files.documents import read_text
from kcoord.admin.offsets.files.importing import offsets_by_group, only_groups, read_offsets, rename_groups
from kcoord.admin.offsets.planning import plan_from_files
from kcoord.admin.offsets.plans import Risk, Verb

from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import output_options
from .options import ApplyOptions, offsets_connection, planning_options, risk_options
from .plan import preview_or_apply


def _renames(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    names: dict[str, str] = {}
    for value in values:
        old, equals, new = value.partition("=")
        if not (old and equals and new) or old in names:
            raise click.BadParameter(f"{value!r} is not OLD=NEW, or OLD is there twice", ctx, param)
        names[old] = new
    return names


@click.command("import", short_help="Set offsets of groups from a file.")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="Only this group; for CSV of three columns, its name."
)
@click.option(
    "--rename", "renames", multiple=True, callback=_renames, metavar="OLD=NEW", help="Import OLD's offsets as NEW's."
)
@click.option(
    "--ignore-topic-ids", is_flag=True, help="Although topics are not those that the file is of, but only their names."
)
@risk_options
@planning_options
@connection_options
@output_options
@click.pass_context
def import_offsets(
    ctx: click.Context,
    path: Path,
    groups: tuple[str, ...],
    renames: dict[str, str],
    ignore_topic_ids: bool,
    accepted: tuple[Risk, ...],
    apply_options: ApplyOptions,
) -> None:
    """Import offsets: JSON lines of kcoord offsets export, or the CSV of kafka-consumer-groups. A group may be new.

    \b
    kcoord offsets import payments.jsonl
    kcoord offsets import payments.jsonl --rename payments=payments-copy --execute
    kcoord offsets import payments.csv --group payments --execute
    kcoord offsets import prod.jsonl --context staging --ignore-topic-ids

    A file that is wrong in any line is refused, and the line is named. Leader epochs are kept only for the very same
    topic. Into another topic or cluster, the record at each offset is compared with what the file has of it. A group is
    refused as a whole if a record differs or cannot be compared, if an offset is outside a log, or if the group had
    members at the export; each --accept option takes one of these risks. If a file has nothing of the records, such as
    CSV, none are compared, and a warning says so. docs/offsets.md has a table.
    """
    lines = read_offsets(read_text(path), str(path), group=groups[0] if len(groups) == 1 else None)
    listed = offsets_by_group(rename_groups(only_groups(lines, groups) if groups else lines, renames))
    with open_cluster(offsets_connection(ctx)) as cluster:
        planned = plan_from_files(
            cluster,
            listed,
            verb=Verb.IMPORT,
            target=str(path),
            now=datetime.now(UTC),
            ignores_topic_ids=ignore_topic_ids,
            accepted=accepted,
        )
        preview_or_apply(ctx, cluster, planned, apply_options)
