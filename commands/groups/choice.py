"""Options that select groups: names, --regex or --all-groups."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from ..completion.completing import complete_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """The groups that the command line selects, by names, a regular expression or all of them: the arguments of
    `kcoord.admin.groups.selection.select_groups`."""

    names: tuple[str, ...]
    pattern: str | None
    everything: bool


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds GROUP…, --regex and --all-groups, and passes the command a GroupSelection as `choice`."""

    @wraps(command)
    def chosen(*args: Any, names: tuple[str, ...], pattern: str | None, everything: bool, **others: Any) -> Any:
        if not names and not pattern and not everything:
            raise click.UsageError("name one or more groups, or say --regex PATTERN or --all-groups")
        if everything and (names or pattern):
            raise click.UsageError("--all-groups is all of them: name none besides")
        return command(*args, choice=GroupSelection(names=names, pattern=pattern, everything=everything), **others)

    for option in (
        click.option("--all-groups", "everything", is_flag=True, help="All groups of the cluster."),
        pattern_option,
        click.argument("names", nargs=-1, metavar="[GROUP]...", callback=_names, shell_complete=complete_groups),
    ):
        option(chosen)
    return chosen


def _names(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if "" in names:
        raise click.BadParameter("a group's name is not empty")
    return names


def _pattern(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
    return text


pattern_option = click.option(
    "--regex", "pattern", metavar="PATTERN", callback=_pattern, help="Groups in whose name the pattern is found."
)
