"""The listening sockets: one port per broker and a bootstrap port, or one port for all brokers by server name (SNI).

A broker's listener is bound synchronously, while the answer that first names the broker is processed. From then on the
kernel accepts connections, so the answer that carries the port may be sent.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection
from kcoord.proxy.rewriting.addresses import PortNumbering
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.setup import CannotProxy, ProxySetup
from kcoord.server.listener.acceptor import Acceptor, OnAccept

if TYPE_CHECKING:
    from kcoord.server.listener.secure_listener import SecureListener

log = logging.getLogger("kcoord.proxy")

BOOTSTRAP: Final = -1
"""The broker id of the bootstrap port, whose clients accept any broker."""
_BACKLOG: Final = 4096


class Listeners:
    """The proxy's listening sockets: a bootstrap port and one port per broker, or one port for all brokers by TLS
    server name (SNI)."""

    def __init__(
        self,
        setup: ProxySetup,
        make_client: Callable[[int | None], DownstreamConnection],
        acceptor: Acceptor,
        secure_listener: "SecureListener | None",
    ) -> None:
        """`make_client` makes the connection of a client that means a broker. With a secure listener, clients first
        go through its pre-auth connections, whose host makes the connection."""
        self._setup = setup
        self._make_client = make_client
        self._acceptor = acceptor
        self._secure_listener = secure_listener
        self._numbering = PortNumbering(port_base=setup.port_base)
        self._sockets: dict[int, socket.socket] = {}
        self._is_serving = False
        self._address: tuple[socket.AddressFamily, tuple[Any, ...]] | None = None

    @property
    def bootstrap(self) -> Endpoint:
        """The endpoint that clients bootstrap from."""
        host = self._setup.advertised_host or self._setup.host
        return Endpoint(host, self._port_of(BOOTSTRAP))

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Returns the endpoint of the proxy at which clients reach this broker."""
        if self._setup.sni_domain:
            return Endpoint(f"b{node_id}.{self._setup.sni_domain}", self._port_of(BOOTSTRAP))
        return self.bootstrap._replace(port=self._port_of(node_id))

    def node_of(self, server_name: str | None) -> int | None:
        """Returns the id of the broker that a client means by the TLS server name it sent, or None if the name is no
        broker's."""
        named = re.fullmatch(rf"b(\d{{1,10}})\.{re.escape(self._setup.sni_domain or '')}", server_name or "", re.I)
        return int(named[1]) if named else None

    def begin(self) -> None:
        """Binds the bootstrap port and the ports of the brokers that were configured; nothing is accepted yet. Raises
        CannotProxy."""
        self._bind(BOOTSTRAP, self._setup.port)
        for node_id in self._setup.broker_ids:
            self.open(node_id)

    def open(self, node_id: int) -> None:
        """Opens the port of a broker if it has none. Raises CannotProxy, but only before clients are served: later a
        port that is taken is replaced by any free one."""
        if self._setup.sni_domain or node_id in self._sockets:
            return
        port = self._numbering.port_of(node_id)
        try:
            if port is None:
                raise CannotProxy(f"port {self._setup.port_base} + {node_id} of broker {node_id} is above 65535")
            self._bind(node_id, port)
        except CannotProxy as error:
            if not self._is_serving:
                raise
            self._bind(node_id, 0)
            log.warning("another port node=%s port=%s why=%r", node_id, self._port_of(node_id), str(error))
        if self._is_serving:
            self._listen(node_id)

    def close(self, node_id: int) -> None:
        """Closes the port of a broker that is forgotten. That of a configured broker id, or of a secure listener, stays
        open: clients that connect there are hung up on."""
        if self._secure_listener or node_id in self._setup.broker_ids:
            return
        self._close(node_id)

    def _close(self, node_id: int) -> None:
        if listening := self._sockets.pop(node_id, None):
            self._acceptor.stop(listening)

    def serve(self) -> None:
        """Starts accepting clients on all ports."""
        self._is_serving = True
        for node_id in self._sockets:
            self._listen(node_id)

    async def end(self) -> None:
        """Closes all ports, and the pre-auth connections."""
        if self._secure_listener:
            await self._secure_listener.close()
        for node_id in list(self._sockets):
            self._close(node_id)
        await self._acceptor.close()

    def _port_of(self, node_id: int) -> int:
        return int(self._sockets[node_id].getsockname()[1])

    def _bind(self, node_id: int, port: int) -> None:
        try:
            family, host = self._resolve()
            listening = socket.socket(family, socket.SOCK_STREAM)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind((host[0], port, *host[2:]))
                listening.listen(_BACKLOG)
            except BaseException:
                listening.close()
                raise
        except OSError as error:
            for_broker = "" if node_id == BOOTSTRAP else f" for broker {node_id}"
            endpoint = Endpoint(self._setup.host, port)
            raise CannotProxy(f"cannot listen on {endpoint}{for_broker}: {error.strerror or error}") from None
        self._sockets[node_id] = listening

    def _resolve(self) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
        """Resolves the host once: a name service may be slow or unavailable when a broker's listener is opened."""
        if self._address is None:
            family, _, _, _, address = socket.getaddrinfo(self._setup.host, 0, type=socket.SOCK_STREAM)[0]
            self._address = (family, address)
        return self._address

    def _listen(self, node_id: int) -> None:
        target = None if node_id == BOOTSTRAP else node_id
        on_accept = (
            self._secure_listener.on_accept_for(node_id) if self._secure_listener else self._on_accept_for(target)
        )
        self._acceptor.listen(self._sockets[node_id], target, on_accept, backlog=_BACKLOG)

    def _on_accept_for(self, target: int | None) -> OnAccept:
        loop = asyncio.get_running_loop()
        return lambda connection, _: loop.connect_accepted_socket(lambda: self._make_client(target), connection)
