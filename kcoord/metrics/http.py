"""Serves /metrics, /healthz and /readyz over HTTP, on the event loop that also serves Kafka's clients.

| path     | 200 means                                     | otherwise                                         |
|----------|-----------------------------------------------|---------------------------------------------------|
| /metrics | the metrics, as OpenMetrics or plain text     |                                                   |
| /healthz | the event loop is running                     | no answer                                         |
| /readyz  | clients can be served                         | 503, and the reason in one line                   |
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from kcoord.metrics.collecting import Source, make_registry
from kcoord.metrics.http_connection import REQUEST_TIMEOUT, BoundedConnections
from kcoord.metrics.listening import endpoint_of
from kcoord.metrics.pages import Pages

log = logging.getLogger("kcoord.metrics")

_STOP_TIMEOUT: Final = 1.0

Handler = Callable[[web.Request], Awaitable[web.Response]]


class MetricsServer:
    """An HTTP server of the metrics of a source, for Prometheus. It serves within `async with`, and closes the socket
    at its end.
    """

    def __init__(
        self, listening: socket.socket, source: Source, *, role: str, request_timeout: float = REQUEST_TIMEOUT
    ) -> None:
        self.listening = listening
        self._request_timeout = request_timeout
        self._source = source
        self._pages = Pages(make_registry(source, role=role))

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.add_routes(
            [web.get("/metrics", self._metrics), web.get("/healthz", self._health), web.get("/readyz", self._readiness)]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_TIMEOUT)
        await self._runner.setup()
        assert self._runner.server is not None
        self._connections = BoundedConnections(self._runner.server, request_timeout=self._request_timeout)
        self._server = await asyncio.get_running_loop().create_server(self._connections, sock=self.listening)
        log.info("metrics at=http://%s/metrics", endpoint_of(self.listening))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        assert self._runner.server is not None
        self._runner.server.pre_shutdown()
        await self._runner.server.shutdown(_STOP_TIMEOUT)
        await self._runner.cleanup()
        self._pages.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = await self._pages.page(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _readiness(self, request: web.Request) -> web.Response:
        missing = self._source.why_not_ready()
        return web.Response(text=f"{missing}\n", status=503) if missing else web.Response(text="ready\n")
