"""Connections of the metrics server, with limits on their number and on the size and duration of requests.

| limit             | what happens beyond it                                                                          |
|-------------------|-------------------------------------------------------------------------------------------------|
| MAX_CONNECTIONS   | The oldest connection is closed: a new one may be Prometheus, an old one is idle or incomplete. |
| REQUEST_TIMEOUT   | The connection of a request that is incomplete, or whose answer is unread, is closed.           |
| KEEPALIVE_TIMEOUT | A connection without a request is closed.                                                       |
| MAX_HEAD_BYTES    | A larger request head gets 431; so many bytes of pipelined requests close the connection.       |

No request here has a body: one that announces a body gets 413. Requests are passed to aiohttp whole and one at a time,
so that it never buffers more than one per connection, and parses nothing that is too large.
"""

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger("kcoord.metrics")

MAX_CONNECTIONS: Final = 100
REQUEST_TIMEOUT: Final = 10.0  # seconds, as Prometheus's default scrape_timeout
KEEPALIVE_TIMEOUT: Final = 75.0  # longer than Prometheus's default scrape_interval of 60 seconds
MAX_HEAD_BYTES: Final = 16 * 1024

_END_OF_HEAD: Final = b"\r\n\r\n"
_ANNOUNCES_BODY: Final = re.compile(
    rb"\r\n(?:content-length[ \t]*:(?![ \t]*0*[ \t]*\r)|transfer-encoding[ \t]*:)", re.I
)


class BoundedConnections:
    """The asyncio protocol factory of the metrics server's HTTP connections. It bounds their number: one too many
    closes the oldest.
    """

    def __init__(
        self, server: web.Server, *, max_connections: int = MAX_CONNECTIONS, request_timeout: float = REQUEST_TIMEOUT
    ) -> None:
        self._server = server
        self._max_connections = max_connections
        self._request_timeout = request_timeout
        self._open: dict[_Connection, None] = {}  # in order of connecting

    def __call__(self) -> asyncio.Protocol:
        return _Connection(self, self._server, self._request_timeout)

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: "_Connection") -> None:
        """Registers a connection that was just made; if there are too many, the oldest one is closed."""
        if len(self._open) >= self._max_connections:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()
        self._open[connection] = None

    def closed(self, connection: "_Connection") -> None:
        """Unregisters a connection that is closed."""
        self._open.pop(connection, None)


class _Connection(web.RequestHandler):
    """An aiohttp connection with a deadline from a request's first byte to the last byte of its answer."""

    __slots__ = ("_connections", "_deadline", "_is_answering", "_received", "_request_timeout")

    def __init__(self, connections: BoundedConnections, server: web.Server, request_timeout: float) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_TIMEOUT,
            access_log=None,  # type: ignore[arg-type]  # None disables aiohttp's access log
        )
        self._connections = connections
        self._request_timeout = request_timeout
        self._deadline: asyncio.TimerHandle | None = None
        self._received = b""  # not yet passed to aiohttp
        self._is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.opened(self)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        self._start_deadline()
        self._received += data
        self._pass_to_aiohttp()

    async def finish_response(self, *args: Any) -> Any:
        finished = await super().finish_response(*args)
        self._stop_deadline()
        self._is_answering = False
        if self._received:
            self._start_deadline()
            asyncio.get_running_loop().call_soon(self._pass_to_aiohttp)  # after other callbacks of the loop
        return finished

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers malformed HTTP with 400 and without aiohttp's traceback: it is the client's fault."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        log.debug("bad request from=%s why=%r", request.remote, message)
        response = web.Response(status=status, text="bad request\n")
        response.force_close()
        return response

    def _pass_to_aiohttp(self) -> None:
        """Passes the next request to aiohttp, once its head is complete and the previous request is answered.

        A client that pipelines more than MAX_HEAD_BYTES of requests is no scraper, and is hung up on.
        """
        if self.transport is None or self.transport.is_closing():
            return
        head, end, rest = self._received.partition(_END_OF_HEAD)
        waiting = self._received if self._is_answering else rest
        if len(waiting) > MAX_HEAD_BYTES:
            self.abort()
        elif self._is_answering:
            return
        elif len(head) > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif _ANNOUNCES_BODY.search(head + end):
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif end:
            self._received, self._is_answering = rest, True
            super().data_received(head + end)

    def _refuse(self, status: HTTPStatus) -> None:
        assert self.transport is not None, "who has sent something is connected"
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        self.transport.write(f"{line}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        self._received = b""
        self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_deadline()
        self._received = b""  # this object may live until the garbage collector runs
        self._connections.closed(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Closes the connection at once, even if output is pending that the peer does not read."""
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
