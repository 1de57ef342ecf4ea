"""The runtime of `kcoord serve`: a cluster runtime with listening sockets."""

import asyncio
import logging
from collections import Counter
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kcoord.broker.cluster import NodeId
from kcoord.endpoints import format_endpoint
from kcoord.server.clock import now_ms
from kcoord.server.cluster_runtime import ClusterRuntime
from kcoord.server.connection.connection import Connection
from kcoord.server.dispatch.dispatch import Answer
from kcoord.server.fast_path.caching_connection import CachingConnection
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.server.listener.acceptor import Acceptor, OnAccept
from kcoord.server.preloading import preload_server
from kcoord.server.setup import Setup, bind, close_all, make_cluster

if TYPE_CHECKING:
    from kcoord.server.authorization.permissions import Authorizer
    from kcoord.server.listener.pre_auth_connection import PreAuthConnection
    from kcoord.server.listener.secure_listener import SecureListener

log = logging.getLogger("kcoord.server")

_BACKLOG: Final = 4096


class Runtime(ClusterRuntime):
    """The runtime of `kcoord serve`: a ClusterRuntime with listening sockets. It serves within `async with
    Runtime(setup) as runtime:`.
    """

    def __init__(self, setup: Setup) -> None:
        authorizer = _load_authorizer(setup.rules) if setup.rules else None
        self.refused: Counter[str] = Counter()  # refused clients, by security's Refusal
        self._secure_listener = self._make_secure_listener(setup)
        self._sockets = bind(setup)
        try:
            ports = [bound.getsockname()[1] for bound in self._sockets]
            super().__init__(make_cluster(setup, ports, now_ms()), authorizer=authorizer)
            self._acceptor = Acceptor(self._limits, self.refused, log)
        except BaseException:
            close_all(self._sockets)
            raise

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes as clients' bootstrap.servers: host:port, separated by commas."""
        return ",".join(format_endpoint(node.host, node.port) for node in self.cluster.nodes.values())

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._limits.cap_by_descriptors()
        self._acceptor.on_half_full = partial(self._maintenance.run_once, preload_server)
        for node, listening in zip(self.cluster.nodes.values(), self._sockets, strict=True):
            self._acceptor.listen(listening, node.node_id, self._on_accept_for(node.node_id), backlog=_BACKLOG)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop_listening()
        await super().__aexit__(kind, error, at)

    async def stop_listening(self) -> None:
        """Stops accepting clients, and closes connections whose login is not done."""
        await self._acceptor.close()
        if self._secure_listener is not None:
            await self._secure_listener.close()

    # PreAuthHost.

    def admit_pre_auth(self, pre_auth: "PreAuthConnection") -> str | None:
        """Counts a client that has connected but not logged in; returns the connection limit that it exceeds,
        or None.
        """
        return self._limits.add(pre_auth.address)

    def on_pre_auth_closed(self, pre_auth: "PreAuthConnection") -> None:
        """Stops counting a client whose pre-auth connection has ended."""
        self._limits.remove(pre_auth.address)

    def answer_api_versions(self, pre_auth: "PreAuthConnection", frame: bytes) -> None:
        """Answers an ApiVersions request that came before the login."""
        answer = self._dispatches[pre_auth.node_id].decide(
            frame, ClientSession(pre_auth.address), next(self._tickets), self.now()
        )
        assert isinstance(answer, Answer), "it is answered at once"
        pre_auth.send_api_versions(answer.pieces)

    def promote(self, pre_auth: "PreAuthConnection", transport: asyncio.Transport) -> Connection:
        """Makes the connection of a client that has logged in, with its principal."""
        connection = self._connection(NodeId(pre_auth.node_id))
        connection.connection_made(transport)
        connection.client.principal = pre_auth.principal
        return connection

    def _make_secure_listener(self, setup: Setup) -> "SecureListener | None":
        """Returns the secure listener, or None if neither TLS nor a login is required. Raises BadListenerTls."""
        if setup.listener is None or setup.listener.is_open:
            return None
        from kcoord.server.listener.secure_listener import SecureListener

        return SecureListener(self, setup.listener, setup.settings, self.refused)

    def _on_accept_for(self, node_id: NodeId) -> OnAccept:
        if self._secure_listener is not None:
            return self._secure_listener.on_accept_for(node_id)
        loop = self._loop
        return lambda connection, _: loop.connect_accepted_socket(lambda: self._connection(node_id), connection)

    def _connection(self, node_id: NodeId) -> Connection:
        return CachingConnection(self, node_id, self._settings.socket_request_max_bytes)


def _load_authorizer(rules: Path) -> "Authorizer":
    """Loads the rules. Raises BadRules."""
    from kcoord.security.rules_file import RulesFile
    from kcoord.server.authorization.permissions import Authorizer

    return Authorizer(RulesFile(rules))
