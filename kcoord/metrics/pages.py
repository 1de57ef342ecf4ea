"""Pages of metrics, made on the loop that serves Kafka's clients: whoever asks again and again must not take its time.

A page takes some milliseconds. Pages are made one after the other, for a fifth of the time at most, and whoever asks
while one waits to be made shares it: each page is made after it was asked for, so that none is out of date.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Page = tuple[bytes, str]  # with its content type
Encode = Callable[[Collector], bytes]

_REST: Final = 4.0  # times as long as a page took, before the next one


class Pages:
    """`await pages.page(accept)` is the registry in the format that the client accepts."""

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
        encode, content_type = choose_format(accept)
        if content_type not in self._pending:
            self._pending[content_type] = asyncio.create_task(self._make(encode, content_type))
        return await asyncio.shield(self._pending[content_type])  # others may wait for it

    def close(self) -> None:
        for task in self._pending.values():
            task.cancel()

    async def _make(self, encode: Encode, content_type: str) -> Page:
        async with self._turn:
            if (rest := self._rests_until - self._clock()) > 0:
                await self._sleep(rest)
            del self._pending[content_type]  # whoever asks from now on gets a later one
            began = self._clock()
            body = encode(self._registry)
            now = self._clock()
            self._rests_until = now + _REST * (now - began)
            return body, content_type


def choose_format(accept: str) -> tuple[Encode, str]:
    """The encoder and content type for an Accept header; plain text if the header cannot be understood."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # versions that prometheus_client cannot compare, such as 1.x or a
        return choose_encoder("")
    if content_type.isascii() and content_type.isprintable():  # it repeats what the client wrote
        return encode, content_type
    return choose_encoder("")
