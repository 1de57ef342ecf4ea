"""Options shared by several verbs of `kcoord offsets`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcoord.admin.offsets.files.undo_files import UndoDestination
from kcoord.admin.offsets.plans import Risk
from kcoord.admin.offsets.selecting import Selection, parse_selection

from ..completion.completing import complete_topics
from ..interrupting import Interrupts
from ..options.connection_options import connection
from ..output.output import echo_err

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection, ConnectionOptions

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The options of a command that changes offsets or groups: whether to apply the plan (--execute), where to save
    plan and undo file, and how it is interrupted."""

    executes: bool
    undo: UndoDestination
    interrupts: Interrupts
    plan_path: Path | None = None
    overwrites_plan: bool = False


_A_FILE = click.Path(dir_okay=False, path_type=Path)
_A_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


def execute_options(command: Command) -> Command:
    """A decorator that adds --execute, --undo and --undo-dir, and passes the command its ApplyOptions as
    `apply_options`."""

    @wraps(command)
    def done(*args: Any, executes: bool, undo_path: Path | None, undo_folder: Path | None, **others: Any) -> Any:
        if undo_path and undo_folder:
            raise click.UsageError("--undo names the file and --undo-dir its folder: give one of them")
        undo = UndoDestination(path=undo_path, folder=undo_folder or Path())
        with Interrupts() as interrupts:
            return command(
                *args, apply_options=ApplyOptions(executes=executes, undo=undo, interrupts=interrupts), **others
            )

    for option in (
        click.option(
            "--undo-dir", "undo_folder", type=_A_FOLDER, metavar="DIR", help="The undo file's folder, if not this one."
        ),
        click.option("--undo", "undo_path", type=_A_FILE, metavar="FILE", help="The undo file, if not one by date."),
        click.option("--execute", "executes", is_flag=True, help="Do it; without this the plan is shown."),
    ):
        option(done)
    return done


def planning_options(command: Command) -> Command:
    """A decorator that adds --plan and --force (save the plan to a file) to the options of `execute_options`."""

    @wraps(command)
    def planned(
        *args: Any, apply_options: ApplyOptions, plan_path: Path | None, overwrites: bool, **others: Any
    ) -> Any:
        return command(
            *args, apply_options=replace(apply_options, plan_path=plan_path, overwrites_plan=overwrites), **others
        )

    for option in (
        click.option("--force", "overwrites", is_flag=True, help="Write over a plan file that is there."),
        click.option("--plan", "plan_path", type=_A_FILE, metavar="FILE", help="Save the plan for offsets apply."),
    ):
        option(planned)
    return execute_options(planned)


_RISKS = {
    Risk.DIFFERENT_RECORDS: "Although the records at an offset are not the same on both sides: some may be skipped.",
    Risk.UNCOMPARED_RECORDS: "Although records could not be compared with those of another cluster.",
    Risk.CLAMPED_OFFSETS: "Although a log does not have an offset: its start or its end is taken.",
    Risk.SOURCE_MEMBERS: "Although groups have members where the offsets come from, which go on from there.",
}


def risk_options(command: Command) -> Command:
    """A decorator that adds an option for each risk of committing offsets, such as --accept-different-records, and
    passes the command the given ones as `accepted`."""

    @wraps(command)
    def accepting(*args: Any, **others: Any) -> Any:
        accepted = tuple(risk for risk in Risk if others.pop(_name_of(risk)))
        return command(*args, accepted=accepted, **others)

    for risk in reversed(Risk):
        click.option(risk.option, _name_of(risk), is_flag=True, help=_RISKS[risk])(accepting)
    return accepting


def _name_of(risk: Risk) -> str:
    return f"accepts_{risk.value.replace('-', '_')}"


def offsets_connection(ctx: click.Context, options: "ConnectionOptions | None" = None) -> "Connection":
    """Resolves how to connect to the cluster, and prints a warning if the connection loses the metadata of offsets, as
    librdkafka's does."""
    where = connection(ctx, options)
    if where.needs_librdkafka:
        echo_err(
            f"kcoord: through librdkafka ({where.needs_librdkafka}) the metadata of offsets is not seen: "
            "exports and undo files are without it"
        )
    return where


class _SelectionType(click.ParamType):  # type: ignore[type-arg]
    name = "selection"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Selection:
        try:
            return value if isinstance(value, Selection) else parse_selection(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def scope_options(command: Command) -> Command:
    """A decorator that adds --topic and --all-topics, which select partitions, and passes the command `selections` and
    `all_topics`."""
    click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed.")(command)
    click.option(
        "--topic",
        "selections",
        multiple=True,
        type=_SelectionType(),
        metavar="TOPIC[:PARTITIONS]",
        shell_complete=complete_topics,
        help="A topic, or some of its partitions: orders, orders:0,2,4-7. May be repeated.",
    )(command)
    return command


def scope_of(selections: tuple[Selection, ...], all_topics: bool) -> tuple[Selection, ...] | None:
    """Returns the partitions that --topic and --all-topics select, or None for all of the group. Raises UsageError
    unless exactly one of them is given."""
    if bool(selections) == all_topics:
        raise click.UsageError("say which partitions: --topic TOPIC[:PARTITIONS], or --all-topics")
    return selections or None
