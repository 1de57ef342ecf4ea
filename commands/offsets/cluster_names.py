"""Names of clusters as arguments, for commands that work with two clusters, where -b alone would be ambiguous."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from ..options.connection_options import command_line_options
from .options import offsets_connection

if TYPE_CHECKING:
    from kcoord.admin.connecting.connection import Connection, ConnectionOptions

FORMS: Final = "cluster:, context:NAME or broker:HOST:PORT"
_ADDRESS: Final = re.compile(r"[^\s/]+:\d{1,5}")


def is_cluster_name(text: str) -> bool:
    """Whether an argument names a cluster (cluster:, context:NAME or broker:HOST:PORT) and not a file."""
    return text.partition(":")[0] in ("cluster", "context", "broker") and ":" in text


def cluster_name_of(_: click.Context, __: click.Parameter, text: str) -> str:
    """A click callback for an option whose value can only name a cluster, so that HOST:PORT alone is accepted too: it
    becomes broker:HOST:PORT."""
    return f"broker:{text}" if not is_cluster_name(text) and _ADDRESS.fullmatch(text) else text


def connection_to(ctx: click.Context, cluster_name: str) -> "Connection":
    """Resolves the connection of a cluster's name: `cluster:` is the cluster of -b or --context, `context:NAME` a
    named context, and `broker:HOST:PORT` an address."""
    return offsets_connection(ctx, options_for(ctx, cluster_name))


def options_for(ctx: click.Context, cluster_name: str) -> "ConnectionOptions":
    """Returns the connection options of the command line, but for the cluster of this name. Raises UsageError if the
    name is malformed."""
    kind, _, name = cluster_name.partition(":")
    if kind == "cluster" and not name:
        return command_line_options(ctx)
    if kind == "cluster" or not name or not is_cluster_name(cluster_name):
        raise click.UsageError(f"{cluster_name!r} names no cluster: write {FORMS}")
    options = command_line_options(ctx)
    if kind == "context":
        return replace(options, context=name, bootstrap=None)
    return replace(options, bootstrap=name, context=None)
