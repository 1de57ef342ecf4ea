"""Refreshes metadata with requests of the proxy's own: idle clients' traffic does not show that a broker has moved.

If clients' logins are forwarded, the proxy has none itself. A cluster that requires a login then does not answer the
proxy, which learns of brokers only from the answers to clients.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from kcoord.client.connect_errors import CannotConnect, Disconnected, LoginFailed, NoAnswer, Unreachable
from kcoord.client.sasl import SASL_HANDSHAKE
from kcoord.errors import ErrorCode
from kcoord.proxy.brokers.broker_connections import Dialogue, connected_dialogue
from kcoord.proxy.brokers.failures import Failure, advised, told_together
from kcoord.proxy.forwarding.addresses import Brokers
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.proxy.forwarding.rewriting import METADATA
from kcoord.proxy.setup import CannotProxy

if TYPE_CHECKING:
    from kcoord.proxy.setup import ProxySetup

log = logging.getLogger("kcoord.proxy")

_METADATA_VERSION: Final = 2  # of Kafka 0.10.1; every broker since then speaks it
_API_VERSIONS: Final = (18, 0)
_NO_MECHANISM: Final = "kcoord-asks-which"
_REST: Final = 0.5
"""The least number of seconds between two refreshes, however many clients fail to connect."""


class Household(Protocol):
    """What a refresh updates: the proxy."""

    setup: "ProxySetup"
    brokers: Brokers

    def saw(self, told: Mapping[int, Place], *, is_all: bool) -> None: ...

    def heard_nobody(self) -> None:
        """Called when no broker has answered a refresh."""


class Looking:
    """Refreshes metadata at an interval and on demand."""

    def __init__(self, household: Household) -> None:
        self.is_answered = False
        self.needs_login = False  # and the proxy has none: it learns of brokers from answers to clients
        self._household = household
        self._dialogue: Dialogue | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._why_silent: str | None = None
        self._said: str | None = None  # the reason in the last log line of it

    async def begin(self) -> None:
        """Refreshes once, then in the background. Raises CannotProxy if no broker answers, unless the proxy waits."""

        while failures := await self._look():
            if not self._household.setup.waits:
                raise CannotProxy(await self._explained(failures))
            await self._log_silence(failures)
            await asyncio.sleep(_REST)
        if not self.needs_login:
            self._task = asyncio.create_task(self._go_on())

    async def end(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._hang_up()

    def look_soon(self) -> None:
        """Requests a refresh: there is reason to think that brokers have changed."""
        self._wanted.set()

    async def _go_on(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._household.setup.look_interval):
                    await self._wanted.wait()
            self._wanted.clear()  # before the refresh, so that a request made during it causes another one
            try:
                if failures := await self._look():
                    await self._log_silence(failures)
            except Exception:
                log.exception("bug: brokers could not be looked at")
            await asyncio.sleep(min(_REST, self._household.setup.look_interval))

    async def _look(self) -> list[Failure]:
        """Asks the candidates until one answers; returns the failures if none did."""
        failures = []
        for place in self._places():
            try:
                async with asyncio.timeout(self._household.setup.connect_timeout):
                    await self._ask(place)
            except (CannotConnect, Disconnected) as error:
                may_be_security = not isinstance(error, Unreachable | NoAnswer | LoginFailed)
                failures.append(Failure(place, str(error), may_be_security))
            except TimeoutError:
                failures.append(Failure(place, f"{place} did not answer in time"))
            else:
                self._heard()
                return []
            self._hang_up()
        self.is_answered = False
        self._household.heard_nobody()
        return failures

    def _heard(self) -> None:
        if not self.is_answered and self._household.brokers.known:
            log.info("upstream answers brokers=%s", len(self._household.brokers.live))
        self.is_answered = True
        self._why_silent = self._said = None

    async def _log_silence(self, failures: list[Failure]) -> None:
        """Logs one line when the upstream becomes unreachable, and when the reason changes: refreshes are retried."""
        why = told_together(failures)
        if why == self._why_silent:
            return
        self._why_silent = why
        said = await self._explained(failures)
        if said != self._said:  # a peer that speaks another protocol closes in changing ways
            self._said = said
            log.warning("upstream silent why=%r", said)

    def _places(self) -> list[Place]:
        """Returns the connected broker, then the live brokers, then the bootstrap brokers."""
        brokers = self._household.brokers
        now = [self._dialogue.place] if self._dialogue else []
        live = [place for node_id in brokers.live if (place := brokers.place(node_id))]
        return list(dict.fromkeys([*now, *live, *self._household.setup.upstream]))

    async def _ask(self, place: Place) -> None:
        if self._dialogue and self._dialogue.transport.is_closing():  # reconnect: the broker may be up by now
            self._hang_up()
        if self._dialogue is None:
            setup = self._household.setup
            self._dialogue = await connected_dialogue(
                place, setup.security, client_id=setup.client_id, patience=setup.connect_timeout
            )
            await self._dialogue.ask(*_API_VERSIONS)
        try:
            told = await self._dialogue.ask(METADATA, _METADATA_VERSION, topics=())
        except Disconnected:
            # Without a login a broker answers ApiVersions and nothing else.
            if self.is_answered or self._household.setup.security.sasl or not await self._wants_login(place):
                raise
            self.needs_login = True
            log.info("upstream wants a login: what brokers there are is learned from answers to clients")
            return
        self._household.saw({each.node_id: Place(each.host, each.port) for each in told.brokers}, is_all=True)

    async def _wants_login(self, place: Place) -> bool:
        setup = self._household.setup
        dialogue = await connected_dialogue(
            place, setup.security, client_id=setup.client_id, patience=setup.connect_timeout
        )
        try:
            told = await dialogue.ask(*SASL_HANDSHAKE, mechanism=_NO_MECHANISM)
        finally:
            dialogue.close()
        return told.error_code is ErrorCode.unsupported_sasl_mechanism

    async def _explained(self, failures: list[Failure]) -> str:
        """Formats the failures; if a wrong security.protocol may be the cause, probes the listener for advice."""

        suspect = next((each for each in failures if each.may_be_security), None)
        if suspect is None:
            return told_together(failures)
        from kcoord.client.listener_probe import listener_advice

        advice = await asyncio.to_thread(listener_advice, *suspect.place, self._household.setup.security)
        return told_together(advised(failures, suspect, advice) if advice else failures)

    def _hang_up(self) -> None:
        if self._dialogue:
            self._dialogue.close()
            self._dialogue = None
