"""Renders pages of metrics, rate-limited: it happens on the event loop that serves Kafka's clients.

A page takes some milliseconds. Pages are rendered one after the other, for at most a fifth of the time. Requests that
arrive while a page is still waiting to be rendered share it. So each page is rendered after its requests arrived, and
is never out of date.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Page = tuple[bytes, str]  # body and content type
Encode = Callable[[Collector], bytes]

_REST: Final = 4.0  # the pause before the next page, as a multiple of the time that this one took


class Pages:
    """Renders the pages of /metrics from a registry, rate-limited, in the Prometheus formats that clients accept."""

    def __init__(
        self,
        registry: Collector,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._registry, self._clock, self._sleep = registry, clock, sleep
        self._pending: dict[str, asyncio.Task[Page]] = {}  # by content type
        self._turn = asyncio.Lock()
        self._rests_until = 0.0

    async def page(self, accept: str) -> Page:
        """Returns the body and content type of a /metrics page for an Accept header. Concurrent requests share one
        page.
        """
        encode, content_type = choose_format(accept)
        if content_type not in self._pending:
            self._pending[content_type] = asyncio.create_task(self._make(encode, content_type))
        return await asyncio.shield(self._pending[content_type])  # other requests may wait for it

    def close(self) -> None:
        """Cancels the rendering of pages that clients wait for."""
        for task in self._pending.values():
            task.cancel()

    async def _make(self, encode: Encode, content_type: str) -> Page:
        async with self._turn:
            if (rest := self._rests_until - self._clock()) > 0:
                await self._sleep(rest)
            del self._pending[content_type]  # requests from now on get a later page
            began = self._clock()
            body = encode(self._registry)
            now = self._clock()
            self._rests_until = now + _REST * (now - began)
            return body, content_type


def choose_format(accept: str) -> tuple[Encode, str]:
    """Returns Prometheus's encoder and content type for an Accept header; those of plain text if it cannot be
    parsed.
    """
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # versions that prometheus_client cannot compare, such as 1.x or a
        return choose_encoder("")
    if content_type.isascii() and content_type.isprintable():  # it contains text from the header
        return encode, content_type
    return choose_encoder("")
