"""The option `--metrics HOST:PORT` of commands that serve clients."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from socket import socket

    from kcoord.metrics.listening import Endpoint

_LOOPBACK: Final = "127.0.0.1"
_LAST_PORT: Final = 65535


def metrics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that adds the option --metrics [HOST:]PORT, and passes the command the endpoint as `metrics`, or
    None."""
    return click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        callback=_parse_endpoint,
        help="Serve metrics for Prometheus at http://HOST:PORT/metrics; also /healthz and /readyz.",
    )(command)


def metrics_socket(metrics: "Endpoint | None") -> "AbstractContextManager[socket | None]":
    """Binds the socket on which metrics will be served, before anything else starts; a context manager of None without
    --metrics. Raises CannotListen."""
    if metrics is None:
        return nullcontext()
    from kcoord.metrics.listening import listen_on

    return listen_on(metrics)


def metrics_url(listening: "socket | None") -> str | None:
    """Returns the URL that Prometheus scrapes; None without --metrics."""
    if listening is None:
        return None
    from kcoord.metrics.listening import endpoint_of

    return f"http://{endpoint_of(listening)}/metrics"


def _parse_endpoint(ctx: click.Context, parameter: click.Parameter, text: str | None) -> "Endpoint | None":
    if text is None:
        return None
    from kcoord.metrics.listening import Endpoint  # imported here, since --help needs no sockets

    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or (colon and not host) or "//" in host:
        raise click.BadParameter(f"{text!r} is not HOST:PORT or PORT", param_hint="--metrics")
    if int(port) > _LAST_PORT:
        raise click.BadParameter(f"port {port} is above {_LAST_PORT}", param_hint="--metrics")
    return Endpoint(host=host.strip("[]") or _LOOPBACK, port=int(port))
