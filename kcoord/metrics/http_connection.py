"""Connections of the metrics server: how many there may be, and how long each may take for a request.

| bound             | what happens beyond it                                                                        |
|-------------------|-----------------------------------------------------------------------------------------------|
| MOST_CONNECTIONS  | the oldest connection is closed: a new one may be Prometheus, an old one is idle or incomplete |
| REQUEST_TIMEOUT   | a request that is incomplete, or whose answer is not read by then, ends with its connection     |
| KEEPALIVE_TIMEOUT | a connection without a request is closed                                                        |
"""

import asyncio
from typing import Any, Final

from aiohttp import web

MOST_CONNECTIONS: Final = 100
REQUEST_TIMEOUT: Final = 10.0  # seconds, as Prometheus's default scrape_timeout
KEEPALIVE_TIMEOUT: Final = 75.0  # longer than Prometheus's default scrape_interval of 60 seconds


class BoundedConnections:
    """Makes the protocol of each new connection, and closes the oldest if there are too many."""

    def __init__(
        self, server: web.Server, *, most: int = MOST_CONNECTIONS, request_timeout: float = REQUEST_TIMEOUT
    ) -> None:
        self._server = server
        self._most = most
        self._request_timeout = request_timeout
        self._open: dict[_Connection, None] = {}  # the oldest first

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._server, self._request_timeout)

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: "_Connection") -> None:
        """Registers a connection; the oldest one is closed to make room for it."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[connection] = None

    def closed(self, connection: "_Connection") -> None:
        """Forgets a connection, if it was not closed to make room."""
        self._open.pop(connection, None)


class _Connection(web.RequestHandler):
    """Speaks HTTP as aiohttp does, with a deadline from a request's first byte to the last one of its answer."""

    __slots__ = ("_connections", "_deadline", "_request_timeout")

    def __init__(self, connections: BoundedConnections, server: web.Server, request_timeout: float) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_TIMEOUT,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to have none
        )
        self._connections = connections
        self._request_timeout = request_timeout
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.opened(self)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        self._start_deadline()
        super().data_received(data)

    async def finish_response(self, *args: Any) -> Any:
        finished = await super().finish_response(*args)
        self._stop_deadline()
        return finished

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_deadline()
        self._connections.closed(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Closes the connection at once, also if the peer reads nothing of what is to be sent."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(self._request_timeout, self.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
