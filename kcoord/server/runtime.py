"""The runtime of `kcoord serve`: a cluster runtime with listening sockets."""

import asyncio
import logging
from collections import Counter
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kcoord.broker.cluster import NodeId
from kcoord.server.clock import now_ms
from kcoord.server.cluster_runtime import ClusterRuntime
from kcoord.server.connection.connection import Connection
from kcoord.server.dispatch.dispatch import Answer
from kcoord.server.dispatch.routes import Asker
from kcoord.server.fast_path.caching_connection import StandingConnection
from kcoord.server.listener.acceptor import Accepting, Arrive
from kcoord.server.preloading import preload_server
from kcoord.server.setup import Setup, address, bind, close_all, make_cluster

if TYPE_CHECKING:
    from kcoord.server.authorization.permissions import Authorizer
    from kcoord.server.listener.pre_auth_connection import Gate
    from kcoord.server.listener.secure_listener import Entrance

log = logging.getLogger("kcoord.server")

_BACKLOG: Final = 4096


class Runtime(ClusterRuntime):
    """Serves within `async with Runtime(setup) as runtime:`."""

    def __init__(self, setup: Setup) -> None:
        authorizer = _authorizer_by(setup.rules) if setup.rules else None
        self.refused: Counter[str] = Counter()  # refused clients, by security's Refusal
        self._entrance = self._entrance_of(setup)
        self._sockets = bind(setup)
        try:
            ports = [bound.getsockname()[1] for bound in self._sockets]
            super().__init__(make_cluster(setup, ports, now_ms()), authorizer=authorizer)
            self._accepting = Accepting(self._limits, self.refused, log)
        except BaseException:
            close_all(self._sockets)
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(address(node) for node in self.cluster.nodes.values())

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._limits.heed_descriptors()
        self._accepting.on_crowd = partial(self._chores.do, preload_server)
        for node, listening in zip(self.cluster.nodes.values(), self._sockets, strict=True):
            self._accepting.listen(listening, node.node_id, self._arriving_at(node.node_id), backlog=_BACKLOG)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop_listening()
        await super().__aexit__(kind, error, at)

    async def stop_listening(self) -> None:
        """Stops accepting clients and closes pre-auth connections."""
        await self._accepting.close()
        if self._entrance is not None:
            await self._entrance.close()

    # PreAuthHost.

    def welcome(self, gate: "Gate") -> str | None:
        return self._limits.came(gate.address)

    def left(self, gate: "Gate") -> None:
        self._limits.went(gate.address)

    def tell_versions(self, gate: "Gate", frame: bytes) -> None:
        told = self._dispatches[gate.node_id].decide(frame, Asker(gate.address), next(self._tickets), self.now())
        assert isinstance(told, Answer), "it is answered at once"
        gate.told(told.pieces)

    def let_in(self, gate: "Gate", transport: asyncio.Transport) -> Connection:
        connection = self._connection(NodeId(gate.node_id))
        connection.connection_made(transport)
        connection.asker.principal = gate.principal
        return connection

    def _entrance_of(self, setup: Setup) -> "Entrance | None":
        """Returns the secure listener, or None if neither TLS nor a login is required. Raises BadListenerTls."""
        if setup.listener is None or setup.listener.is_open:
            return None
        from kcoord.server.listener.secure_listener import Entrance

        return Entrance(self, setup.listener, setup.settings, self.refused)

    def _arriving_at(self, node_id: NodeId) -> Arrive:
        if self._entrance is not None:
            return self._entrance.arriving_at(node_id)
        loop = self._loop
        return lambda connection, _: loop.connect_accepted_socket(lambda: self._connection(node_id), connection)

    def _connection(self, node_id: NodeId) -> Connection:
        return StandingConnection(self, node_id, self._settings.socket_request_max_bytes)


def _authorizer_by(rules: Path) -> "Authorizer":
    """Loads the rules. Raises BadRules."""
    from kcoord.security.rules_file import RulesFile
    from kcoord.server.authorization.permissions import Authorizer

    return Authorizer(RulesFile(rules))
