"""`kcoord pipeline decode`: decodes a log into tables."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..output.output import Column, Table, echo_err, show
from .balance import balance_tables, check_balance, not_read_document
from .follow import FollowOptions, follow_cluster, follow_options
from .inputs import LogEndOptions, history_options, log_of
from .options import SparkOptions, needs_spark, spark_job

if TYPE_CHECKING:
    from kcoord.pipeline.decode_job import Summary
    from kcoord.pipeline.decoding.row_filter import RowSelection


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--out", required=True, metavar="FOLDER", help="Where the tables go: a new folder, or hdfs://…, s3a://….")
@click.option("--overwrite", is_flag=True, help="Replace the tables that are in --out.")
@follow_options
@history_options
@click.pass_context
def decode(
    ctx: click.Context,
    path: Path | None,
    out: str,
    overwrite: bool,
    following: FollowOptions | None,
    wanted: Callable[[], "RowSelection"],
    log_ends: LogEndOptions,
    connector: str,
    options: SparkOptions,
) -> None:
    """Make tables of __consumer_offsets: commits, generations, group_events, log_ends, rejected, scanned.

    FOLDER holds segments: a broker's log.dirs or a copy of it, the data folder of kcoord serve, a partition's folder,
    or one segment. Without it a live cluster is read (-b). docs/tables.md says what each column means.

    A record that cannot be decoded is a row of `rejected`; the summary shows that none is lost: those that came in are
    the rows, the rejected ones, and those left out for a reason. Batches and ends of segments that cannot be read are
    rows of `rejected` too; the summary tells how much that is, and the exit code is then 1.

    \b
    kcoord pipeline decode /copies/kafka-logs --out tables
    kcoord pipeline decode /copies/kafka-logs --out tables --group payments --since 2026-11-01
    kcoord pipeline decode /copies/kafka-logs --out hdfs://name/tables --master yarn
    kcoord pipeline decode -b broker:9092 --out tables --no-log-ends
    kcoord pipeline decode -b broker:9092 --out tables --follow --interval 1m
    kcoord pipeline decode -b broker:9092 --out tables --connector spark-sql-kafka --conf spark.jars=connector.jar,…
    """
    needs_spark(options)
    from kcoord.pipeline.decode_job import decode as decode_job
    from kcoord.pipeline.follow_folder import check_unlocked
    from kcoord.pipeline.tables import TablesFolder

    if connector == "spark-sql-kafka" and path is None:
        echo_err(f"kcoord: {connector} does not tell what is of a transaction: `transactional` is false in all rows")
    folder = TablesFolder(out)
    if overwrite:
        check_unlocked(folder)
    if following is not None:
        if path is not None:
            raise click.UsageError("--follow is for a live cluster (-b): a folder of segments is read once", ctx)
        if overwrite:
            folder.check(replaces=True)
        with folder.removed_if_unused():
            follow_cluster(
                ctx,
                folder,
                following,
                replaces=overwrite,
                wanted=wanted(),
                choice=log_ends.choice(),
                connector=connector,
                options=options,
            )
        return
    with folder.removed_if_unused():
        folder.check(replaces=overwrite)
        log = log_of(ctx, path, wanted(), log_ends, connector)
        with spark_job(options, log_bytes=log.size) as (spark, stages):
            log.check(spark)
            folder.prepare(replaces=overwrite)
            summary = decode_job(spark, log, folder, wanted(), stages.begin)
    show_summary(ctx, summary, out)


def show_summary(ctx: click.Context, summary: "Summary", out: str) -> None:
    """Shows the result of `kcoord pipeline decode`: the rows of each table and the record counts. Raises ClickException
    if they do not add up."""
    rows = [*summary.rows.items()]
    show(ctx, "pipeline-decode", _document(summary, out), [_rows_table(rows), *balance_tables(summary)])
    if summary.rows["rejected"] and not summary.not_read.is_damage:
        echo_err(f"kcoord: not everything could be decoded: {out}/rejected tells what, where and why")
    check_balance(summary, out)


def _document(summary: "Summary", out: str) -> dict[str, Any]:
    return {
        "out": out,
        "records": summary.records,
        "rows": dict(summary.rows),
        "rejected": summary.rejected,
        "aside": dict(summary.skipped),
        "not_read": not_read_document(summary),
        "balanced": summary.is_balanced,
    }


def _rows_table(rows: list[tuple[str, int]]) -> Table:
    return Table(columns=[Column("TABLE"), Column("ROWS")], rows=rows)
