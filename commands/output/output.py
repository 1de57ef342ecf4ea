"""Output of commands in the formats `-o table|wide|json|yaml|csv`. Data goes to stdout, messages to stderr."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from ..options.shared_options import shared_option, shared_options, shared_values
from .printable import printable
from .progress import progress
from .tables import Cell, Column, Screen, Table, render_all

__all__ = ["Cell", "Column", "Output", "Table", "echo_err", "output_of", "output_options", "progress", "show"]

FORMATS: Final = ("table", "wide", "json", "yaml", "csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output options of a command (-o, --no-headers, --no-color), wherever they were given on the command line."""

    format: str = "table"
    headers: bool = True
    color: bool = True

    @property
    def is_for_people(self) -> bool:
        """Whether the format is table or wide, not one for programs."""
        return self.format in ("table", "wide")


output_options = shared_options(
    shared_option(
        "-o",
        "--output",
        "format",
        type=click.Choice(FORMATS),
        help="The format; table by default. json and yaml are documents, csv has every column.",
    ),
    shared_option("--no-headers", is_flag=True, default=None, help="Rows only, in tables and CSV."),
    shared_option("--no-color", is_flag=True, default=None, help="No colors; NO_COLOR=1 says it too."),
)
"""Options for every command that shows something, and for the groups above it; `output_of(ctx)` returns their
values."""


def output_of(ctx: click.Context) -> Output:
    """Returns the output options of the command line."""
    given = shared_values(ctx)
    return Output(
        format=given.get("format", "table"),
        headers=not given.get("no_headers", False),
        color=not given.get("no_color", False),
    )


def show(
    ctx: click.Context,
    what: str,
    document: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    tables: Sequence[Table] | Callable[[], Sequence[Table]],
) -> None:
    """Writes a command's data to stdout in the format of -o: `document` for JSON and YAML, named `what`; `tables` for
    the others. Both may be functions, if they are expensive to make."""
    output = output_of(ctx)
    if output.format in ("json", "yaml"):
        named = {"kcoord": f"{what}/v1", **(document() if callable(document) else document)}
        write((_json_text if output.format == "json" else _yaml_text)(named))
        return
    made = tables() if callable(tables) else tables
    if made:
        write(_csv_text(made[0], output) if output.format == "csv" else tables_text(made, output))


def echo_err(text: str) -> None:
    """Prints one line to stderr, so that it is in no pipe; control characters are escaped."""
    click.echo(printable(text), err=True)


def write(text: str) -> None:
    """Writes text to stdout as it is. An OSError is raised with `stdout` as its file name, since stdout may be a file
    on a full disk."""
    try:
        click.echo(text, nl=False, color=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout") from None


def tables_text(tables: Sequence[Table], output: Output) -> str:
    """Formats tables as text for the terminal or the pipe that stdout is, with a blank line between two."""
    is_wide = output.format == "wide"
    screen = Screen(
        width=_width(),
        wide=is_wide,
        tight=not is_wide,  # users of -o wide can wrap or scroll lines
        headers=output.headers,
        colored=is_colored(output),
    )
    return ("\n" if output.headers else "").join(render_all(tables, screen))


def is_colored(output: Output) -> bool:
    """Whether stdout is shown with colors: it is a terminal, and no option or environment variable forbids them."""
    return output.color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()


def _width() -> int | None:
    """Returns the width of the output: COLUMNS if it is set, else that of the terminal; None for a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or 80


def _is_ascii_only() -> bool:
    return "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()


def _json_text(document: Mapping[str, Any]) -> str:
    from .json_text import json_text

    return json_text(document, ascii_only=_is_ascii_only())


def _yaml_text(document: Mapping[str, Any]) -> str:
    from .yaml_text import yaml_text

    return yaml_text(document, ascii_only=_is_ascii_only())


def _csv_text(table: Table, output: Output) -> str:
    from .csv_text import csv_text

    return csv_text(table, headers=output.headers)
