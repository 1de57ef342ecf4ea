"""Connections to brokers: TLS, the login, and the proxy's own requests."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from kcoord.client.connect_errors import CannotConnect, Disconnected, LoginFailed, NoAnswer, Unreachable, in_one_line
from kcoord.client.kio_codec import KioAsking
from kcoord.client.security import Security, Tls
from kcoord.protocol.frames import BadBody, BadFrame, FrameSplitter, framed
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.endpoints import Place

if TYPE_CHECKING:
    from kcoord.client.sasl import Ask, Steps

_MOST_BYTES: Final = 1 << 28

Side = TypeVar("Side", bound=asyncio.Protocol)


async def connect(place: Place, security: Security, side: Side, *, client_id: str, patience: float) -> Side:
    """Connects the protocol `side` to a broker, logged in. Raises CannotConnect, with a message of one line."""
    if security.sasl is None:
        return await _connected(place, security, side, patience)
    async with _in_time(place, patience):
        dialogue = await connected_dialogue(place, security, client_id=client_id, patience=patience)
        if dialogue.transport.is_closing():  # `side` would never get its connection_lost
            raise LoginFailed(f"{place} closed the connection after the login")
        dialogue.transport.set_protocol(side)
        side.connection_made(dialogue.transport)
        return side


async def connected_dialogue(place: Place, security: Security, *, client_id: str, patience: float) -> "Dialogue":
    """Opens a connection for the proxy's own requests, logged in. Raises CannotConnect, with a message of one line."""
    dialogue = await _connected(place, security, Dialogue(place, client_id), patience)
    if security.sasl:
        try:
            async with _in_time(place, patience):
                await _log_in(dialogue, security)
        except BaseException:
            dialogue.close()
            raise
    return dialogue


class Dialogue(asyncio.Protocol):
    """A connection for the proxy's own requests, one at a time."""

    def __init__(self, place: Place, client_id: str) -> None:
        self.place = place
        self._client_id = client_id
        self._splitter = FrameSplitter(_MOST_BYTES)
        self._correlation_id = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    async def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Sends a request and returns kio's response. Raises CannotConnect or Disconnected."""
        self._correlation_id += 1
        asking = KioAsking(api_key, api_version)
        header = RequestHeader(api_key, api_version, self._correlation_id, self._client_id)
        try:
            correlation_id, response = asking.response(await self.exchange(asking.request(header, values)[4:]))
            if correlation_id != self._correlation_id:
                raise BadBody(f"an answer to request {correlation_id}, where that to {self._correlation_id} was due")
        except (BadBody, BadFrame) as bad:
            self.close()
            raise CannotConnect(f"{self.place} does not answer as a Kafka broker does: {bad}") from None
        return response

    async def exchange(self, frame: bytes) -> bytes:
        """Sends a request frame and returns the answer, both without lengths. Raises Disconnected or BadFrame."""
        if self.transport.is_closing():
            raise Disconnected(f"{self.place} closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(framed([frame]))
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, chunk: bytes) -> None:
        for frame in self._splitter.feed(chunk):
            if self._answer and not self._answer.done():
                self._answer.set_result(frame)
        if self._splitter.broken:
            self._fail(self._splitter.broken)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(Disconnected(f"{self.place} closed the connection"))

    def _fail(self, error: Exception) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(error)


async def _connected(place: Place, security: Security, side: Side, patience: float) -> Side:
    tls = security.tls
    context = _context(tls) if tls else None
    try:
        async with _in_time(place, patience):
            _, connected = await asyncio.get_running_loop().create_connection(
                lambda: side,
                place.host,
                place.port,
                ssl=context,
                server_hostname=place.host if context else None,
            )
    except CannotConnect:
        raise
    except ssl.SSLError as error:
        from kcoord.client.tls import tls_failure

        assert tls
        raise tls_failure(error, tls, where=str(place)) from None
    except (OSError, UnicodeError, ValueError, OverflowError) as error:
        raise _unreachable(error, place) from None
    keep_alive(connected.transport)  # type: ignore[attr-defined]
    return connected


def _context(tls: Tls) -> ssl.SSLContext:
    from kcoord.client.tls import context_of

    return context_of(tls)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enables TCP keepalive, so that a peer that vanished without closing is noticed eventually."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _unreachable(error: Exception, place: Place) -> CannotConnect:
    where = in_one_line(place)
    match error:
        case socket.gaierror() | UnicodeError():
            why = f"the host {in_one_line(place.host)!r} is not known"
        case ConnectionRefusedError():
            why = "connection refused; is a broker running there?"
        case ConnectionResetError() | ConnectionAbortedError():
            return CannotConnect(f"{where} closed the connection; does it speak what security.protocol says?")
        case OSError():
            why = in_one_line(error.strerror or error)
        case _:  # such as an advertised port or host that no socket accepts
            why = f"no such address can be: {in_one_line(error)}"
    return Unreachable(f"cannot connect to {where}: {why}")


@asynccontextmanager
async def _in_time(place: Place, patience: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(patience):
            yield
    except TimeoutError:
        raise NoAnswer(f"{in_one_line(place)} did not answer within {patience:g} s") from None


async def _log_in(dialogue: Dialogue, security: Security) -> None:
    from kcoord.client.sasl import login_steps

    steps = login_steps(security, where=str(dialogue.place))
    response = None
    # The login steps run in a thread: SCRAM computes for milliseconds, and a token may have to be fetched.
    while (question := await asyncio.to_thread(_next, steps, response)) is not None:
        try:
            response = await dialogue.ask(question.api_key, question.api_version, **question.values)
        except Disconnected:
            raise LoginFailed(f"{dialogue.place} closed the connection during the login") from None


def _next(steps: "Steps", response: Any) -> "Ask | None":
    try:
        return steps.send(response)
    except StopIteration:
        return None
