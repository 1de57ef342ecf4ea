"""`kcoord groups lag`: shows how far groups are behind, and fails above a limit."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import click

from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import format_count, format_partitions
from kcoord.admin.groups.group_snapshot import Snapshot
from kcoord.admin.groups.lag_totals import GroupBy, LagRow, lag_rows, total
from kcoord.admin.times import utc_text

from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..options.duration_options import duration
from ..output.output import Cell, Column, Table, echo_err, output_of, output_options, show
from .choice import GroupSelection, group_options
from .documents import refusal_documents
from .snapshots import exit_if_refused, read_selected
from .tables import lag_time

# UNKNOWN counts partitions without a committed offset, and those whose log ends could not be read.
_COUNTS: Final = (Column("PARTITIONS", align="right"), Column("UNKNOWN", align="right"))
_FIGURES: Final = (Column("LAG", align="right"), Column("BEHIND", align="right"))


@click.command(short_help="How far groups are behind, in records and in time.")
@group_options
@click.option("--by", type=click.Choice([by.value for by in GroupBy]), default="topic", show_default=True)
@click.option("--fail-above", type=click.IntRange(min=0), metavar="RECORDS", help="Exit 1 if a group's lag is larger.")
@click.option("--fail-behind", callback=duration, metavar="DURATION", help="Exit 1 if a group is longer behind: 5m.")
@click.option("--time/--no-time", "with_times", default=None, help="As of kcoord groups describe.")
@connection_options
@output_options
@click.pass_context
def lag(
    ctx: click.Context,
    choice: GroupSelection,
    by: str,
    fail_above: int | None,
    fail_behind: timedelta | None,
    with_times: bool | None,
) -> None:
    """How far groups are behind: records to the end of the log, and the age of the oldest that is not consumed.

    \b
    kcoord groups lag payments
    kcoord groups lag --all-groups --by group -o csv
    kcoord groups lag payments --fail-above 10000 --fail-behind 5m && echo fine

    --fail-above and --fail-behind look at each group as a whole. A group that cannot be seen is a failure too, one that
    reads partitions and has committed nothing, and one that has committed an offset beyond the end of its log; for
    --fail-behind also lag whose age cannot be told.
    """
    with open_cluster(connection(ctx), about=choice.names) as cluster:
        snapshot = read_selected(cluster, choice, with_times=True if fail_behind is not None else with_times)
    rows = lag_rows(snapshot, GroupBy(by))
    table = _table(rows, GroupBy(by))
    show(
        ctx,
        "groups-lag",
        lambda: {
            "at": utc_text(round(snapshot.at * 1000)),
            "lag": [_document(line) for line in rows],
            "total": _document(total(rows)),
            "refused": refusal_documents(snapshot.refused),
        },
        lambda: [table if output_of(ctx).format == "csv" else _with_total(table, rows, GroupBy(by))],
    )
    late = _late_messages(snapshot, fail_above, fail_behind)
    if (fail_above, fail_behind) != (None, None):
        late += _beyond_end_messages(snapshot)
    for line in late:
        echo_err(f"kcoord: {line}")
    exit_if_refused(snapshot.refused)
    sys.exit(1 if late else 0)


def _late_messages(snapshot: Snapshot, fail_above: int | None, fail_behind: timedelta | None) -> list[str]:
    """Formats a line for each group that is too far behind, or may be: lag of an unknown age counts as too old."""
    ageless: dict[str, int] = {}
    if fail_behind is not None:
        for each in lag_rows(snapshot, GroupBy.PARTITION):
            if each.lag and each.lag > 0 and each.seconds is None:
                ageless[each.group] = ageless.get(each.group, 0) + 1
    return [
        _format_late_group(row, ageless.get(row.group, 0))
        for row in lag_rows(snapshot, GroupBy.GROUP)
        if row.group in ageless or _is_late(row, fail_above, fail_behind)
    ]


def _beyond_end_messages(snapshot: Snapshot) -> list[str]:
    """Formats a line for each group with an offset beyond the end of its log: its lag counts as 0, but nothing is
    consumed."""
    found = []
    for name, seen in snapshot.groups.items():
        beyond = [each for each, lag in zip(seen.partitions, seen.lags, strict=True) if lag is not None and lag < 0]
        if beyond:
            where = format_partitions(each.tp for each in beyond)
            found.append(f"group {name}: committed beyond the end of the log: {where}; see kcoord groups doctor")
    return found


def _is_late(row: LagRow, fail_above: int | None, fail_behind: timedelta | None) -> bool:
    """Returns whether a group exceeds a limit. A group that reads partitions and has committed nothing exceeds any
    limit."""
    is_unknown = row.lag is None and row.partitions > 0 and (fail_above, fail_behind) != (None, None)
    is_above = is_unknown or (fail_above is not None and row.lag is not None and row.lag > fail_above)
    is_behind = fail_behind is not None and row.seconds is not None and row.seconds > fail_behind.total_seconds()
    return is_above or is_behind


def _format_late_group(row: LagRow, ageless: int) -> str:
    if row.lag is None:
        partitions = format_count(row.partitions, "partition")
        return f"group {row.group}: its lag is not known: nothing is committed for {partitions}"
    behind = f", {format_duration(row.seconds)} behind" if row.seconds else ""
    unknown = f"; the age of the lag of {format_count(ageless, 'partition')} is not known" if ageless else ""
    return f"group {row.group}: lag {row.lag:,}{behind}{unknown}"


def _table(rows: Sequence[LagRow], by: GroupBy) -> Table:
    named = {
        GroupBy.GROUP: [Column("GROUP"), *_COUNTS],
        GroupBy.TOPIC: [Column("GROUP"), Column("TOPIC"), *_COUNTS],
        GroupBy.PARTITION: [Column("GROUP"), Column("TOPIC"), Column("PARTITION", align="right")],
    }[by]
    return Table(columns=[*named, *_FIGURES], rows=[_row(row, by) for row in rows])


def _with_total(table: Table, rows: Sequence[LagRow], by: GroupBy) -> Table:
    """Appends a row with the total if there are at least two rows."""
    if len(rows) < 2:
        return table
    row = _row(total(rows), by)
    return replace(table, rows=[*table.rows, (Cell("TOTAL", "bold"), *row[1:])])


def _row(row: LagRow, by: GroupBy) -> tuple[Any, ...]:
    figures = (row.lag, lag_time(row.seconds))
    match by:
        case GroupBy.GROUP:
            return (row.group, row.partitions, row.unknown, *figures)
        case GroupBy.TOPIC:
            return (row.group, row.topic, row.partitions, row.unknown, *figures)
        case GroupBy.PARTITION:
            return (row.group, row.topic, row.partition, *figures)


def _document(row: LagRow) -> dict[str, Any]:
    return {
        "group": row.group or None,
        "topic": row.topic,
        "partition": row.partition,
        "partitions": row.partitions,
        "unknown": row.unknown,
        "lag": row.lag,
        "lag_seconds": None if row.seconds is None else round(row.seconds, 3),
    }
