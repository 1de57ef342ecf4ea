"""`kcoord offsets diff`: compares committed offsets of files and clusters."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import click

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.formatting import format_count
from kcoord.admin.groups.selection import select_groups
from kcoord.admin.offsets.diffing import Diff, Difference, Kind, diff
from kcoord.admin.offsets.files.documents import read_text
from kcoord.admin.offsets.files.exporting import export
from kcoord.admin.offsets.files.importing import read_offsets
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.files.plan_files import committed_document

from ..opening import open_cluster
from ..options.connection_options import connection_options
from ..output.output import Cell, Column, Table, echo_err, output_of, output_options, show
from .cluster_names import FORMS, connection_to, is_cluster_name


class Side(NamedTuple):
    """One side of the comparison of `kcoord offsets diff`: the committed offsets of a file or a cluster, and errors
    about those that could not be read."""

    lines: Collection[OffsetLine]
    refused: tuple[str, ...] = ()


@click.command("diff", short_help="Compare exports, clusters, or one with the other.")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group. May be repeated.")
@click.option("--exact", "exactly", is_flag=True, help="Leader epochs and metadata must be the same, too.")
@connection_options
@output_options
@click.pass_context
def diff_offsets(ctx: click.Context, a: str, b: str, groups: tuple[str, ...], exactly: bool) -> None:
    """Compare committed offsets. Exit code 0: they are the same; 1: they differ, or could not all be read.

    \b
    kcoord offsets diff before.jsonl after.jsonl
    kcoord offsets diff before.jsonl cluster: --group payments
    kcoord offsets diff context:prod context:staging -o json
    kcoord offsets diff broker:old:9092 broker:new:9092

    A and B are files (JSON lines or CSV, - is stdin) or clusters: cluster: is that of -b or --context, context:NAME one
    by its name, broker:HOST:PORT one by its address. Compared with a file, a cluster's groups are those of the file.
    """
    files = {side: read for side, read in ((side, _of_file(side, groups)) for side in (a, b)) if read is not None}
    named = groups or {line.group for read in files.values() for line in read.lines}
    sides = [files[side] if side in files else _of_cluster(connection_to(ctx, side), named) for side in (a, b)]
    found = diff(sides[0].lines, sides[1].lines, exactly=exactly)
    show(ctx, "offsets-diff", lambda: _document(a, b, found), lambda: _tables(ctx, found))
    refused = [f"{name}: {line}" for name, side in zip((a, b), sides, strict=True) for line in side.refused]
    for line in refused:
        echo_err(f"kcoord: {line}")
    echo_err(f"{format_count(len(found.differences), 'difference')}; {format_count(found.same, 'offset')} the same.")
    sys.exit(1 if found.differences or refused else 0)


def _of_file(side: str, groups: tuple[str, ...]) -> Side | None:
    """Reads one side from a file; returns None if the argument names a cluster."""
    if is_cluster_name(side):
        return None
    try:
        text = sys.stdin.read() if side == "-" else read_text(Path(side))
    except FileNotFoundError:
        raise click.ClickException(f"{side}: no such file; a cluster is written {FORMS}") from None
    lines = read_offsets(text, side, group=groups[0] if len(groups) == 1 else None)
    return Side([line for line in lines if not groups or line.group in groups])


def _of_cluster(where: Connection, groups: Collection[str]) -> Side:
    """Reads one side from a cluster: the offsets of these groups, or of all. A group without offsets is no error.

    A share group commits no offsets; it is reported only if it was named.
    """
    with open_cluster(where) as cluster:
        names, unlisted = select_groups(cluster, names=sorted(groups), everything=not groups)
        exported = export(cluster, names, with_records=False)
    sharing = [f"group {name!r} is a share group, which commits no offsets" for name in exported.share_groups if groups]
    return Side(exported.lines, (*map(str, unlisted), *exported.refused, *sharing))


def _tables(ctx: click.Context, found: Diff) -> list[Table]:
    """Returns the table of differences; for people none if it is empty."""
    return [_table(found)] if found.differences or not output_of(ctx).is_for_people else []


def _table(found: Diff) -> Table:
    columns = [
        Column("GROUP"),
        Column("TOPIC"),
        Column("PARTITION", align="right"),
        Column("A", align="right"),
        Column("B", align="right"),
        Column("B-A", align="right"),
        Column("DIFFERENCE"),
    ]
    return Table(columns=columns, rows=[_row(difference) for difference in found.differences])


def _row(each: Difference) -> tuple[Any, ...]:
    offsets = (each.a and each.a.offset, each.b and each.b.offset)
    by = None if each.by is None else Cell(f"{each.by:+d}", raw=each.by)
    return (each.group, each.tp.topic, each.tp.partition, *offsets, by, _format_kind(each))


def _format_kind(each: Difference) -> str:
    match each.kind:
        case Kind.ONLY_A:
            return "only in A"
        case Kind.ONLY_B:
            return "only in B"
        case Kind.OFFSET:
            return "offset"
        case Kind.DETAILS:
            assert each.a is not None
            assert each.b is not None
            return "metadata" if each.a.metadata != each.b.metadata else "leader epoch"


def _document(a: str, b: str, found: Diff) -> dict[str, Any]:
    return {
        "a": a,
        "b": b,
        "same": found.same,
        "differences": [
            {
                "group": each.group,
                "topic": each.tp.topic,
                "partition": each.tp.partition,
                "kind": each.kind.value,
                "a": committed_document(each.a),
                "b": committed_document(each.b),
                "by": each.by,
            }
            for each in found.differences
        ],
    }
