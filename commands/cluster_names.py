"""Names of clusters as arguments, for commands that work with two clusters, where -b alone would be ambiguous."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from .offsets.options import offsets_connection
from .options.connection_options import given

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection, ConnectionOptions

FORMS: Final = "cluster:, context:NAME or broker:HOST:PORT"
_ADDRESS: Final = re.compile(r"[^\s/]+:\d{1,5}")


def is_place(text: str) -> bool:
    return text.partition(":")[0] in ("cluster", "context", "broker") and ":" in text


def place_of(_: click.Context, __: click.Parameter, text: str) -> str:
    """Parses an option whose value can only name a cluster, so that HOST:PORT alone is accepted."""
    return f"broker:{text}" if not is_place(text) and _ADDRESS.fullmatch(text) else text


def place_connection(ctx: click.Context, place: str) -> "Connection":
    """Resolves the connection of a cluster's name: `cluster:` is the cluster of -b or --context, `context:NAME` a
    named context, and `broker:HOST:PORT` an address."""
    return offsets_connection(ctx, place_given(ctx, place))


def place_given(ctx: click.Context, place: str) -> "ConnectionOptions":
    """Returns the options of the command line, with another cluster if the name is not that of the command's own."""
    kind, _, name = place.partition(":")
    if kind == "cluster" and not name:
        return given(ctx)
    if kind == "cluster" or not name or not is_place(place):
        raise click.UsageError(f"{place!r} names no cluster: write {FORMS}")
    said = given(ctx)
    if kind == "context":
        return replace(said, context=name, bootstrap=None)
    return replace(said, bootstrap=name, context=None)
