"""The transport between one client of the proxy and the coordinator in this process, in place of a socket.

The coordinator's connections (server/connection) read from a transport and write to it. This one feeds a connection one
request at a time, as the proxy hands it over, and passes the answer to the proxy's client: at once, or when the journal
has committed the records that the answer depends on. If those records are lost, the request is fed again. By then its
group is unloaded, so the coordinator answers with that API's retriable error.
"""

import asyncio
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Final

from kcoord.proxy.forwarding.interceptors import ClientInfo, Request
from kcoord.proxy.local.held_responses import HeldResponse, HeldResponses
from kcoord.server.connection.connection import Connection

_LENGTH: Final = Struct(">i")


class ClientLink(asyncio.Transport):
    """The transport that links a client of the proxy to its connection with the coordinator in this process, in place
    of a socket. Calls `forget` when the coordinator has closed its side: the client's next request then needs a new
    link.
    """

    def __init__(
        self,
        client: ClientInfo,
        connection: Connection,
        held_responses: HeldResponses | None,
        forget: Callable[["ClientLink"], None],
    ) -> None:
        super().__init__()
        self.client = client
        self._connection = connection
        self._held_responses = held_responses
        self._forget = forget
        self._request: Request | None = None
        self._is_closing = self._is_closed = False
        connection.connection_made(self)

    def ask(self, request: Request) -> None:
        """Passes a client's request to the coordinator; the previous one must have been answered."""
        assert self._request is None
        if self._is_closing:  # the coordinator has refused the connection
            self.client.hang_up("the coordinator has closed the connection")
            return
        self._request = request
        self._feed(request)

    def on_client_closed(self) -> None:
        """Ends the link, because the client has disconnected."""
        self._request = None
        self._end()

    def answer(self, pieces: list[bytes]) -> None:
        """Sends the response to the client, if it is still connected."""
        if self._request is not None:
            self._request = None
            self.client.answer(pieces)

    def retry(self) -> None:
        """Passes the client's request to the coordinator again, because the records that its response depends on are
        lost.
        """
        if self._request is not None:
            self._feed(self._request)

    def _feed(self, request: Request) -> None:
        self._connection.data_received(_LENGTH.pack(len(request.frame)) + request.frame)

    # asyncio.Transport, as the coordinator's connection uses it

    def write(self, data: Any) -> None:
        """Takes bytes of a response from the coordinator, like `writelines`."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Takes the pieces of a response from the coordinator: sends them, or holds them back until the journal has
        committed.
        """
        answer = _HeldAnswer(self, list(list_of_data))
        if self._held_responses is None:
            answer.send()
        else:
            self._held_responses.send_when_committed(answer)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns the client's address for "peername", else the default."""
        if name != "peername":
            return default
        host, _, port = self.client.peer.rpartition(":")
        return self.client.host or host, port

    def get_write_buffer_size(self) -> int:
        """Returns 0: the proxy applies backpressure to the client itself."""
        return 0  # the proxy applies backpressure to the client itself

    def pause_reading(self) -> None:
        """Does nothing: no further request comes before the current one is answered."""

    def resume_reading(self) -> None:
        """Does nothing: no further request comes before the current one is answered."""

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Closes the coordinator's side, like `abort`."""
        self.abort()

    def abort(self) -> None:
        """Closes the coordinator's side. The client is hung up on only if it awaits a response, which will not come."""

        if self._is_closing:
            return
        self._is_closing = True
        is_owed_an_answer, self._request = self._request is not None, None
        asyncio.get_running_loop().call_soon(self._end)
        if is_owed_an_answer:
            self.client.hang_up("the coordinator has closed the connection")

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closing = self._is_closed = True
            self._forget(self)
            self._connection.connection_lost(None)


class _HeldAnswer(HeldResponse):
    __slots__ = ("_link", "_pieces")

    def __init__(self, link: ClientLink, pieces: list[bytes]) -> None:
        self._link = link
        self._pieces = pieces

    def send(self) -> None:
        self._link.answer(self._pieces)

    def retry(self) -> None:
        self._link.retry()
