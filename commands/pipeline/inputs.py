"""Inputs of pipeline jobs: existing tables, log segments, or a live cluster."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..completion.completing import complete_topics
from ..options.connection_options import command_line_options, connection, connection_options
from ..output.output import echo_err, output_options
from .balance import not_read_line
from .options import spark_options, wanted_options
from .progress import Stages, size_text

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection
    from kcoord.pipeline.decode_job import Input
    from kcoord.pipeline.decoding.row_filter import RowSelection
    from kcoord.pipeline.session import SparkSession
    from kcoord.pipeline.sources.live_plan import TopicSelection
    from kcoord.pipeline.tables import TablesFolder

input_argument = click.argument("source", required=False, metavar="[TABLES|SEGMENTS]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndOptions:
    """The options --topic and --no-log-ends: whether log end offsets of a live cluster's topics are read, and of which
    topics. `live_plan.TopicSelection` is made of it."""

    topics: tuple[str, ...]
    are_read: bool
    is_given: bool = False
    """Whether it was set by an option."""

    def choice(self) -> "TopicSelection":
        """Returns the topics whose log end offsets the pipeline reads from a live cluster, in the form that its sources
        take."""
        from kcoord.pipeline.sources.live_plan import TopicSelection

        return TopicSelection(log_ends=self.are_read, topics=self.topics)


def log_ends_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds --topic and --no-log-ends, and passes the command LogEndOptions as `log_ends`."""

    @wraps(command)
    def with_log_ends(*args: Any, topics: tuple[str, ...], no_log_ends: bool, **others: Any) -> Any:
        if topics and no_log_ends:
            raise click.UsageError("--topic names topics whose log ends are read, --no-log-ends says that none is")
        is_given = bool(topics) or no_log_ends
        log_ends = LogEndOptions(topics=topics, are_read=not no_log_ends, is_given=is_given)
        return command(*args, log_ends=log_ends, **others)

    for option in (
        click.option(
            "--no-log-ends",
            is_flag=True,
            help="Of a live cluster, read nothing but __consumer_offsets; lag is not known then.",
        ),
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="TOPIC",
            shell_complete=complete_topics,
            help="Of a live cluster, read the log ends of this topic, not of all that groups read. May be repeated.",
        ),
    ):
        option(with_log_ends)
    return with_log_ends


def connector_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds --connector (what reads a live cluster), and passes the command its name as `connector`."""
    option = click.option(
        "--connector",
        type=click.Choice(["python", "spark-sql-kafka"]),
        default="python",
        show_default=True,
        help="What reads a live cluster: kcoord's own source, or Spark's Kafka connector, whose jars Spark must have.",
    )
    return option(command)


def history_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds all options of a command that reads commits, rebalances and log ends."""
    for options in (
        output_options,
        connection_options,
        spark_options,
        connector_option,
        log_ends_options,
        wanted_options,
    ):
        command = options(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInput:
    """The input of a pipeline job: a folder of tables, or a log of __consumer_offsets that is to be decoded. One of
    them is None."""

    name: str
    """The name for people: the argument, or the cluster's addresses."""
    folder: "TablesFolder | None" = None
    log: "Input | None" = None

    @property
    def log_bytes(self) -> int | None:
        """The approximate size of the log in bytes, which the input has or its tables were made of; None if unknown."""
        if self.folder is not None:
            return self.folder.log_bytes
        assert self.log is not None
        return self.log.size


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesTarget:
    """The folder of --tables, in which the tables that a job makes of a log remain."""

    folder: "TablesFolder"
    replaces: bool
    """Whether existing tables are replaced."""

    @contextmanager
    def checked(self) -> Iterator[None]:
        """A context that checks the folder of tables before the job begins, and removes it if the job fails, unless it
        existed before or has content. Raises BadFolder, OSError."""
        from kcoord.pipeline.follow_folder import check_unlocked

        if self.replaces:
            check_unlocked(self.folder)
        with self.folder.removed_if_unused():
            self.folder.check(replaces=self.replaces)
            yield


def tables_target(
    ctx: click.Context, job_input: PipelineInput, text: str | None, *, replaces: bool
) -> TablesTarget | None:
    """Returns the folder of --tables; None without that option. Raises UsageError if the input consists of tables
    already."""
    from kcoord.pipeline.tables import TablesFolder

    if text is None:
        return None
    if job_input.folder is not None:
        raise click.UsageError(f"--tables is for segments or a live cluster: {job_input.name} has tables already", ctx)
    return TablesTarget(folder=TablesFolder(text), replaces=replaces)


def log_of(
    ctx: click.Context, path: Path | None, wanted: "RowSelection", log_ends: LogEndOptions, connector: str
) -> "Input":
    """Returns the log that a job decodes: the segments at the path; without a path, that of the live cluster which the
    options name."""
    if path is None:
        return _live_log(live_cluster(ctx, connector), wanted, log_ends, connector)
    _refuse_cluster_options(ctx, log_ends)
    from kcoord.pipeline.decode_job import SegmentInput
    from kcoord.pipeline.decoding.segments import find_segments, plan_ranges

    log = SegmentInput(ranges=plan_ranges(find_segments(path)))
    echo_err(f"reading {size_text(log.size)} of segments in {_format_count(len(log.ranges), 'range')}")
    return log


def input_of(
    ctx: click.Context, text: str | None, wanted: "RowSelection", log_ends: LogEndOptions, connector: str
) -> PipelineInput:
    """Returns the input of a job that its argument names (tables, segments, or without an argument a live cluster), as
    far as that is known without Spark. Raises an error if there is none."""
    from kcoord.pipeline.decoding.segments import NoSegments
    from kcoord.pipeline.tables import TablesFolder

    if text is None:
        cluster = live_cluster(ctx, connector)
        return PipelineInput(name=_name(cluster), log=_live_log(cluster, wanted, log_ends, connector))
    _refuse_cluster_options(ctx, log_ends)
    folder = TablesFolder(text)
    if folder.is_complete:
        return PipelineInput(name=text, folder=folder)
    try:
        return PipelineInput(name=text, log=log_of(ctx, Path(text), wanted, log_ends, connector))
    except NoSegments:
        folder.check_complete()
        raise


@contextmanager
def tables_of(
    job_input: PipelineInput,
    spark: "SparkSession",
    stages: Stages,
    wanted: "RowSelection",
    *,
    target: TablesTarget | None = None,
) -> "Iterator[TablesFolder]":
    """Yields the folder of tables that a job reads. If the input is a log, that is decoded first, into the target or a
    temporary folder."""
    from kcoord.pipeline.decode_job import decode

    if job_input.folder is not None:
        yield job_input.folder
        return
    assert job_input.log is not None
    job_input.log.check(spark)
    if target is not None:
        target.folder.prepare(replaces=target.replaces)
    folder = _temporary_tables(spark, stages) if target is None else target.folder
    summary = decode(spark, job_input.log, folder, wanted, stages.begin)
    if summary.not_read.is_damage:
        stages.print_line(f"kcoord: {not_read_line(summary.not_read)}: kcoord pipeline decode tells where and why")
    yield folder


def _temporary_tables(spark: "SparkSession", stages: Stages) -> "TablesFolder":
    from kcoord.pipeline.tables import TablesFolder

    if not (spark.conf.get("spark.master", "local") or "local").startswith("local"):
        raise click.ClickException(
            "a cluster's workers do not see temporary tables: run decode first, and name its --out; report has --tables"
        )
    # The folder is removed only after Spark has ended: an interrupted job goes on writing, and would create it again.
    temporary = stages.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-tables-", ignore_cleanup_errors=True))
    folder = TablesFolder(f"{temporary}/tables")
    folder.prepare()
    return folder


def check_groups(spark: "SparkSession", tables: "TablesFolder", wanted: "RowSelection", stages: Stages) -> None:
    """Prints the groups of --group that are not in the tables. Raises ClickException if none of them is."""
    from kcoord.pipeline.derive_job import groups_missing

    missing = groups_missing(spark, tables, wanted)
    if not missing:
        return
    line = f"no group {', '.join(missing)} in these tables"
    if len(missing) == len(wanted.groups):
        raise click.ClickException(line)
    stages.print_line(f"kcoord: {line}")


def live_cluster(ctx: click.Context, connector: str) -> "Connection":
    """Returns the connection of the live cluster to read, and prints its name unless -b has it. Raises
    NotForConnector."""
    from kcoord.pipeline.sources.connectors import CONNECTORS

    cluster = connection(ctx)
    CONNECTORS[connector].check_connection(cluster)
    if cluster.source != "-b":
        echo_err(f"reading the cluster {_name(cluster)}")
    return cluster


def _name(cluster: "Connection") -> str:
    source = "" if cluster.source == "-b" else f" ({cluster.source})"
    return f"{', '.join(cluster.bootstrap)}{source}"


def _refuse_cluster_options(ctx: click.Context, log_ends: LogEndOptions) -> None:
    """Raises UsageError for options of a cluster, since the input is a folder."""
    if command_line_options(ctx).bootstrap:
        raise click.UsageError("a folder, or a cluster (-b): not both", ctx)
    if log_ends.is_given:
        raise click.UsageError("--topic and --no-log-ends are for a live cluster (-b): a folder is read as it is", ctx)
    if ctx.get_parameter_source("connector") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--connector is for a live cluster (-b): a folder is read as it is", ctx)


def _live_log(cluster: "Connection", wanted: "RowSelection", log_ends: LogEndOptions, connector: str) -> "Input":
    from kcoord.pipeline.sources.connectors import CONNECTORS
    from kcoord.pipeline.sources.live_input import LiveInput
    from kcoord.pipeline.sources.live_plan import plan_logs

    plan = plan_logs(cluster, wanted, log_ends.choice())
    for refusal in plan.refused:
        echo_err(f"kcoord: not read: {refusal}")
    echo_err(f"reading up to {_format_count(plan.offsets, 'record')} of {_format_count(len(plan.ranges), 'range')}")
    return LiveInput(cluster, plan, CONNECTORS[connector])


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"
