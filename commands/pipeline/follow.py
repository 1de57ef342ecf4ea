"""`kcoord pipeline decode --follow`: decodes a live cluster into tables continuously."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..options.duration_options import interval
from ..output.output import Column, Table, show
from .balance import balance_tables, check_balance, not_read_document
from .inputs import live_cluster
from .options import SparkOptions, spark_job
from .progress import clock_time, size_text

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection
    from kcoord.pipeline.following import WriteTotals
    from kcoord.pipeline.sources.live_plan import TopicSelection
    from kcoord.pipeline.tables import TablesFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """The options of `kcoord pipeline decode --follow`: how often tables are written, and whether it ends when all is
    read."""

    interval: timedelta
    stops_at_end: bool


def follow_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds --follow, --interval and --catch-up, and passes the command `following`, or None without
    --follow."""

    @wraps(command)
    def with_following(*args: Any, follow: bool, interval: timedelta, catch_up: bool, **others: Any) -> Any:
        if catch_up and not follow:
            raise click.UsageError("--catch-up says how --follow ends")
        if not follow and click.get_current_context().get_parameter_source("interval") is not ParameterSource.DEFAULT:
            raise click.UsageError("--interval says how often --follow writes")
        following = FollowOptions(interval=interval, stops_at_end=catch_up) if follow else None
        return command(*args, following=following, **others)

    for option in (
        click.option("--catch-up", is_flag=True, help="With --follow: end when all is read that is there; for cron."),
        click.option(
            "--interval",
            default="10s",
            metavar="SPAN",
            callback=interval,
            help="With --follow: how often rows are written.",
        ),
        click.option("--follow", is_flag=True, help="Go on reading a live cluster until Ctrl-C, and after a restart."),
    ):
        option(with_following)
    return with_following


def follow_cluster(
    ctx: click.Context,
    folder: "TablesFolder",
    following: FollowOptions,
    *,
    replaces: bool,
    wanted: "RowSelection",
    choice: "TopicSelection",
    connector: str,
    options: SparkOptions,
) -> None:
    """Decodes __consumer_offsets of a live cluster into tables until a signal stops it, or with --catch-up until all is
    read; then shows the summary."""
    from kcoord.pipeline.follow_folder import check_path, check_request_unchanged, locked
    from kcoord.pipeline.following import FollowSchedule, check_cluster, follow
    from kcoord.pipeline.sources.connectors import CONNECTORS

    if not replaces:
        check_path(folder)
        check_request_unchanged(folder, wanted, CONNECTORS[connector].checkpointed_choice(choice))
    cluster = live_cluster(ctx, connector)
    schedule = FollowSchedule(interval=following.interval.total_seconds(), stops_at_end=following.stops_at_end)
    # Lock the folder before Spark starts, since its start takes long enough to start a second job by mistake.
    with locked(folder):
        check_cluster(cluster)
        with spark_job(options) as (spark, stages):
            stages.begin("following")
            written = follow(
                spark,
                cluster,
                folder,
                replaces=replaces,
                wanted=wanted,
                choice=choice,
                schedule=schedule,
                on_batch=lambda brought: (
                    stages.print_line(f"{clock_time()} {_line(brought)}") if brought.records else None
                ),
                warn=lambda unread: stages.print_line(f"{clock_time()} kcoord: not read: {unread}"),
                connector=CONNECTORS[connector],
            )
    show(ctx, "pipeline-follow", _document(written, folder.uri), [_table(written), *balance_tables(written.summary)])
    check_balance(written.summary, folder.uri)


def _line(brought: "WriteTotals") -> str:
    rows = ", ".join(f"{count:,} {table}" for table, count in brought.rows.items() if count and table != "scanned")
    return f"{brought.records:,} records, {size_text(brought.size)}: {rows or 'no rows'}"


def _document(written: "WriteTotals", out: str) -> dict[str, Any]:
    return {
        "out": out,
        "batches": written.batches,
        "records": written.records,
        "bytes": written.size,
        "rows": dict(written.rows),
        "rejected": written.summary.rejected,
        "aside": dict(written.summary.skipped),
        "not_read": not_read_document(written.summary),
        "balanced": written.summary.is_balanced,
    }


def _table(written: "WriteTotals") -> Table:
    return Table(columns=[Column("TABLE"), Column("NEW ROWS")], rows=list(written.rows.items()))
