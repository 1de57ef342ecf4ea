"""Options that name the cluster. They are allowed before the noun, before the verb and after it."""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from ..output.output import echo_err
from .shared_options import shared_option, shared_options, shared_values, store_value

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kcoord.admin.connecting.connection import Connection, ConnectionOptions

_WARNED: Final = "kcoord.warned-of-secrets"
_SAFER: Final = (
    "say -X KEY=env:NAME, KEY=file:PATH or KEY=command:…, or put it into a context (kcoord context add) "
    "or a file (--command-config, KCOORD_COMMAND_CONFIG)"
)
DEBUG: Final = "kcoord.debug"
"""The key in ctx.meta for whether --debug was given; main() removes it from the arguments."""


def complete_contexts(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Completes the names of contexts for the shell."""
    from click.shell_completion import CompletionItem

    from kcoord.admin.connecting.contexts import BadContexts, contexts_path, load

    try:
        contexts = load(contexts_path(os.environ))
    except BadContexts:
        return []  # completion cannot show errors; the command itself reports them
    return [
        CompletionItem(name, help=context.bootstrap or str(context.command_config))
        for name, context in sorted(contexts.by_name.items())
        if name.startswith(incomplete)
    ]


def _pair(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    pairs = []
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            # The message has the key only: the rest may be a secret with a mistyped equals sign.
            raise click.BadParameter(f"{key.split(':')[0]!r} must be followed by =VALUE", ctx, parameter)
        pairs.append((key.strip(), value))
    return store_value(ctx, parameter, tuple(pairs))


def _warn_of_secrets(ctx: click.Context, pairs: Sequence[tuple[str, str]]) -> None:
    """Warns once about secrets on the command line, which other users of the machine can see."""
    if not pairs or _WARNED in ctx.meta or ctx.resilient_parsing:  # resilient_parsing: a shell completes the line
        return
    from kcoord.admin.connecting.secrets import holds_secret

    seen = [key for key, value in pairs if holds_secret(key, value)]
    if seen:
        ctx.meta[_WARNED] = True
        echo_err(f"kcoord: others on this machine can see {', '.join(dict.fromkeys(seen))} of -X (ps): {_SAFER}")


BOOTSTRAP: Final = shared_option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT,…", help="Brokers to begin with; a few are enough."
)
COMMAND_CONFIG: Final = shared_option(
    "--command-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Java's client.properties: security, JAAS, stores, bootstrap.servers.",
)
PAIRS: Final = click.option(
    "-X",
    "pairs",
    multiple=True,
    expose_value=False,
    callback=_pair,
    metavar="KEY=VALUE",
    help="A setting by librdkafka's name, over that of the file. May be repeated.",
)
CONTEXT: Final = shared_option(
    "--context", metavar="NAME", shell_complete=complete_contexts, help="A cluster that kcoord context add has named."
)
REQUEST_TIMEOUT: Final = shared_option(
    "--request-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long to wait for a broker; 30 by default.",
)

connection_options = shared_options(BOOTSTRAP, COMMAND_CONFIG, PAIRS, CONTEXT, REQUEST_TIMEOUT)
"""Options for every command that connects to a cluster, and for the groups above it; `connection(ctx)` evaluates
them."""


def command_line_options(ctx: click.Context) -> "ConnectionOptions":
    """Returns the connection options (-b, --context, -X and so on) that the command line has, without files and
    contexts."""
    from kcoord.admin.connecting.connection import ConnectionOptions

    known = ConnectionOptions.__dataclass_fields__
    return ConnectionOptions(**{name: value for name, value in shared_values(ctx).items() if name in known})


def connection(ctx: click.Context, options: "ConnectionOptions | None" = None) -> "Connection":
    """Resolves how to connect to the cluster, from the command line, or from `options` instead, and the environment.

    Raises UsageError if no cluster is named. Warnings go to stderr.
    """
    from kcoord.admin.connecting.connection import NoCluster, resolve_connection

    try:
        found = resolve_connection(options or command_line_options(ctx), os.environ)
    except NoCluster as error:
        raise click.UsageError(str(error), ctx) from None
    _warn_of_secrets(ctx, (options or command_line_options(ctx)).pairs)
    for warning in found.warnings:
        echo_err(f"kcoord: {warning}")
    if found.ignored and ctx.meta.get(DEBUG):
        echo_err(f"kcoord: of no meaning here: {', '.join(found.ignored)}")
    return found


def format_cluster_options(ctx: click.Context, given: "ConnectionOptions | None" = None) -> str:
    """Formats the options of the command line that name the cluster, for a proposed command that works when it is
    copied. The values of secret -X options are left to the user."""
    from kcoord.admin.connecting.secrets import holds_secret

    given = given or command_line_options(ctx)
    options = [
        *(("-b", given.bootstrap) if given.bootstrap else ()),
        *(("--command-config", str(given.command_config)) if given.command_config else ()),
        *(("--context", given.context) if given.context else ()),
    ]
    for key, value in given.pairs:
        options += ["-X", f"{key}=…" if holds_secret(key, value) else f"{key}={value}"]
    return "".join(f" {quote(option)}" for option in options)
