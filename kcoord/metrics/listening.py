"""The socket of the metrics server, which is bound before anything else is started."""

import socket
from dataclasses import dataclass

from kcoord.endpoints import format_endpoint
from kcoord.exceptions import LocalFailure


class CannotListen(LocalFailure, RuntimeError):
    """An error: the metrics server cannot bind its port, because it is taken or the host is not an address of this
    machine.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The host and port on which the metrics server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_endpoint(self.host, self.port)


def endpoint_of(listening: socket.socket) -> Endpoint:
    """Returns the host and port that a listening socket is bound to."""
    host, port = listening.getsockname()[:2]
    return Endpoint(host=host, port=port)


def listen_on(endpoint: Endpoint) -> socket.socket:
    """Opens a listening socket for the metrics server; port 0 takes a free one. Raises CannotListen."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise _failure(endpoint, error) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise _failure(endpoint, error) from None
    return listening


def _failure(endpoint: Endpoint, error: OSError) -> CannotListen:
    return CannotListen(f"cannot listen on {endpoint} for --metrics: {error.strerror or error}")
