"""`kcoord offsets export`: writes committed offsets to a file."""

import sys
from pathlib import Path
from typing import Final

import click

from kcoord.admin.formatting import format_count
from kcoord.admin.groups.selection import select_groups
from kcoord.admin.offsets.files.documents import write_atomically
from kcoord.admin.offsets.files.exporting import csv_lines, export, json_lines
from kcoord.exceptions import RemoteFailure

from ..groups.choice import GroupSelection, group_options
from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import echo_err, progress, write
from .options import offsets_connection

_STDOUT: Final = ("-", "/dev/stdout")


class PartialExport(RemoteFailure, RuntimeError):
    """An error: an incomplete export would replace an existing file, which may be complete."""


@click.command("export", short_help="Write offsets of groups to a file.")
@group_options
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; stdout by default, or if it is -.",
)
@click.option("--force", "overwrites", is_flag=True, help="Write over a file that is there, if all can be read.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    show_default=True,
    help="JSON lines with all that is known, or the CSV that kafka-consumer-groups --from-file reads.",
)
@click.option(
    "--time/--no-time",
    "with_records",
    default=True,
    help="Read the record at each offset, for its time and checksum: an import compares them. Or leave them out.",
)
@connection_options
@click.pass_context
def export_offsets(
    ctx: click.Context, choice: GroupSelection, path: Path | None, overwrites: bool, form: str, with_records: bool
) -> None:
    """Export what groups have committed, running groups too.

    \b
    kcoord offsets export payments -f payments.jsonl
    kcoord offsets export --all-groups | grep '"topic": "orders"'
    kcoord offsets export payments --format csv -f payments.csv

    The exit code is 0 if every offset is written. Groups without offsets, share groups and groups that are deleted
    meanwhile are reported, and are a failure only if they were named.

    CSV of one group that was named has three columns: topic, partition, offset; otherwise the group is the first of
    four. JSON lines are described in docs/offsets-files.md.
    """
    with open_cluster(offsets_connection(ctx)) as cluster, progress("reading offsets"):
        names, unlisted = select_groups(
            cluster, names=choice.names, pattern=choice.pattern, everything=choice.everything
        )
        exported = export(cluster, names, with_records=with_records and form == "jsonl")
    is_one = len(choice.names) == 1 and not choice.pattern
    lines = csv_lines(exported.lines, with_group=not is_one) if form == "csv" else json_lines(exported.lines)
    text = "".join(lines)
    with_offsets = {line.group for line in exported.lines}
    is_lacking_a_named_one = any(name not in with_offsets for name in choice.names)
    refused = (*map(str, unlisted), *exported.refused, *(exported.missing if is_lacking_a_named_one else ()))
    for line in dict.fromkeys((*refused, *exported.missing, *exported.notes)):
        echo_err(f"kcoord: {line}")
    if path is None or str(path) in _STDOUT:
        write(text)
    elif refused and overwrites and path.exists():
        raise PartialExport(f"{path} is left as it was: not all groups could be read. Take another name for the others")
    else:
        write_atomically(path, text, overwrites=overwrites)
        echo_err(f"{format_count(len(exported.lines), 'offset')} of {format_count(len(with_offsets), 'group')}: {path}")
    sys.exit(1 if refused or exported.gaps or is_lacking_a_named_one else 0)
