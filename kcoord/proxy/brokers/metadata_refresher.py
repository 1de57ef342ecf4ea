"""Refreshes metadata with requests of the proxy's own: idle clients' traffic does not show that a broker has moved.

If clients' logins are forwarded, the proxy has none itself. A cluster that requires a login then does not answer the
proxy, which learns of brokers only from the answers to clients.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from kcoord.api_keys import ApiKey
from kcoord.client.connect_errors import CannotConnect, Disconnected, LoginFailed, NoAnswer, Unreachable
from kcoord.client.sasl import SASL_HANDSHAKE
from kcoord.errors import ErrorCode
from kcoord.proxy.brokers.broker_connections import BrokerConnection, open_connection
from kcoord.proxy.brokers.failures import Failure, format_failures, with_advice
from kcoord.proxy.rewriting.addresses import Brokers
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.setup import CannotProxy

if TYPE_CHECKING:
    from kcoord.proxy.setup import ProxySetup

log = logging.getLogger("kcoord.proxy")

_METADATA_VERSION: Final = 2  # of Kafka 0.10.1; every broker since then speaks it
_API_VERSIONS: Final = (ApiKey.API_VERSIONS, 0)
_NO_MECHANISM: Final = "kcoord-asks-which"
_REST: Final = 0.5
"""The least number of seconds between two refreshes, however many clients fail to connect."""


class MetadataTarget(Protocol):
    """What a metadata refresh updates: the proxy."""

    setup: "ProxySetup"
    brokers: Brokers

    def on_brokers(self, named: Mapping[int, Endpoint], *, is_all: bool) -> None:
        """Applies the brokers that a response has named: all of the cluster (`is_all`), or some."""

    def on_unreachable(self) -> None:
        """Called when no broker has answered a metadata refresh."""


class MetadataRefresher:
    """Refreshes the proxy's knowledge of the brokers by its own Metadata requests, at an interval and on demand."""

    def __init__(self, target: MetadataTarget) -> None:
        self.is_reachable = False
        self.needs_login = False  # and the proxy has none: it learns of brokers from answers to clients
        self._target = target
        self._connection: BrokerConnection | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._why_silent: str | None = None
        self._logged_reason: str | None = None  # the reason in the last log line of it

    async def begin(self) -> None:
        """Refreshes metadata once, then in the background. Raises CannotProxy if no broker answers, unless the proxy is
        set up to wait.
        """

        while failures := await self._refresh():
            if not self._target.setup.waits_for_upstream:
                raise CannotProxy(await self._explained(failures))
            await self._log_silence(failures)
            await asyncio.sleep(_REST)
        if not self.needs_login:
            self._task = asyncio.create_task(self._repeat())

    async def end(self) -> None:
        """Stops refreshing, when the proxy stops."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._hang_up()

    def refresh_soon(self) -> None:
        """Requests a metadata refresh out of turn: there is reason to think that brokers have changed."""
        self._wanted.set()

    async def _repeat(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._target.setup.refresh_interval):
                    await self._wanted.wait()
            self._wanted.clear()  # before the refresh, so that a request made during it causes another one
            try:
                if failures := await self._refresh():
                    await self._log_silence(failures)
            except Exception:
                log.exception("bug: brokers could not be looked at")
            await asyncio.sleep(min(_REST, self._target.setup.refresh_interval))

    async def _refresh(self) -> list[Failure]:
        """Asks the candidates until one answers; returns the failures if none did."""
        failures = []
        for endpoint in self._candidates():
            try:
                async with asyncio.timeout(self._target.setup.connect_timeout):
                    await self._fetch_metadata(endpoint)
            except (CannotConnect, Disconnected) as error:
                may_be_security = not isinstance(error, Unreachable | NoAnswer | LoginFailed)
                failures.append(Failure(endpoint, str(error), may_be_security))
            except TimeoutError:
                failures.append(Failure(endpoint, f"{endpoint} did not answer in time"))
            else:
                self._on_answer()
                return []
            self._hang_up()
        self.is_reachable = False
        self._target.on_unreachable()
        return failures

    def _on_answer(self) -> None:
        if not self.is_reachable and self._target.brokers.known:
            log.info("upstream answers brokers=%s", len(self._target.brokers.live))
        self.is_reachable = True
        self._why_silent = self._logged_reason = None

    async def _log_silence(self, failures: list[Failure]) -> None:
        """Logs one line when the upstream becomes unreachable, and when the reason changes: refreshes are retried."""
        why = format_failures(failures)
        if why == self._why_silent:
            return
        self._why_silent = why
        reason = await self._explained(failures)
        if reason != self._logged_reason:  # a peer that speaks another protocol closes in changing ways
            self._logged_reason = reason
            log.warning("upstream silent why=%r", reason)

    def _candidates(self) -> list[Endpoint]:
        """Returns the connected broker, then the live brokers, then the bootstrap brokers."""
        brokers = self._target.brokers
        now = [self._connection.endpoint] if self._connection else []
        live = [endpoint for node_id in brokers.live if (endpoint := brokers.endpoint(node_id))]
        return list(dict.fromkeys([*now, *live, *self._target.setup.upstream]))

    async def _fetch_metadata(self, endpoint: Endpoint) -> None:
        if self._connection and self._connection.transport.is_closing():  # reconnect: the broker may be up by now
            self._hang_up()
        if self._connection is None:
            setup = self._target.setup
            self._connection = await open_connection(
                endpoint, setup.security, client_id=setup.client_id, request_timeout=setup.connect_timeout
            )
            await self._connection.request(*_API_VERSIONS)
        try:
            metadata = await self._connection.request(ApiKey.METADATA, _METADATA_VERSION, topics=())
        except Disconnected:
            # Without a login a broker answers ApiVersions and nothing else.
            if self.is_reachable or self._target.setup.security.sasl or not await self._wants_login(endpoint):
                raise
            self.needs_login = True
            log.info("upstream wants a login: what brokers there are is learned from answers to clients")
            return
        self._target.on_brokers(
            {each.node_id: Endpoint(each.host, each.port) for each in metadata.brokers}, is_all=True
        )

    async def _wants_login(self, endpoint: Endpoint) -> bool:
        setup = self._target.setup
        connection = await open_connection(
            endpoint, setup.security, client_id=setup.client_id, request_timeout=setup.connect_timeout
        )
        try:
            response = await connection.request(*SASL_HANDSHAKE, mechanism=_NO_MECHANISM)
        finally:
            connection.close()
        return response.error_code is ErrorCode.unsupported_sasl_mechanism

    async def _explained(self, failures: list[Failure]) -> str:
        """Formats the failures; if a wrong security.protocol may be the cause, probes the listener for advice."""

        suspect = next((each for each in failures if each.may_be_security), None)
        if suspect is None:
            return format_failures(failures)
        from kcoord.client.listener_probe import listener_advice

        advice = await asyncio.to_thread(listener_advice, *suspect.endpoint, self._target.setup.security)
        return format_failures(with_advice(failures, suspect, advice) if advice else failures)

    def _hang_up(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
