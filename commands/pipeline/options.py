"""Options and setup that all pipeline jobs share: Spark, groups, times, progress."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from kcoord.admin.times import parse_datetime, parse_moment

from ..completion.completing import complete_groups
from ..output.output import echo_err
from .progress import Stages

if TYPE_CHECKING:
    from kcoord.pipeline.decoding.row_filter import RowSelection
    from kcoord.pipeline.session import SparkConfig, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """The options of a pipeline job for its Spark session (--master, --conf, --verbose), as given on the
    command line."""

    master: str | None
    settings: tuple[tuple[str, str], ...]
    verbose: bool

    def spark_config(self, log_bytes: int | None = None) -> "SparkConfig":
        """Returns the configuration of the Spark session, for a log of about that many bytes."""
        from kcoord.pipeline.session import SparkConfig

        settings = dict(self.settings)
        return SparkConfig(master=self.master, settings=settings, log_bytes=log_bytes, shows_spark_log=self.verbose)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds --master, --conf and --verbose (of Spark), and passes the command SparkOptions as
    `options`."""

    @wraps(command)
    def with_options(
        *args: Any, master: str | None, settings: tuple[tuple[str, str], ...], verbose: bool, **others: Any
    ) -> Any:
        return command(*args, options=SparkOptions(master=master, settings=settings, verbose=verbose), **others)

    for option in (
        click.option("--verbose", is_flag=True, help="Show what Spark writes itself, too."),
        click.option(
            "--conf",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            callback=_settings,
            help="A setting of Spark, such as spark.driver.memory=8g. May be repeated.",
        ),
        click.option(
            "--master",
            metavar="MASTER",
            help="spark://HOST:PORT, yarn, k8s://… or local[N]; without it Spark runs here, on all cores.",
        ),
    ):
        option(with_options)
    return with_options


def wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds --since, --until and --group, which limit the records of a job. It passes the command
    `wanted`, a function that makes the filter."""

    @wraps(command)
    def with_wanted(*args: Any, since: str | None, until: str | None, groups: tuple[str, ...], **others: Any) -> Any:
        if "" in groups:
            raise click.BadParameter("a group has a name", param_hint="--group")
        now = datetime.now(UTC)
        since_ms, until_ms = _parse_moment("--since", since, now), _parse_moment("--until", until, now)
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise click.UsageError("--since is not before --until")

        def wanted() -> "RowSelection":
            from kcoord.pipeline.decoding.row_filter import RowSelection

            return RowSelection(since_ms=since_ms, until_ms=until_ms, groups=groups)

        return command(*args, wanted=wanted, **others)

    for option in (
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="GROUP",
            shell_complete=complete_groups,
            help="Of this group only. May be repeated.",
        ),
        click.option("--until", metavar="TIME", help="Before this time; written as for --since."),
        click.option(
            "--since", metavar="TIME", help="From this time on: 2026-11-16T10:00 (UTC), or @-1h for an hour ago."
        ),
    ):
        option(with_wanted)
    return with_wanted


def needs_pipeline() -> None:
    """Raises ClickException if a library that the pipeline needs is not installed."""
    missing = [name for name in ("numpy", "pyarrow", "pyspark") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"kcoord pipeline needs {', '.join(missing)}: pip install 'kcoord[pipeline]'")


def needs_spark(options: SparkOptions) -> None:
    """Raises UsageError if --master names a Spark that is not available here, as far as that is known before anything
    is read."""
    needs_pipeline()
    from kcoord.pipeline.session import NoMaster, check_spark

    try:
        check_spark(options.spark_config())
    except NoMaster as error:
        raise click.UsageError(str(error), click.get_current_context()) from None


@contextmanager
def spark_job(options: SparkOptions, *, log_bytes: int | None = None) -> "Iterator[tuple[SparkSession, Stages]]":
    """Opens a Spark session, configured for about that many bytes of log, with a display of stages. Errors are
    translated for the user."""
    begun = time.monotonic()
    from kcoord.pipeline.errors import translate_errors
    from kcoord.pipeline.executor_watch import executors_watched
    from kcoord.pipeline.session import open_session

    if not options.verbose:
        _silence_py4j()
    with _termination_raised(), Stages() as stages:
        stages.begin("starting Spark")
        with (
            open_session(options.spark_config(log_bytes)) as spark,
            translate_errors(),
            executors_watched(spark, stages.print_line),
        ):
            stages.watch(spark)
            yield spark, stages
    echo_err(f"done in {time.monotonic() - begun:.0f} s")


def _silence_py4j() -> None:
    """Silences py4j, which reports calls broken off by a signal or the JVM's end to the root logger.

    Without a handler, that logger writes to stderr. The handler stays until the process ends, which breaks off some
    calls.
    """
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


@contextmanager
def _termination_raised() -> Iterator[None]:
    """Raises SystemExit on SIGTERM, so that temporary files are removed."""
    is_ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is not None
    if not is_ours or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _settings(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"{key!r}: say spark.KEY=VALUE")
        pairs.append((key, value))
    return tuple(pairs)


def _parse_moment(option: str, text: str | None, now: datetime) -> int | None:
    if text is None:
        return None
    try:
        return parse_moment(text[1:], now=now) if text.startswith("@") else parse_datetime(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
