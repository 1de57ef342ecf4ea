"""The running proxy: accepts clients, connects each of them to a broker, and follows brokers as they come and go."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

from kcoord.api_keys import ApiKey
from kcoord.client.connect_errors import CannotConnect
from kcoord.protocol.headers import RequestHeader, read_request_start
from kcoord.proxy.brokers.api_versions_cache import ApiVersionsCache
from kcoord.proxy.brokers.broker_connections import connect
from kcoord.proxy.brokers.failures import Failure, format_failures
from kcoord.proxy.brokers.metadata_refresher import MetadataRefresher
from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection
from kcoord.proxy.forwarding.interceptors import Interceptor, MetricsSink
from kcoord.proxy.forwarding.routes import Routes
from kcoord.proxy.forwarding.upstream_connection import UpstreamConnection
from kcoord.proxy.listeners import BOOTSTRAP, Listeners
from kcoord.proxy.no_metrics import NoMetrics
from kcoord.proxy.rewriting import api_versions
from kcoord.proxy.rewriting.addresses import Brokers, Changes
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.setup import ProxySetup
from kcoord.security.refusals import Refusal
from kcoord.server.connection.draining import drain
from kcoord.server.listener.acceptor import Acceptor
from kcoord.server.listener.connection_limits import ConnectionLimits
from kcoord.server.log_text import format_node
from kcoord.server.preloading import preload_proxy, run_in_slices

if TYPE_CHECKING:
    from kcoord.server.listener.pre_auth_connection import PreAuthConnection
    from kcoord.server.listener.secure_listener import SecureListener

log = logging.getLogger("kcoord.proxy")

_LOGINS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_SWEEPS_PER_IDLE: Final = 2
_DESCRIPTORS_PER_CLIENT: Final = 2  # its own connection, and the one to a broker


class Proxy:
    """A running proxy in front of a Kafka cluster. `async with Proxy(setup) as proxy` binds the ports and learns the
    brokers; `serve` admits clients."""

    def __init__(self, setup: ProxySetup, metrics: MetricsSink | None = None) -> None:
        """Prepares a proxy from its setup. Raises BadListenerTls."""
        self.setup = setup
        self.metrics: MetricsSink = metrics or NoMetrics()
        self.brokers = Brokers()
        self.routes = Routes(())
        self.max_frame_bytes = setup.settings.socket_request_max_bytes
        self.refused: Counter[str] = Counter()  # by kcoord.security.refusals.Refusal
        self._interceptors: Sequence[Interceptor] = ()
        self._clients: set[DownstreamConnection] = set()
        self._limits = ConnectionLimits(setup.settings)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unreachable: dict[int | None, str] = {}
        self._held_bytes_by_client: dict[DownstreamConnection, int] = {}
        self._held_bytes = 0
        self._next_broker = 0
        self._is_serving = False
        self._acceptor = Acceptor(self._limits, self.refused, log)
        self._listeners = Listeners(setup, self._make_client, self._acceptor, self._make_secure_listener())
        self._metadata_refresher = MetadataRefresher(self)
        self._api_versions = ApiVersionsCache(setup)
        self._answered_by: WeakKeyDictionary[PreAuthConnection, Endpoint] = WeakKeyDictionary()

    @property
    def bootstrap(self) -> str:
        """The host:port that clients bootstrap from."""
        return str(self._listeners.bootstrap)

    @property
    def clients(self) -> Set[DownstreamConnection]:
        """The connections of all clients that were admitted."""
        return self._clients

    @property
    def is_ready(self) -> bool:
        """Whether clients are served and the last metadata refresh was answered."""
        return self._is_serving and self._metadata_refresher.is_reachable

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            self._listeners.begin()
            await self._metadata_refresher.begin()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._end()

    async def serve(self, interceptors: Sequence[Interceptor] = ()) -> None:
        """Starts serving clients; their requests go through these interceptors."""
        self._interceptors = interceptors
        self.routes = Routes(interceptors, refused=_LOGINS if self.setup.ends_logins else frozenset())
        self._is_serving = True
        self._limits.cap_by_descriptors(per_client=_DESCRIPTORS_PER_CLIENT)
        self._acceptor.on_half_full = lambda: self._spawn(run_in_slices(preload_proxy(self.limits)))
        self._listeners.serve()
        self._spawn(self._sweep())

    async def _end(self) -> None:
        self._is_serving = False
        await self._metadata_refresher.end()
        await self._api_versions.end()
        await self._listeners.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in list(self._clients):
            client.abort()

    # connection_host.ConnectionHost

    def admit(self, client: DownstreamConnection) -> str | None:
        """Registers a new client; returns the connection limit that it exceeds, or None."""
        if reason := self._limits.add(client.host):
            self.refused[Refusal.LIMIT] += 1
            return reason
        self._clients.add(client)
        self.metrics.opened(client)
        log.debug("connected peer=%s node=%s", client.peer, format_node(client.node_id))
        return None

    def on_closed(self, client: DownstreamConnection) -> None:
        """Forgets a client whose connection has closed, and informs the interceptors."""
        self._limits.remove(client.host)
        if client not in self._clients:  # It was refused by `admit`.
            return
        self._clients.remove(client)
        self._report_bytes(client)
        self.metrics.closed(client)
        log.debug("gone peer=%s node=%s", client.peer, format_node(client.node_id))
        for interceptor in self._interceptors:
            interceptor.on_closed(client)

    def held_bytes_changed(self, client: DownstreamConnection) -> None:
        """Updates the sum of bytes that are buffered for clients. Beyond queued.max.request.bytes it hangs up on the
        client that holds most."""
        now = client.held_bytes
        self._held_bytes += now - self._held_bytes_by_client.pop(client, 0)
        if now:
            self._held_bytes_by_client[client] = now
        most = self.setup.settings.queued_max_request_bytes
        if self._held_bytes > most:
            greediest = max(self._held_bytes_by_client, key=lambda each: each.held_bytes)
            greediest.hang_up(f"queued.max.request.bytes={most} are held")
            greediest.drop_buffers()

    def connect(self, client: DownstreamConnection) -> None:
        """Connects the client to the broker that it means, in the background; on failure it closes the client's
        connection."""
        self._spawn(self._connect(client))

    # connection_host.BrokerDirectory and metadata_refresher.MetadataTarget

    @property
    def limits(self) -> Mapping[int, range]:
        """The versions that are announced to clients at most, by API key."""
        return self.routes.limits

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Returns the endpoint of the proxy at which clients reach this broker."""
        return self._listeners.endpoint_of(node_id)

    def on_brokers(self, named: Mapping[int, Endpoint], *, is_all: bool) -> None:
        """Opens a listener for each broker that a response names, and updates the known brokers. `is_all` means that
        the response names all brokers of the cluster."""
        for node_id in named:
            self._listeners.open(node_id)
        changes = self.brokers.update_all(named, self._loop.time()) if is_all else self.brokers.update(named)
        if changes != Changes():
            self._log_changes(changes)

    def on_unreachable(self) -> None:
        """Counts a metadata refresh that no broker has answered."""
        self.metrics.not_connected(None)

    # The host of pre-auth connections, on a listener with TLS or logins.

    def admit_pre_auth(self, pre_auth: "PreAuthConnection") -> str | None:
        """Counts a client that has connected but not logged in; returns the connection limit that it exceeds,
        or None.
        """
        return self._limits.add(pre_auth.address)

    def on_pre_auth_closed(self, pre_auth: "PreAuthConnection") -> None:
        """Stops counting a client whose pre-auth connection has ended."""
        self._limits.remove(pre_auth.address)

    def answer_api_versions(self, pre_auth: "PreAuthConnection", frame: bytes) -> None:
        """Answers an ApiVersions request that came before the login, with the cached or fetched response of a
        broker.
        """
        header = read_request_start(frame)
        if header.api_version > api_versions.NEWEST:
            pre_auth.send_api_versions([api_versions.unsupported_version(header.correlation_id, api_versions.NEWEST)])
        else:
            self._spawn(self._answer_api_versions(pre_auth, header))

    def promote(self, pre_auth: "PreAuthConnection", transport: asyncio.Transport) -> DownstreamConnection:
        """Makes the connection of a client that has logged in, with its principal."""
        client = self._make_client(self._target_node(pre_auth))
        client.principal = pre_auth.principal
        client.preferred_endpoint = self._answered_by.get(pre_auth)
        client.connection_made(transport)
        return client

    def _target_node(self, pre_auth: "PreAuthConnection") -> int | None:
        if self.setup.sni_domain:
            return self._listeners.node_of(pre_auth.server_name)
        return None if pre_auth.node_id == BOOTSTRAP else pre_auth.node_id

    async def _answer_api_versions(self, pre_auth: "PreAuthConnection", header: RequestHeader) -> None:
        """Answers for the broker that the client will be connected to: another may run another version."""
        node_id = self._target_node(pre_auth)
        try:
            cached = await self._api_versions.fetch(self.endpoints_to_try(node_id), header.api_version)
        except CannotConnect as error:
            self._on_connect_failed(node_id, str(error))
            pre_auth.hang_up()
        else:
            self._answered_by[pre_auth] = cached.endpoint
            pre_auth.send_api_versions([cached.response_to(header.correlation_id, header.api_version, self.limits)])

    # Brokers.

    async def _connect(self, client: DownstreamConnection) -> None:
        try:
            await self._connect_any(client)
        except Exception:
            log.exception("bug peer=%s node=%s: it has no broker", client.peer, format_node(client.node_id))
            client.close()

    async def _connect_any(self, client: DownstreamConnection) -> None:
        failures = []
        for endpoint in self.endpoints_to_try(client.node_id, first=client.preferred_endpoint):
            upstream = UpstreamConnection(client, self)
            timeout = self.setup.connect_timeout
            try:
                await connect(
                    endpoint, self.setup.security, upstream, client_id=self.setup.client_id, request_timeout=timeout
                )
            except CannotConnect as error:
                failures.append(Failure(endpoint, str(error)))
            else:
                self._on_connected(client.node_id)
                client.on_upstream_connected(upstream)
                return
        # Sorted, so that the reason is the same text whichever broker was tried first.
        self._on_connect_failed(client.node_id, format_failures(sorted(failures)) or "nothing is known of it")
        client.close()

    def endpoints_to_try(self, node_id: int | None, *, first: Endpoint | None = None) -> list[Endpoint]:
        """Returns the upstream endpoints to try in order for a client: one if it means a broker, otherwise all, `first`
        or round-robin first.

        If the proxy cannot refresh metadata itself, any broker serves in place of one not known yet: the Metadata
        response of that broker will name it.
        """
        if node_id is not None:
            endpoint = self.brokers.endpoint(node_id)
            if endpoint or not self._metadata_refresher.needs_login:
                return [endpoint] if endpoint else []
        return list(dict.fromkeys([*([first] if first else ()), *self._endpoints_of_any()]))

    def _endpoints_of_any(self) -> list[Endpoint]:
        self._next_broker += 1
        live = [endpoint for each in self.brokers.live if (endpoint := self.brokers.endpoint(each))]
        endpoints = live or list(self.setup.upstream)
        first = self._next_broker % len(endpoints)
        return [*endpoints[first:], *endpoints[:first], *self.setup.upstream]

    def _on_connected(self, node_id: int | None) -> None:
        if self._unreachable.pop(node_id, None):
            log.info("reached again node=%s", format_node(node_id))

    def _on_connect_failed(self, node_id: int | None, reason: str) -> None:
        """Logs one line when a broker becomes unreachable, or when the reason changes: clients retry all the time, and
        some with broker names that do not exist."""
        self.metrics.not_connected(node_id)
        self._metadata_refresher.refresh_soon()
        if node_id is not None and self.brokers.endpoint(node_id) is None:
            log.debug("not reached node=%s why=%r", node_id, reason)
        elif self._unreachable.get(node_id) != reason:
            self._unreachable[node_id] = reason
            log.warning("not reached node=%s why=%r", format_node(node_id), reason)

    def _log_changes(self, changes: Changes) -> None:
        for node_id in changes.new:
            log.info(
                "broker node=%s upstream=%s here=%s", node_id, self.brokers.endpoint(node_id), self.endpoint_of(node_id)
            )
        for node_id in changes.moved:
            log.info("broker moved node=%s upstream=%s", node_id, self.brokers.endpoint(node_id))
        for node_id in changes.missing:
            log.info("broker missing node=%s", node_id)
        for node_id in changes.returned:
            log.info("broker returned node=%s upstream=%s", node_id, self.brokers.endpoint(node_id))

    # Clients

    def _make_client(self, node_id: int | None) -> DownstreamConnection:
        return DownstreamConnection(self, node_id)

    def _make_secure_listener(self) -> "SecureListener | None":
        """Returns None if the listener wants neither TLS nor a login. Raises BadListenerTls."""
        if self.setup.listener is None or self.setup.listener.is_open:
            return None
        from kcoord.server.listener.secure_listener import SecureListener

        return SecureListener(self, self.setup.listener, self.setup.settings, self.refused)

    async def _sweep(self) -> None:
        """Closes idle clients and forgets missing brokers, twice per connections.max.idle.ms: a client without traffic
        between two sweeps has reached the limit."""
        while True:
            await asyncio.sleep(self.setup.settings.connections_max_idle_ms / 1000 / _SWEEPS_PER_IDLE)
            await drain()  # after a pause of this process, requests that arrived meanwhile may be unread
            for client in list(self._clients):
                self._report_bytes(client)
                if client.idle_sweeps >= _SWEEPS_PER_IDLE and client.is_idle:
                    client.abort()
                client.idle_sweeps += 1
            for node_id in self.brokers.forget(self._loop.time()):
                self._listeners.close(node_id)
                self._unreachable.pop(node_id, None)
                log.info("broker forgotten node=%s", node_id)

    def report_bytes(self) -> None:
        """Adds the bytes forwarded so far for all clients to the metrics."""
        for client in self._clients:
            self._report_bytes(client)

    def _report_bytes(self, client: DownstreamConnection) -> None:
        answered = client.upstream.forwarded_bytes if client.upstream else 0
        self.metrics.sent(client.forwarded_bytes, answered)
        client.forwarded_bytes = 0
        if client.upstream:
            client.upstream.forwarded_bytes = 0

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("bug: a task ended by %r", error, exc_info=error)
