"""The option `--rules FILE` of commands that serve clients."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..output.output import echo_err

if TYPE_CHECKING:
    from kcoord.security.listener import Listener


def rules_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the option --rules FILE (authorization rules), and passes the command the path as `rules`,
    or None."""
    return click.option(
        "--rules",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file with rules like Kafka's ACLs; what no rule allows is denied. It is read again when it changes.",
    )(command)


def warn_if_nobody_logs_in(rules: Path | None, listener: "Listener | None") -> None:
    """Prints a warning if authorization rules are used without authentication, since then every client is
    User:ANONYMOUS."""
    if rules is not None and (listener is None or not listener.names_clients):
        echo_err("kcoord: without --sasl or --tls-client-ca, everybody is User:ANONYMOUS to the rules")
