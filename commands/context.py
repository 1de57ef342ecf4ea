"""`kcoord context`: named clusters."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options.connection_options import BOOTSTRAP, COMMAND_CONFIG, PAIRS, command_line_options, complete_contexts
from .options.shared_options import shared_options
from .output.output import Column, Table, echo_err, output_options, show

if TYPE_CHECKING:
    from kcoord.admin.connecting.contexts import Context, Contexts


@click.group()
def context() -> None:
    """Named clusters: where they are and how to log in, kept in your config folder.

    \b
    kcoord context add prod -b kafka1:9093 --command-config prod.properties
    kcoord context use prod
    kcoord groups list

    Secrets are kept by reference only, as env:NAME, file:PATH or command:…, and fetched when they are needed.
    """


@context.command("add", short_help="Name a cluster.")
@click.argument("name")
@click.option("--replace", "replaces", is_flag=True, help="Take the place of the context that has this name.")
@shared_options(BOOTSTRAP, COMMAND_CONFIG, PAIRS)
@click.pass_context
def add(ctx: click.Context, name: str, replaces: bool) -> None:
    """Name a cluster. The first one is used from then on.

    \b
    kcoord context add local -b 127.0.0.1:9092
    kcoord context add prod -b kafka1:9093 --command-config ~/prod.properties
    kcoord context add test -b kafka1:9093 -X security.protocol=SASL_SSL -X sasl.mechanisms=SCRAM-SHA-512 \\
        -X sasl.username=me -X 'sasl.password=command:pass show kafka/test'
    """
    from kcoord.admin.connecting.client_settings import Setting
    from kcoord.admin.connecting.connection import addresses
    from kcoord.admin.connecting.contexts import Context

    given = command_line_options(ctx)
    if given.bootstrap:
        addresses(Setting(value=given.bootstrap, origin="-b"))
    path = given.command_config
    if path is not None and not path.expanduser().is_file():
        raise click.BadParameter(f"there is no file {path}", ctx, param_hint="--command-config")
    if path is not None and not given.bootstrap and not _has_bootstrap_servers(path):
        raise click.UsageError(f"{path} has no bootstrap.servers: say -b too", ctx)
    contexts = _load()
    if name in contexts.by_name and not replaces:
        raise click.UsageError(f"there is a context {name!r} already: --replace takes its place", ctx)
    added = Context(
        bootstrap=given.bootstrap,
        command_config=path.expanduser().absolute() if path else None,
        settings=dict(given.pairs),
    )
    _save(contexts.with_context(name, added))
    echo_err(f"context {name}: {_format_brokers(added)}")


@context.command("use", short_help="Choose the context that is used by default.")
@click.argument("name", shell_complete=complete_contexts)
def use(name: str) -> None:
    """Choose the context that is used by default.

    \b
    kcoord context use prod
    """
    _save(_load().with_current(name))
    echo_err(f"context {name} is used from now on")


@context.command("list", short_help="All contexts.")
@output_options
@click.pass_context
def list_(ctx: click.Context) -> None:
    """All contexts; the one in use has a star.

    \b
    kcoord context list
    kcoord context list -o json
    """
    contexts = _load()
    rows = [
        ("*" if name == contexts.current else "", name, each.bootstrap or "", str(each.command_config or ""))
        for name, each in sorted(contexts.by_name.items())
    ]
    columns = [Column(" "), Column("NAME"), Column("BOOTSTRAP"), Column("COMMAND CONFIG")]
    document = [_document(name, each, contexts) for name, each in sorted(contexts.by_name.items())]
    if not rows:
        echo_err("there are no contexts yet: kcoord context add NAME -b HOST:PORT makes one")
    show(ctx, "contexts", {"contexts": document}, [Table(columns=columns, rows=rows)])


@context.command("show", short_help="One context, secrets by reference.")
@click.argument("name", shell_complete=complete_contexts)
@output_options
@click.pass_context
def show_(ctx: click.Context, name: str) -> None:
    """What a context holds. Secrets are shown as the references that they are.

    \b
    kcoord context show prod
    """
    contexts = _load()
    found = contexts.named(name)
    document = _document(name, found, contexts)
    pairs = [("bootstrap", found.bootstrap), ("command config", str(found.command_config or ""))]
    rows = [(key, value) for key, value in [*pairs, *document["settings"].items()] if value]
    show(ctx, "context", document, [Table(columns=[Column("SETTING"), Column("VALUE")], rows=rows)])


@context.command("remove", short_help="Forget a context.")
@click.argument("name", shell_complete=complete_contexts)
def remove(name: str) -> None:
    """Forget a context. The cluster is not touched.

    \b
    kcoord context remove test
    """
    _save(_load().without(name))
    echo_err(f"context {name} is removed")


def _document(name: str, found: "Context", contexts: "Contexts") -> dict[str, Any]:
    from kcoord.admin.connecting.contexts import holds_plain_secret
    from kcoord.client.secret import HIDDEN

    # A user may have written a secret into the file by hand.
    settings = {key: HIDDEN if holds_plain_secret(key, value) else value for key, value in found.settings.items()}
    return {
        "name": name,
        "current": name == contexts.current,
        "bootstrap": found.bootstrap,
        "command_config": str(found.command_config) if found.command_config else None,
        "settings": settings,
    }


def _has_bootstrap_servers(path: Path) -> bool:
    from kcoord.java_properties import read_properties_file

    return any(each.name == "bootstrap.servers" for each in read_properties_file(path.expanduser()))


def _format_brokers(added: "Context") -> str:
    return added.bootstrap or f"the bootstrap.servers of {added.command_config}"


def _load() -> "Contexts":
    from kcoord.admin.connecting.contexts import load, permission_warning

    path = _path()
    if warning := permission_warning(path):
        echo_err(f"kcoord: {warning}")
    return load(path)


def _save(contexts: "Contexts") -> None:
    from kcoord.admin.connecting.contexts import save

    save(_path(), contexts)


def _path() -> Path:
    from kcoord.admin.connecting.contexts import contexts_path

    return contexts_path(os.environ)
