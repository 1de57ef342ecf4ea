"""`kcoord pipeline rebalances`: shows which groups rebalance most, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from ..options.connection_options import connection_options
from ..output.output import Column, Table, output_of, output_options, show
from .findings import documents, duration_cell, or_none_note, time_text
from .inputs import LogEndOptions, check_groups, connector_option, input_argument, input_of, tables_of
from .options import SparkOptions, needs_spark, spark_job, spark_options, wanted_options

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection

# TOOK is the least duration that the log shows, PAUSED the time between commits.
_GROUPS: Final = (
    Column("GROUP"),
    Column("REBALANCES"),
    Column("PER HOUR"),
    Column("CAUSES"),
    Column("TOOK", align="right"),
    Column("LONGEST", align="right"),
    Column("PAUSED", align="right"),
    Column("MOVED"),
)
_MEMBERS: Final = (
    Column("GROUP"),
    Column("MEMBER"),
    Column("RETURNED"),
    Column("JOINED"),
    Column("LEFT"),
    Column("AT ONCE", wide=True),
    Column("STAYED", align="right"),
    Column("FIRST", wide=True),
    Column("LAST"),
)
_TIMES: Final = ("first_at", "last_at")


@click.command()
@input_argument
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many of each are shown.")
@wanted_options
@connector_option
@spark_options
@connection_options
@output_options
@click.pass_context
def rebalances(
    ctx: click.Context,
    source: str | None,
    top: int,
    wanted: Callable[[], "RowSelection"],
    connector: str,
    options: SparkOptions,
) -> None:
    """The most restless groups: how often they rebalance, why, and the time it cost; and members that come and go.

    TABLES is a folder that kcoord pipeline decode has made: the tables `rebalances` and `ownership` are written into
    it, unless it is about some groups only. SEGMENTS is what decode takes, and so is -b.

    PER HOUR is of the time that was read, or asked for; less than an hour counts as one. A rebalance may have several
    causes, and counts for each of them: CAUSES may add up to more than REBALANCES.
    TOOK is what the log shows of them, which is not all: when members of a classic group began to join is not in it.
    PAUSED is the time between the last commit before a rebalance and the first one after it. A member is known by its
    instance id, or by client id and host; RETURNED says how often it came again: who did so twice or more is shown.

    \b
    kcoord pipeline rebalances tables
    kcoord pipeline rebalances tables --since @-1d --top 3
    kcoord pipeline rebalances -b broker:9092 --group payments -o json
    """
    needs_spark(options)
    from kcoord.pipeline.derive_job import find_rebalances

    chosen = wanted()
    # Earlier records show the cause of a rebalance, so the log is read from its beginning.
    to_read = replace(chosen, since_ms=None, until_ms=None)
    job_input = input_of(ctx, source, to_read, LogEndOptions(topics=(), are_read=False), connector)
    with (
        spark_job(options, log_bytes=job_input.log_bytes) as (spark, stages),
        tables_of(job_input, spark, stages, to_read) as folder,
    ):
        check_groups(spark, folder, chosen, stages)
        found = find_rebalances(spark, folder, chosen, stages.begin, most=top)
    tables = [
        Table(columns=_GROUPS, rows=[_group_row(row) for row in found.groups], title="Restless groups"),
        _members_table(found.members),
    ]
    show(
        ctx,
        "pipeline-rebalances",
        lambda: {"groups": documents(found.groups, ()), "members": documents(found.members, _TIMES)},
        lambda: [or_none_note(table) for table in tables] if output_of(ctx).is_for_people else tables,
    )


def _group_row(row: Mapping[str, Any]) -> tuple[Any, ...]:
    causes = sorted((row["causes"] or {}).items(), key=lambda each: (-each[1], each[0]))
    return (
        row["group"],
        row["rebalances"],
        row["per_hour"],
        ", ".join(f"{cause} {count}" for cause, count in causes),
        duration_cell(row["lost_ms"]),
        duration_cell(row["longest_ms"]),
        duration_cell(row["pause_ms"]),
        row["moved_partitions"],
    )


def _members_table(members: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            *(row[name] for name in ("group", "member", "returned", "joined", "left", "at_once")),
            duration_cell(row["stayed_ms"]),
            time_text(row["first_at"]),
            time_text(row["last_at"]),
        )
        for row in members
    ]
    return Table(columns=_MEMBERS, rows=rows, title="Members that come and go")
