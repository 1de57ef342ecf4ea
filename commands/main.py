"""The command line `kcoord`: its nouns, its exit codes and its handling of errors."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final, NoReturn

import click

from .errors import end_by_broken_pipe, exit_code_of_interrupt, is_reader_gone, line_of, traceback_of
from .lazy import LazyGroup, Verb
from .options.connection_options import DEBUG, connection_options
from .options.shared_options import shared_values
from .output.output import echo_err, output_options

_verbs: Final = {
    "assign": Verb("assign.command", "assign", "Which member gets which partitions: strategies compared, what-ifs."),
    "completion": Verb(
        "completion.completion", "completion", "Let the shell complete commands, groups, topics and contexts."
    ),
    "context": Verb("context", "context", "Named clusters: where they are and how to log in."),
    "demo": Verb("demo", "demo", "The tour: three stories on embedded clusters."),
    "groups": Verb("groups.command", "groups", "Groups of a live cluster: list, describe, lag, watch, doctor, delete."),
    "log": Verb("log", "log", "Read the files of a log: batches, records, groups and their offsets."),
    "offsets": Verb(
        "offsets.command", "offsets", "Offsets of groups: reset, delete, export, import, compare, take back."
    ),
    "pipeline": Verb("pipeline.command", "pipeline", "The history of groups as tables, on Spark; a report of it."),
    "proxy": Verb("proxy", "proxy", "Stand between clients and a real cluster."),
    "rules": Verb("rules", "rules", "Who may do what on serve: check a file of rules."),
    "serve": Verb("serve", "serve", "A local cluster that Kafka's clients use as if it were Kafka."),
    "users": Verb("users", "users", "Who may log in to serve and proxy: add, remove, list."),
}
_ABOUT_LIVE_CLUSTERS: Final = ("assign", "context", "groups", "offsets", "pipeline")
_GC_THRESHOLD: Final = 200_000  # objects: a short-lived command allocates many and frees few


@click.group(
    cls=LazyGroup, verbs=_verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(package_name="kcoord", message="kcoord %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks of errors.")  # parsed by main()
@connection_options
@output_options
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Groups and offsets of live Kafka clusters, and an embedded cluster for Kafka's clients.

    \b
    kcoord groups list -b broker:9092             the groups of a cluster
    kcoord groups describe orders -b broker:9092  one of them: lag, members
    kcoord offsets reset orders --all-topics --to @-1h    the plan; --execute
    kcoord serve --topic orders:3                 a cluster on 127.0.0.1:9092
    kcoord proxy --upstream broker:9092           in front of a real cluster
    kcoord log dump data/__consumer_offsets-7     the files of a broker
    kcoord pipeline report /copies/logs --out r.html      their history
    kcoord demo                                   the tour

    -b, -o and the other options of groups and offsets may stand anywhere: before the noun, the verb, or after it.
    """
    if shared_values(ctx) and ctx.invoked_subcommand not in _ABOUT_LIVE_CLUSTERS:
        raise click.UsageError(f"what stands before {ctx.invoked_subcommand!r} means nothing to it", ctx)


for _option in cli.params[2:]:  # hidden here, since the help of nouns and verbs lists these options
    assert isinstance(_option, click.Option)
    _option.hidden = True


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs `kcoord` and exits: 0 for success, 1 for a failure or a partial one, 2 for a usage error. A failure is
    one line."""
    gc.set_threshold(_GC_THRESHOLD)
    arguments = sys.argv[1:] if args is None else list(args)
    if sys.stdout is None:  # closed by the parent process
        sys.exit("kcoord: there is no stdout to write to")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that know only ASCII
    if "_KCOORD_COMPLETE" in os.environ:
        from .completion.completion import answer_the_shell

        answer_the_shell(cli)
    exit_code = _run(*_without_debug(arguments))
    if args is None:
        _exit_fast(exit_code)
    sys.exit(exit_code)


def _exit_fast(exit_code: int) -> None:
    """Ends the process without deallocating its objects, which for a thousand groups takes a tenth of the time of
    the command."""
    if len(sys._current_frames()) > 1:
        return  # Python joins the other threads that are not daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            return  # the ordinary exit reports it
    os._exit(exit_code)


def _run(arguments: list[str], wants_debug: bool) -> int:
    """Invokes click with other formatting of errors and other handling of a broken pipe. Returns the exit code."""
    try:
        with cli.make_context("kcoord", arguments) as ctx:
            ctx.meta[DEBUG] = wants_debug
            cli.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _report_error(error, False, error.exit_code)
    except click.Abort:
        echo_err("kcoord: aborted")
        return 1
    except KeyboardInterrupt as interrupt:
        return exit_code_of_interrupt(interrupt)
    except BrokenPipeError as error:
        return end_by_broken_pipe() if is_reader_gone(sys.stdout, sys.stderr) else _report_error(error, wants_debug, 1)
    except Exception as error:
        return _report_error(error, wants_debug, 1)
    return 0


def _report_error(error: Exception, wants_debug: bool, exit_code: int) -> int:
    if wants_debug:
        click.echo(traceback_of(error), err=True)
    echo_err(f"kcoord: {line_of(error)}")
    return exit_code


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Removes --debug, which is allowed anywhere before a `--`. Returns the other arguments, and whether it was
    there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return [*options, *arguments[end:]], len(options) < end
