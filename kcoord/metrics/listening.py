"""The socket of the metrics server, which is bound before anything else is started."""

import socket
from dataclasses import dataclass


class CannotListen(RuntimeError):
    """The port is taken, or the host is not an address of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Host and port of the metrics server."""

    host: str
    port: int


def shown(at: Where) -> str:
    return f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}"


def where(listening: socket.socket) -> Where:
    host, port = listening.getsockname()[:2]
    return Where(host=host, port=port)


def bound(at: Where) -> socket.socket:
    """Opens a listening socket; port 0 takes a free one. Raises CannotListen."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise _failure(at, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise _failure(at, error) from None
    return listening


def _failure(at: Where, error: OSError) -> CannotListen:
    return CannotListen(f"cannot listen on {shown(at)} for --metrics: {error.strerror or error}")
