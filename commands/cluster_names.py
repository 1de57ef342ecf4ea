"""Clusters that are named as words of a command line, where there are two of them: which one is -b?"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from .offsets.options import offsets_connection
from .options.connection_options import given

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection, Given

FORMS: Final = "cluster:, context:NAME or broker:HOST:PORT"
_ADDRESS: Final = re.compile(r"[^\s/]+:\d{1,5}")


def is_place(text: str) -> bool:
    return text.partition(":")[0] in ("cluster", "context", "broker") and ":" in text


def place_of(_: click.Context, __: click.Parameter, text: str) -> str:
    """What an option says that can only mean a cluster: there an address alone will do."""
    return f"broker:{text}" if not is_place(text) and _ADDRESS.fullmatch(text) else text


def place_connection(ctx: click.Context, place: str) -> "Connection":
    """cluster: is that of -b or --context, context:NAME one by its name, broker:HOST:PORT one by its address."""
    return offsets_connection(ctx, place_given(ctx, place))


def place_given(ctx: click.Context, place: str) -> "Given":
    """The options that mean this cluster: those of the command line, with another cluster if the place names one."""
    kind, _, name = place.partition(":")
    if kind == "cluster" and not name:
        return given(ctx)
    if kind == "cluster" or not name or not is_place(place):
        raise click.UsageError(f"{place!r} names no cluster: write {FORMS}")
    said = given(ctx)
    if kind == "context":
        return replace(said, context=name, bootstrap=None)
    return replace(said, bootstrap=name, context=None)
