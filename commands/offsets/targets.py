"""Options for the target of a reset: those of kafka-consumer-groups, and --to."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from kcoord.admin.offsets.resetting import ResetTarget, ShiftBy, ToCurrent, ToEarliest, ToLatest, ToOffset, ToTime
from kcoord.admin.times import parse_ago, parse_datetime, parse_moment

Command = Callable[..., Any]
_FROM_FILE: Final = "Offsets of a file: CSV of kafka-consumer-groups, or JSON lines of kcoord offsets export."
_OPTIONS: Final = (
    ("to", click.option("--to", metavar="WHERE", help="earliest, latest, current, an offset, @-1h, or @TIME.")),
    ("to_earliest", click.option("--to-earliest", is_flag=True, help="The start of each log.")),
    ("to_latest", click.option("--to-latest", is_flag=True, help="The end of each log.")),
    ("to_current", click.option("--to-current", is_flag=True, help="Where it is; the end where nothing is committed.")),
    ("to_offset", click.option("--to-offset", type=int, metavar="N", help="This offset, in every partition.")),
    ("shift_by", click.option("--shift-by", type=int, metavar="N", help="So many records on, or back if negative.")),
    (
        "to_datetime",
        click.option("--to-datetime", metavar="TIME", help="ISO 8601: 2026-11-16T10:00; UTC without a zone."),
    ),
    ("by_duration", click.option("--by-duration", metavar="DURATION", help="So long ago: PT1H30M, 90m, 2d.")),
    ("from_file", click.option("--from-file", type=click.Path(dir_okay=False), metavar="FILE", help=_FROM_FILE)),
)


def target_options(command: Command) -> Command:
    """A decorator that adds all options for the target of an offset reset, such as --to-earliest, and passes the
    command those that were given as `where`, for `target_of`."""

    @wraps(command)
    def with_target(*args: Any, **values: Any) -> Any:
        given = {name: values.pop(name) for name, _ in _OPTIONS}
        where = {name: value for name, value in given.items() if value is not None and value is not False}
        return command(*args, where=where, **values)

    for _, option in reversed(_OPTIONS):
        option(with_target)
    return with_target


def target_of(where: Mapping[str, Any], *, now: datetime) -> ResetTarget | Path:
    """Parses the one target of an offset reset that was given; a path if the offsets are in a file. Raises UsageError,
    BadParameter."""
    if len(where) != 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in where)
        raise click.UsageError(f"{options}: give only one" if where else "say where to: --to WHERE, or see --help")
    ((name, value),) = where.items()
    try:
        return _target(name, value, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"--{name.replace('_', '-')}") from None


def _target(name: str, value: Any, now: datetime) -> ResetTarget | Path:
    match name:
        case "to":
            return _shorthand(value, now)
        case "to_earliest":
            return ToEarliest()
        case "to_latest":
            return ToLatest()
        case "to_current":
            return ToCurrent()
        case "to_offset":
            return ToOffset(offset=value)
        case "shift_by":
            return ShiftBy(by=value)
        case "to_datetime":
            return ToTime(timestamp=parse_datetime(value))
        case "by_duration":
            return ToTime(timestamp=parse_ago(value, now=now))
        case _:
            return Path(value)


def _shorthand(text: str, now: datetime) -> ResetTarget:
    if text.startswith("@"):
        return ToTime(timestamp=parse_moment(text[1:], now=now))
    if text.isascii() and text.isdecimal():
        return ToOffset(offset=int(text))
    named: dict[str, ResetTarget] = {"earliest": ToEarliest(), "latest": ToLatest(), "current": ToCurrent()}
    if text not in named:
        raise ValueError(f"{text!r} is none of earliest, latest, current, an offset, @-1h, @2026-11-16T10:00")
    return named[text]
