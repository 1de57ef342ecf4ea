"""Caches ApiVersions answers of brokers, for clients that have not logged in and so have no broker connection yet.

The proxy sends an ApiVersions request of its own over a connection of its own: nothing that such a client sends reaches
a broker. An answer is cached for a few seconds, so that unauthenticated clients cannot make the proxy connect as often
as they like. The proxy does not log in for it: brokers answer ApiVersions before a login.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kcoord.api_keys import ApiKey
from kcoord.client.connect_errors import CannotConnect, Disconnected
from kcoord.client.kio_codec import KioCodec
from kcoord.exceptions import CorruptData
from kcoord.protocol.frames import framed
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.brokers.broker_connections import open_connection
from kcoord.proxy.rewriting import api_versions
from kcoord.proxy.rewriting.api_versions import Limits
from kcoord.proxy.rewriting.endpoints import Endpoint

if TYPE_CHECKING:
    from kcoord.proxy.setup import ProxySetup

_CACHE_SECONDS: Final = 5.0
"""Seconds for which an answer is cached: short enough that a broker that was upgraded has been restarted meanwhile."""
_SOFTWARE: Final = {"client_software_name": "kcoord", "client_software_version": "0"}


class CachedApiVersions(NamedTuple):
    """A broker's cached response to ApiVersions, for clients that have not logged in yet."""

    endpoint: Endpoint
    frame: bytes
    """The answer without its length; its correlation id is meaningless."""

    def response_to(self, correlation_id: int, api_version: int, limits: Limits) -> bytes:
        """Returns the response frame, with its length, to a client's ApiVersions request, its ranges intersected with
        `limits`.
        """
        return framed(
            [
                correlation_id.to_bytes(4, signed=True),
                api_versions.intersect_versions(self.frame, api_version, limits)[4:],
            ]
        )


class _Fetch(NamedTuple):
    task: asyncio.Task[CachedApiVersions]
    until: float


class ApiVersionsCache:
    """Fetches brokers' responses to ApiVersions and caches them for some seconds, by endpoint and version."""

    def __init__(self, setup: "ProxySetup") -> None:
        self._setup = setup
        self._fetches: dict[tuple[Endpoint, int], _Fetch] = {}

    async def fetch(self, endpoints: Iterable[Endpoint], api_version: int) -> CachedApiVersions:
        """Returns the response, cached or fresh, of the first endpoint that answers this version of ApiVersions. Raises
        CannotConnect.
        """
        failure = CannotConnect("nobody to ask")
        for endpoint in endpoints:
            try:
                return await asyncio.shield(self._fetch_task(endpoint, api_version))
            except CannotConnect as error:
                failure = error
        raise failure

    async def end(self) -> None:
        """Cancels the fetches that are running, when the proxy stops."""
        tasks = [fetch.task for fetch in self._fetches.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _fetch_task(self, endpoint: Endpoint, api_version: int) -> asyncio.Task[CachedApiVersions]:
        """Returns the fetch that is running or cached, or starts one."""
        now = asyncio.get_running_loop().time()
        self._fetches = {key: fetch for key, fetch in self._fetches.items() if _is_usable(fetch, now)}
        if (endpoint, api_version) not in self._fetches:
            task = asyncio.create_task(self._request(endpoint, api_version))
            self._fetches[endpoint, api_version] = _Fetch(task, now + _CACHE_SECONDS)
        return self._fetches[endpoint, api_version].task

    async def _request(self, endpoint: Endpoint, api_version: int) -> CachedApiVersions:
        timeout = self._setup.connect_timeout
        header = RequestHeader(ApiKey.API_VERSIONS, api_version, 0, self._setup.client_id)
        request = KioCodec(ApiKey.API_VERSIONS, api_version).encode_request(header, _SOFTWARE)
        connection = await open_connection(
            endpoint, replace(self._setup.security, sasl=None), client_id=self._setup.client_id, request_timeout=timeout
        )
        try:
            async with asyncio.timeout(timeout):
                cached = CachedApiVersions(endpoint, await connection.exchange(request[4:]))
            cached.response_to(0, api_version, {})  # raises CorruptMessage if it cannot be read
        except (Disconnected, TimeoutError, CorruptData) as error:
            raise CannotConnect(f"{endpoint} does not answer ApiVersions: {error}") from None
        finally:
            connection.close()
        return cached


def _is_usable(fetch: _Fetch, now: float) -> bool:
    """Whether a fetch is still running, or has succeeded within the cache time. Failures are not cached."""
    task = fetch.task
    return not task.done() or (fetch.until > now and not task.cancelled() and task.exception() is None)
