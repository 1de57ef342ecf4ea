"""`kcoord assign replay`: replays the history of groups through each strategy."""

from collections.abc import Callable, Mapping
from dataclasses import replace as replaced
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from kcoord.assignors.replaying.comparing import Question, compare_history
from kcoord.assignors.strategies import STRATEGIES

from ..options.connection_options import connection_options
from ..options.duration_options import duration, interval
from ..output.output import echo_err, output_of, output_options, show
from ..output.progress import progress
from ..pipeline.inputs import LogEndOptions, check_groups, connector_option, input_argument, input_of, tables_of
from ..pipeline.options import SparkOptions, needs_spark, spark_job, spark_options, wanted_options
from .replay_document import history_document
from .replay_tables import history_tables, sheet_tables
from .topic_counts import parse_topic_count

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection

_MS: Final = timedelta(milliseconds=1)


def _counts(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    return dict(parse_topic_count(text, "=") for text in texts)


@click.command()
@input_argument
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice([*STRATEGIES]),
    multiple=True,
    help="Replay this strategy only. May be repeated.",
)
@click.option("--each", "each_rebalance", is_flag=True, help="Show each rebalance, too; so does -o wide.")
@click.option(
    "--session-timeout",
    callback=duration,
    metavar="DURATION",
    help="What if all members had had this session timeout?",
)
@click.option(
    "--partitions",
    "counts",
    callback=_counts,
    multiple=True,
    metavar="TOPIC=N",
    help="How many partitions a topic had, if more than were assigned. May be repeated.",
)
@click.option(
    "--heartbeat-interval",
    callback=interval,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="How long a partition pauses that the coordinator moves (KIP-848).",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Of how many groups at most.")
@wanted_options
@connector_option
@spark_options
@connection_options
@output_options
@click.pass_context
def replay(
    ctx: click.Context,
    source: str | None,
    strategies: tuple[str, ...],
    each_rebalance: bool,
    session_timeout: timedelta | None,
    counts: Mapping[str, int],
    heartbeat_interval: timedelta,
    top: int,
    wanted: Callable[[], "RowSelection"],
    connector: str,
    options: SparkOptions,
) -> None:
    """What each strategy would have cost groups over their recorded history, and rebalances that need not have been.

    TABLES is a folder that kcoord pipeline decode has made. SEGMENTS is what decode takes, and so is -b. Without
    --group it is about the groups with the most generations.

    Each change of members, subscriptions or partitions that was recorded is replayed through each strategy, which
    starts from its own previous plan. MOVED are partitions that got another owner. PAUSED are partitions that nobody
    read for a while: all under an eager strategy, otherwise those that moved. PARTITION-SECONDS is each of them times
    how long the group committed nothing around the recorded rebalance, and AT-LEAST times how long the log shows of it;
    for strategies of the coordinator it is --heartbeat-interval. docs/assignors.md says exactly what is counted.

    Then it names rebalances that would not have happened if members that left and came back had been static
    (group.instance.id), and with --session-timeout, if sessions had lasted so long.

    \b
    kcoord assign replay tables --group payments
    kcoord assign replay tables --group payments --since @-1d --each
    kcoord assign replay tables --session-timeout 2m --partitions orders=12 -o json
    kcoord assign replay -b broker:9092 --group payments
    """
    needs_spark(options)
    from kcoord.pipeline.replay_job import read_recordings

    chosen = wanted()
    # What a group was at first follows from earlier records, so the log is read from its beginning.
    to_read = replaced(chosen, since_ms=None, until_ms=None)
    job_input = input_of(ctx, source, to_read, LogEndOptions(topics=(), are_read=False), connector)
    with (
        spark_job(options, log_bytes=job_input.log_bytes) as (spark, stages),
        tables_of(job_input, spark, stages, to_read) as tables,
    ):
        check_groups(spark, tables, chosen, stages)
        recorded = read_recordings(spark, tables, to_read, stages.begin, most=top)
    question = Question(
        strategies=strategies or tuple(STRATEGIES),
        since_ms=chosen.since_ms,
        until_ms=chosen.until_ms,
        counts=counts,
        session_timeout_ms=None if session_timeout is None else session_timeout // _MS,
        heartbeat_ms=heartbeat_interval // _MS,
    )
    _report_refused(recorded.refused, is_failure=not recorded.recordings)
    with progress("replaying", len(recorded.recordings) * len(question.strategies)) as bar:
        histories = [compare_history(each, question, bar.advance) for each in recorded.recordings]
    is_detailed = each_rebalance or output_of(ctx).format == "wide"
    show(
        ctx,
        "assign-replay",
        lambda: history_document(histories, question, is_detailed=each_rebalance),
        lambda: (
            history_tables(histories, question, is_detailed=is_detailed)
            if output_of(ctx).is_for_people
            else sheet_tables(histories, is_detailed=each_rebalance)
        ),
    )


def _report_refused(refused: Mapping[str, str], *, is_failure: bool) -> None:
    """Prints why groups cannot be replayed. Raises ClickException if that is all there is to show."""
    lines = [f"{group} cannot be replayed: {reason}" for group, reason in refused.items()]
    if is_failure:
        raise click.ClickException("; ".join(lines) or "no consumer group with members is in these tables")
    for line in lines:
        echo_err(f"kcoord: {line}")
