"""`kcoord pipeline lag`: shows how far groups were behind over time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import click

from ..options.duration_options import duration
from ..output.output import Column, Table, output_of, show
from .findings import documents, duration_cell, or_none_note, time_text
from .inputs import LogEndOptions, check_groups, history_options, input_argument, input_of, tables_of
from .options import SparkOptions, needs_spark, spark_job

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection
    from kcoord.pipeline.derive_job import LagFindings

_POINTS: Final = ("group", "at", "until", "lag", "highest_lag", "lag_ms", "behind_ms", "commits")
_PARTITION: Final = (Column("GROUP"), Column("TOPIC"), Column("PARTITION"))
_BEHIND: Final = (
    *_PARTITION,
    Column("COMMITS", wide=True),
    Column("LOWEST"),
    Column("HIGHEST"),
    Column("LAST"),
    Column("BEHIND", align="right"),
    Column("PER HOUR"),
    Column("SINCE"),
    Column("UNTIL", wide=True),
)
_STUCK: Final = (
    *_PARTITION,
    Column("COMMITTED"),
    Column("LAG"),
    Column("STOOD", align="right"),
    Column("SINCE"),
    Column("UNTIL"),
)
_TIMES: Final = ("at", "since", "until")


@click.command()
@input_argument
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many of each are shown.")
@click.option("--pieces", type=click.IntRange(1, 1000), default=6, show_default=True, help="That the time is cut into.")
@click.option(
    "--bound",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="RECORDS",
    help="Who has no more than this to read has caught up.",
)
@click.option(
    "--standing",
    "stuck_for",
    callback=duration,
    default="1m",
    show_default=True,
    metavar="DURATION",
    help="Standing still, or never catching up, is longer.",
)
@history_options
@click.pass_context
def lag(
    ctx: click.Context,
    source: str | None,
    top: int,
    pieces: int,
    bound: int,
    stuck_for: timedelta,
    wanted: Callable[[], "RowSelection"],
    log_ends: LogEndOptions,
    connector: str,
    options: SparkOptions,
) -> None:
    """How far groups were behind over time, partitions that never caught up, and those that stood still.

    TABLES is a folder that kcoord pipeline decode has made: the table `lag` is written into it, unless it is about some
    groups only. SEGMENTS is what decode takes, and so is -b. Lag is known of topics whose log was read, too.

    The timeline adds up the partitions of a group, each with what it had committed against the log at the end of a
    piece, which heads the column: the lag of who commits no more grows. Who was furthest behind at one of these times
    stands first. BEHIND is the age of the oldest record that was not read at the last of them. Offsets that were
    deleted do not count, nor are they told as never caught up: that is who had more than --bound to read at each
    commit, of two or more, the first of which was long enough before the end of what was read. Times are UTC. CSV has
    the timeline.

    \b
    kcoord pipeline lag tables
    kcoord pipeline lag tables --group payments --since @-6h --pieces 12
    kcoord pipeline lag -b broker:9092 --bound 1000 --standing 10m -o json
    """
    needs_spark(options)
    from kcoord.pipeline.derive_job import find_lag

    chosen = wanted()
    # Earlier commits show which groups have stopped committing, so the log is read from its beginning.
    to_read = replace(chosen, since_ms=None, until_ms=None)
    job_input = input_of(ctx, source, to_read, log_ends, connector)
    with (
        spark_job(options, log_bytes=job_input.log_bytes) as (spark, stages),
        tables_of(job_input, spark, stages, to_read) as tables,
    ):
        check_groups(spark, tables, chosen, stages)
        found = find_lag(
            spark, tables, chosen, stages.begin, most=top, pieces=pieces, bound=bound, longer_than=stuck_for
        )
    show(
        ctx,
        "pipeline-lag",
        lambda: {
            "timeline": documents(found.timeline, _TIMES),
            "never_caught_up": documents(found.behind, _TIMES),
            "standing": documents(found.stuck, _TIMES),
        },
        lambda: [_points_table(found.timeline)] if output_of(ctx).format == "csv" else _tables(found),
    )


def _tables(found: "LagFindings") -> list[Table]:
    """Returns the tables of all findings, for people."""
    made = [
        _timeline_table(found.timeline),
        Table(columns=_BEHIND, rows=[_behind_row(row) for row in found.behind], title="Never caught up"),
        Table(columns=_STUCK, rows=[_stuck_row(row) for row in found.stuck], title="Stood still"),
    ]
    return [or_none_note(table) for table in made]


def _points_table(timeline: Sequence[Mapping[str, Any]]) -> Table:
    rows = [[time_text(row[name]) if name in _TIMES else row[name] for name in _POINTS] for row in timeline]
    return Table(columns=[Column(name.replace("_", " ").upper()) for name in _POINTS], rows=rows)


def _timeline_table(timeline: Sequence[Mapping[str, Any]]) -> Table:
    """Returns a table with a row for each group and a column for each interval, with the lag at its end; the last
    column is lag in time."""
    ends = {row["at"]: row["until"] for row in sorted(timeline, key=itemgetter("at"))}
    points: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in timeline:
        points.setdefault(row["group"], {})[row["at"]] = row
    headers = [Column(text, align="right") for text in _short([utc for utc in map(time_text, ends.values()) if utc])]
    rows = [
        (group, *(of.get(at, {}).get("lag") for at in ends), duration_cell(of.get([*ends][-1], {}).get("behind_ms")))
        for group, of in points.items()
    ]
    columns = [Column("GROUP"), *headers, Column("BEHIND", align="right")]
    return Table(columns=columns, rows=rows, title="Lag over time, until")


def _short(moments: Sequence[str]) -> list[str]:
    """Formats times without the day if all are on one day: 2026-11-16T12:00:00.000Z becomes 12:00:00."""
    days = {text[:10] for text in moments}
    return [text[11:19] if len(days) == 1 else text[5:16].replace("T", " ") for text in moments]


def _behind_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("group", "topic", "partition", "commits", "lowest_lag", "highest_lag", "last_lag")
    return (
        *(row[name] for name in names),
        duration_cell(row["last_lag_ms"]),
        row["per_hour"],
        time_text(row["since"]),
        time_text(row["until"]),
    )


def _stuck_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(row[name] for name in ("group", "topic", "partition", "committed", "lag")),
        duration_cell(row["stood_ms"]),
        time_text(row["since"]),
        time_text(row["until"]),
    )
