"""Caches ApiVersions answers of brokers, for clients that have not logged in and so have no broker connection yet.

The proxy sends an ApiVersions request of its own over a connection of its own: nothing that such a client sends reaches
a broker. An answer is cached for a few seconds, so that unauthenticated clients cannot make the proxy connect as often
as they like. The proxy does not log in for it: brokers answer ApiVersions before a login.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kcoord.client.connect_errors import CannotConnect, Disconnected
from kcoord.client.kio_codec import KioAsking
from kcoord.protocol.frames import BadBody, BadFrame, framed
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.brokers.broker_connections import connected_dialogue
from kcoord.proxy.forwarding import api_versions
from kcoord.proxy.forwarding.api_versions import API_VERSIONS, Limits
from kcoord.proxy.forwarding.endpoints import Place

if TYPE_CHECKING:
    from kcoord.proxy.setup import ProxySetup

_KEPT: Final = 5.0
"""Seconds for which an answer is cached: short enough that a broker that was upgraded has been restarted meanwhile."""
_SOFTWARE: Final = {"client_software_name": "kcoord", "client_software_version": "0"}


class Told(NamedTuple):
    """A broker's answer to ApiVersions."""

    by: Place
    frame: bytes
    """The answer without its length; its correlation id is meaningless."""

    def to(self, correlation_id: int, api_version: int, limits: Limits) -> bytes:
        """Returns the answer for a client's request, with its length."""
        return framed([correlation_id.to_bytes(4, signed=True), api_versions.cut(self.frame, api_version, limits)[4:]])


class _Asked(NamedTuple):
    task: asyncio.Task[Told]
    until: float


class VersionTelling:
    """Fetches and caches ApiVersions answers by endpoint and version."""

    def __init__(self, setup: "ProxySetup") -> None:
        self._setup = setup
        self._asked: dict[tuple[Place, int], _Asked] = {}

    async def hear(self, places: Iterable[Place], api_version: int) -> Told:
        """Returns the answer of the first endpoint that answers this version of ApiVersions. Raises CannotConnect."""
        failure = CannotConnect("nobody to ask")
        for place in places:
            try:
                return await asyncio.shield(self._task(place, api_version))
            except CannotConnect as error:
                failure = error
        raise failure

    async def end(self) -> None:
        tasks = [asked.task for asked in self._asked.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, place: Place, api_version: int) -> asyncio.Task[Told]:
        """Returns the fetch that is running or cached, or starts one."""
        now = asyncio.get_running_loop().time()
        self._asked = {key: asked for key, asked in self._asked.items() if _is_of_use(asked, now)}
        if (place, api_version) not in self._asked:
            task = asyncio.create_task(self._ask(place, api_version))
            self._asked[place, api_version] = _Asked(task, now + _KEPT)
        return self._asked[place, api_version].task

    async def _ask(self, place: Place, api_version: int) -> Told:
        patience = self._setup.connect_timeout
        header = RequestHeader(API_VERSIONS, api_version, 0, self._setup.client_id)
        request = KioAsking(API_VERSIONS, api_version).request(header, _SOFTWARE)
        dialogue = await connected_dialogue(
            place, replace(self._setup.security, sasl=None), client_id=self._setup.client_id, patience=patience
        )
        try:
            async with asyncio.timeout(patience):
                told = Told(place, await dialogue.exchange(request[4:]))
            told.to(0, api_version, {})  # raises BadBody if it cannot be read
        except (Disconnected, TimeoutError, BadBody, BadFrame) as error:
            raise CannotConnect(f"{place} does not answer ApiVersions: {error}") from None
        finally:
            dialogue.close()
        return told


def _is_of_use(asked: _Asked, now: float) -> bool:
    """Whether a fetch is still running, or has succeeded within the cache time. Failures are not cached."""
    task = asked.task
    return not task.done() or (asked.until > now and not task.cancelled() and task.exception() is None)
