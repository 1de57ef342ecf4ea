"""`kcoord pipeline report`: writes all findings as one HTML page."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..output.output import Cell, Column, Table, show
from .inputs import (
    LogEndOptions,
    check_groups,
    history_options,
    input_argument,
    input_of,
    tables_of,
    tables_target,
)
from .options import SparkOptions, needs_spark, spark_job
from .progress import size_text

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection


@click.command()
@input_argument
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the page goes: a new file, such as report.html.",
)
@click.option(
    "--tables",
    "tables_folder",
    metavar="FOLDER",
    help="Keep the tables that are made of SEGMENTS or a cluster: a new folder, or hdfs://…, s3a://….",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists, and the tables in --tables.")
@click.option(
    "--top",
    type=click.IntRange(min=1, max=1000),
    default=50,
    show_default=True,
    metavar="GROUPS",
    help="How many groups have a page of their own.",
)
@history_options
@click.pass_context
def report(
    ctx: click.Context,
    source: str | None,
    out: Path,
    tables_folder: str | None,
    overwrite: bool,
    top: int,
    wanted: Callable[[], "RowSelection"],
    log_ends: LogEndOptions,
    connector: str,
    options: SparkOptions,
) -> None:
    """All of it as one HTML page with pictures: an overview, and a page for each group.

    SEGMENTS is what kcoord pipeline decode takes, a broker's log.dirs or a copy of it, and so is -b: they are decoded,
    the other tables are made, and the page is written, all in one session of Spark. The tables are temporary, unless
    --tables says where they stay. TABLES is a folder that decode has made: the tables `ownership`, `rebalances` and
    `lag` are written into it, unless it is about some groups only. A folder with a table `scanned` is TABLES.

    The file needs nothing else: no network, no script. It can be mailed, archived and printed. Groups with the most
    rebalances have their pages first, then those with the largest lag; the page tells what is left out.

    \b
    kcoord pipeline report /copies/kafka-logs --out report.html
    kcoord pipeline report /copies/kafka-logs --out report.html --tables tables
    kcoord pipeline report tables --out payments.html --group payments --since @-1d
    kcoord pipeline report -b broker:9092 --out report.html --overwrite
    """
    needs_spark(options)
    from kcoord.pipeline.report.model import Limits
    from kcoord.pipeline.report.page import render
    from kcoord.pipeline.report.page_file import PageFile
    from kcoord.pipeline.report_job import report_facts

    file = PageFile(out)
    file.prepare(replaces=overwrite)
    chosen = wanted()
    # Earlier records show the cause of a rebalance, so the log is read from its beginning.
    to_read = replace(chosen, since_ms=None, until_ms=None)
    job_input = input_of(ctx, source, to_read, log_ends, connector)
    target = tables_target(ctx, job_input, tables_folder, replaces=overwrite)
    with (
        target.checked() if target is not None else nullcontext(),
        spark_job(options, log_bytes=job_input.log_bytes) as (spark, stages),
        tables_of(job_input, spark, stages, to_read, target=target) as tables,
    ):
        check_groups(spark, tables, chosen, stages)
        facts = report_facts(
            spark,
            tables,
            chosen,
            stages.begin,
            source_name=job_input.name,
            made_at=datetime.now(UTC),
            limits=Limits(groups=top),
        )
    size = file.write(render(facts))
    pages, groups = len(facts.groups.rows), facts.groups.total
    show(
        ctx,
        "pipeline-report",
        {"out": str(out), "bytes": size, "groups": groups, "pages": pages},
        [
            Table(
                columns=[Column("OUT"), Column("GROUPS"), Column("PAGES"), Column("SIZE", align="right")],
                rows=[(str(out), groups, pages, Cell(size_text(size), raw=size))],
            )
        ],
    )
