"""The running proxy: accepts clients, connects each of them to a broker, and follows brokers as they come and go."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

from kcoord.client.connect_errors import CannotConnect
from kcoord.protocol.headers import RequestHeader, read_request_start
from kcoord.proxy.brokers.api_versions_cache import VersionTelling
from kcoord.proxy.brokers.broker_connections import connect
from kcoord.proxy.brokers.failures import Failure, told_together
from kcoord.proxy.brokers.metadata_refresher import Looking
from kcoord.proxy.forwarding import api_versions
from kcoord.proxy.forwarding.addresses import Brokers, Changes
from kcoord.proxy.forwarding.downstream_connection import ClientSide
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.proxy.forwarding.interceptors import Interceptor, Meter
from kcoord.proxy.forwarding.routes import SASL_AUTHENTICATE, SASL_HANDSHAKE, Routes
from kcoord.proxy.forwarding.upstream_connection import UpstreamSide
from kcoord.proxy.listeners import BOOTSTRAP, Listeners
from kcoord.proxy.no_metrics import NoMeter
from kcoord.proxy.setup import ProxySetup
from kcoord.security.refusals import Refusal
from kcoord.server.connection.draining import drain
from kcoord.server.listener.acceptor import Accepting
from kcoord.server.listener.connection_limits import ConnectionLimits
from kcoord.server.log_text import node_word
from kcoord.server.preloading import in_slices, preload_proxy

if TYPE_CHECKING:
    from kcoord.server.listener.pre_auth_connection import Gate
    from kcoord.server.listener.secure_listener import Entrance

log = logging.getLogger("kcoord.proxy")

_LOGINS: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
_SWEEPS_PER_IDLE: Final = 2
_DESCRIPTORS_PER_CLIENT: Final = 2  # its own connection, and the one to a broker


class Proxy:
    """The proxy. `async with Proxy(setup) as proxy` binds the ports and learns the brokers; `serve` admits clients."""

    def __init__(self, setup: ProxySetup, meter: Meter | None = None) -> None:
        """Prepares a proxy from its setup. Raises BadListenerTls."""
        self.setup = setup
        self.meter: Meter = meter or NoMeter()
        self.brokers = Brokers()
        self.routes = Routes(())
        self.max_frame_bytes = setup.settings.socket_request_max_bytes
        self.refused: Counter[str] = Counter()  # by kcoord.security.refusals.Refusal
        self._interceptors: Sequence[Interceptor] = ()
        self._clients: set[ClientSide] = set()
        self._limits = ConnectionLimits(setup.settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreachable: dict[int | None, str] = {}
        self._held_by: dict[ClientSide, int] = {}
        self._held_bytes = 0
        self._turn = 0
        self._is_serving = False
        self._accepting = Accepting(self._limits, self.refused, log)
        self._listeners = Listeners(setup, self._client, self._accepting, self._entrance())
        self._looking = Looking(self)
        self._versions = VersionTelling(setup)
        self._told_by: WeakKeyDictionary[Gate, Place] = WeakKeyDictionary()

    @property
    def bootstrap(self) -> str:
        """The host:port that clients bootstrap from."""
        return str(self._listeners.bootstrap)

    @property
    def clients(self) -> Set[ClientSide]:
        return self._clients

    @property
    def is_ready(self) -> bool:
        """Whether clients are served and the last metadata refresh was answered."""
        return self._is_serving and self._looking.is_answered

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            self._listeners.begin()
            await self._looking.begin()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._end()

    async def serve(self, interceptors: Sequence[Interceptor] = ()) -> None:
        """Starts serving clients, through these interceptors."""
        self._interceptors = interceptors
        self.routes = Routes(interceptors, refused=_LOGINS if self.setup.ends_logins else frozenset())
        self._is_serving = True
        self._limits.heed_descriptors(per_client=_DESCRIPTORS_PER_CLIENT)
        self._accepting.on_crowd = lambda: self._start(in_slices(preload_proxy(self.limits)))
        self._listeners.serve()
        self._start(self._sweep())

    async def _end(self) -> None:
        self._is_serving = False
        await self._looking.end()
        await self._versions.end()
        await self._listeners.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in list(self._clients):
            client.abort()

    # connection_host.ConnectionHost

    def admit(self, client: ClientSide) -> str | None:
        if reason := self._limits.came(client.host):
            self.refused[Refusal.LIMIT] += 1
            return reason
        self._clients.add(client)
        self.meter.opened(client)
        log.debug("connected peer=%s node=%s", client.peer, node_word(client.node_id))
        return None

    def gone(self, client: ClientSide) -> None:
        self._limits.went(client.host)
        if client not in self._clients:  # It was refused by `admit`.
            return
        self._clients.remove(client)
        self._tell_bytes(client)
        self.meter.closed(client)
        log.debug("gone peer=%s node=%s", client.peer, node_word(client.node_id))
        for interceptor in self._interceptors:
            interceptor.gone(client)

    def held(self, client: ClientSide) -> None:
        now = client.held_bytes
        self._held_bytes += now - self._held_by.pop(client, 0)
        if now:
            self._held_by[client] = now
        most = self.setup.settings.queued_max_request_bytes
        if self._held_bytes > most:
            greediest = max(self._held_by, key=lambda each: each.held_bytes)
            greediest.hang_up(f"queued.max.request.bytes={most} are held")
            greediest.drop()

    def connect(self, client: ClientSide) -> None:
        self._start(self._connect(client))

    # connection_host.BrokerDirectory and metadata_refresher.MetadataTarget

    @property
    def limits(self) -> Mapping[int, range]:
        return self.routes.limits

    def place_of(self, node_id: int) -> Place:
        return self._listeners.place_of(node_id)

    def saw(self, told: Mapping[int, Place], *, is_all: bool) -> None:
        for node_id in told:
            self._listeners.open(node_id)
        changes = self.brokers.saw_all(told, self._loop.time()) if is_all else self.brokers.saw(told)
        if changes != Changes():
            self._log_changes(changes)

    def heard_nobody(self) -> None:
        self.meter.not_connected(None)

    # The host of pre-auth connections, on a listener with TLS or logins.

    def welcome(self, gate: "Gate") -> str | None:
        return self._limits.came(gate.address)

    def left(self, gate: "Gate") -> None:
        self._limits.went(gate.address)

    def tell_versions(self, gate: "Gate", frame: bytes) -> None:
        asked = read_request_start(frame)
        if asked.api_version > api_versions.NEWEST:
            gate.told([api_versions.unsupported(asked.correlation_id, api_versions.NEWEST)])
        else:
            self._start(self._tell_versions(gate, asked))

    def let_in(self, gate: "Gate", transport: asyncio.Transport) -> ClientSide:
        client = self._client(self._meant_by(gate))
        client.principal = gate.principal
        client.first_choice = self._told_by.get(gate)
        client.connection_made(transport)
        return client

    def _meant_by(self, gate: "Gate") -> int | None:
        if self.setup.sni_domain:
            return self._listeners.node_of(gate.server_name)
        return None if gate.node_id == BOOTSTRAP else gate.node_id

    async def _tell_versions(self, gate: "Gate", asked: RequestHeader) -> None:
        """Answers for the broker that the client will be connected to: another may run another version."""
        node_id = self._meant_by(gate)
        try:
            told = await self._versions.hear(self.ways_to(node_id), asked.api_version)
        except CannotConnect as error:
            self._not_reached(node_id, str(error))
            gate.hang_up()
        else:
            self._told_by[gate] = told.by
            gate.told([told.to(asked.correlation_id, asked.api_version, self.limits)])

    # Brokers.

    async def _connect(self, client: ClientSide) -> None:
        try:
            await self._connect_somewhere(client)
        except Exception:
            log.exception("bug peer=%s node=%s: it has no broker", client.peer, node_word(client.node_id))
            client.close()

    async def _connect_somewhere(self, client: ClientSide) -> None:
        failures = []
        for place in self.ways_to(client.node_id, first=client.first_choice):
            side = UpstreamSide(client, self)
            patience = self.setup.connect_timeout
            try:
                await connect(place, self.setup.security, side, client_id=self.setup.client_id, patience=patience)
            except CannotConnect as error:
                failures.append(Failure(place, str(error)))
            else:
                self._reached(client.node_id)
                client.connected(side)
                return
        # Sorted, so that the reason is the same text whichever broker was tried first.
        self._not_reached(client.node_id, told_together(sorted(failures)) or "nothing is known of it")
        client.close()

    def ways_to(self, node_id: int | None, *, first: Place | None = None) -> list[Place]:
        """Returns the endpoints to try in order: one if a broker is meant, otherwise all, `first` or round-robin first.

        If the proxy cannot refresh metadata itself, any broker serves in place of one not known yet: the Metadata
        answer of that broker will name it.
        """
        if node_id is not None:
            place = self.brokers.place(node_id)
            if place or not self._looking.needs_login:
                return [place] if place else []
        return list(dict.fromkeys([*([first] if first else ()), *self._ways_to_any()]))

    def _ways_to_any(self) -> list[Place]:
        self._turn += 1
        live = [place for each in self.brokers.live if (place := self.brokers.place(each))]
        places = live or list(self.setup.upstream)
        first = self._turn % len(places)
        return [*places[first:], *places[:first], *self.setup.upstream]

    def _reached(self, node_id: int | None) -> None:
        if self._unreachable.pop(node_id, None):
            log.info("reached again node=%s", node_word(node_id))

    def _not_reached(self, node_id: int | None, reason: str) -> None:
        """Logs one line when a broker becomes unreachable, or when the reason changes: clients retry all the time, and
        some with broker names that do not exist."""
        self.meter.not_connected(node_id)
        self._looking.look_soon()
        if node_id is not None and self.brokers.place(node_id) is None:
            log.debug("not reached node=%s why=%r", node_id, reason)
        elif self._unreachable.get(node_id) != reason:
            self._unreachable[node_id] = reason
            log.warning("not reached node=%s why=%r", node_word(node_id), reason)

    def _log_changes(self, changes: Changes) -> None:
        for node_id in changes.new:
            log.info("broker node=%s upstream=%s here=%s", node_id, self.brokers.place(node_id), self.place_of(node_id))
        for node_id in changes.moved:
            log.info("broker moved node=%s upstream=%s", node_id, self.brokers.place(node_id))
        for node_id in changes.missing:
            log.info("broker missing node=%s", node_id)
        for node_id in changes.returned:
            log.info("broker returned node=%s upstream=%s", node_id, self.brokers.place(node_id))

    # Clients

    def _client(self, node_id: int | None) -> ClientSide:
        return ClientSide(self, node_id)

    def _entrance(self) -> "Entrance | None":
        """Returns None if the listener wants neither TLS nor a login. Raises BadListenerTls."""
        if self.setup.listener is None or self.setup.listener.is_open:
            return None
        from kcoord.server.listener.secure_listener import Entrance

        return Entrance(self, self.setup.listener, self.setup.settings, self.refused)

    async def _sweep(self) -> None:
        """Closes idle clients and forgets missing brokers, twice per connections.max.idle.ms: a client without traffic
        between two sweeps has reached the limit."""
        while True:
            await asyncio.sleep(self.setup.settings.connections_max_idle_ms / 1000 / _SWEEPS_PER_IDLE)
            await drain()  # after a pause of this process, requests that arrived meanwhile may be unread
            for client in list(self._clients):
                self._tell_bytes(client)
                if client.idle_sweeps >= _SWEEPS_PER_IDLE and client.is_idle:
                    client.abort()
                client.idle_sweeps += 1
            for node_id in self.brokers.forget(self._loop.time()):
                self._listeners.close(node_id)
                self._unreachable.pop(node_id, None)
                log.info("broker forgotten node=%s", node_id)

    def tell_bytes(self) -> None:
        """Adds all bytes forwarded so far to the metrics."""
        for client in self._clients:
            self._tell_bytes(client)

    def _tell_bytes(self, client: ClientSide) -> None:
        answered = client.upstream.passed_bytes if client.upstream else 0
        self.meter.sent(client.passed_bytes, answered)
        client.passed_bytes = 0
        if client.upstream:
            client.upstream.passed_bytes = 0

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("bug: a task ended by %r", error, exc_info=error)
