"""Connections to brokers: TLS, the login, and the proxy's own requests."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from kcoord.client.connect_errors import CannotConnect, Disconnected, LoginFailed, NoAnswer, Unreachable, in_one_line
from kcoord.client.kio_codec import KioCodec
from kcoord.client.security import Security, Tls
from kcoord.exceptions import CorruptData
from kcoord.protocol.frames import CorruptMessage, FrameSplitter, framed
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.rewriting.endpoints import Endpoint

if TYPE_CHECKING:
    from kcoord.client.sasl import LoginRequest, LoginSteps

_MAX_RESPONSE_BYTES: Final = 1 << 28

Side = TypeVar("Side", bound=asyncio.Protocol)


async def connect(
    endpoint: Endpoint, security: Security, side: Side, *, client_id: str, request_timeout: float
) -> Side:
    """Connects to a broker, over TLS and with a SASL login as `security` demands, and returns `side`, the protocol that
    then has the connection. Raises CannotConnect, with a message of one line.
    """
    if security.sasl is None:
        return await _connect(endpoint, security, side, request_timeout)
    async with _within(endpoint, request_timeout):
        connection = await open_connection(endpoint, security, client_id=client_id, request_timeout=request_timeout)
        if connection.transport.is_closing():  # `side` would never get its connection_lost
            raise LoginFailed(f"{endpoint} closed the connection after the login")
        connection.transport.set_protocol(side)
        side.connection_made(connection.transport)
        return side


async def open_connection(
    endpoint: Endpoint, security: Security, *, client_id: str, request_timeout: float
) -> "BrokerConnection":
    """Opens a connection to a broker for the proxy's own requests, over TLS and with a SASL login as `security`
    demands. Raises CannotConnect, with a message of one line.
    """
    connection = await _connect(endpoint, security, BrokerConnection(endpoint, client_id), request_timeout)
    if security.sasl:
        try:
            async with _within(endpoint, request_timeout):
                await _log_in(connection, security)
        except BaseException:
            connection.close()
            raise
    return connection


class BrokerConnection(asyncio.Protocol):
    """A connection to a broker for the proxy's own requests, one at a time."""

    def __init__(self, endpoint: Endpoint, client_id: str) -> None:
        self.endpoint = endpoint
        self._client_id = client_id
        self._splitter = FrameSplitter(_MAX_RESPONSE_BYTES)
        self._correlation_id = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """The transport; the connection must have been made."""
        assert self._transport is not None
        return self._transport

    async def request(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Sends a request with these field values and returns kio's response entity. Raises CannotConnect or
        Disconnected.
        """
        self._correlation_id += 1
        client_codec = KioCodec(api_key, api_version)
        header = RequestHeader(api_key, api_version, self._correlation_id, self._client_id)
        try:
            correlation_id, response = client_codec.decode_response(
                await self.exchange(client_codec.encode_request(header, values)[4:])
            )
            if correlation_id != self._correlation_id:
                raise CorruptMessage(
                    f"an answer to request {correlation_id}, where that to {self._correlation_id} was due"
                )
        except CorruptData as bad:
            self.close()
            raise CannotConnect(f"{self.endpoint} does not answer as a Kafka broker does: {bad}") from None
        return response

    async def exchange(self, frame: bytes) -> bytes:
        """Sends a request frame and returns the response frame, both without lengths. Raises Disconnected or
        BadFrame.
        """
        if self.transport.is_closing():
            raise Disconnected(f"{self.endpoint} closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(framed([frame]))
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        """Closes the connection."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, chunk: bytes) -> None:
        """Splits received bytes into frames, and completes the request that awaits one."""
        for frame in self._splitter.feed(chunk):
            if self._answer and not self._answer.done():
                self._answer.set_result(frame)
        if self._splitter.error:
            self._fail(self._splitter.error)

    def connection_lost(self, error: Exception | None) -> None:
        """Fails the request that awaits a response."""
        self._fail(Disconnected(f"{self.endpoint} closed the connection"))

    def _fail(self, error: Exception) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(error)


async def _connect(endpoint: Endpoint, security: Security, side: Side, request_timeout: float) -> Side:
    tls = security.tls
    context = _tls_context(tls) if tls else None
    try:
        async with _within(endpoint, request_timeout):
            _, connected = await asyncio.get_running_loop().create_connection(
                lambda: side,
                endpoint.host,
                endpoint.port,
                ssl=context,
                server_hostname=endpoint.host if context else None,
            )
    except CannotConnect:
        raise
    except ssl.SSLError as error:
        from kcoord.client.tls import tls_failure

        assert tls
        raise tls_failure(error, tls, where=str(endpoint)) from None
    except (OSError, UnicodeError, ValueError, OverflowError) as error:
        raise _unreachable(error, endpoint) from None
    keep_alive(connected.transport)  # type: ignore[attr-defined]
    return connected


def _tls_context(tls: Tls) -> ssl.SSLContext:
    from kcoord.client.tls import context_of

    return context_of(tls)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enables TCP keepalive, so that a peer that vanished without closing is noticed eventually."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _unreachable(error: Exception, endpoint: Endpoint) -> CannotConnect:
    where = in_one_line(endpoint)
    match error:
        case socket.gaierror() | UnicodeError():
            why = f"the host {in_one_line(endpoint.host)!r} is not known"
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
async def _within(endpoint: Endpoint, request_timeout: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(request_timeout):
            yield
    except TimeoutError:
        raise NoAnswer(f"{in_one_line(endpoint)} did not answer within {request_timeout:g} s") from None


async def _log_in(connection: BrokerConnection, security: Security) -> None:
    from kcoord.client.sasl import login_steps

    steps = login_steps(security, where=str(connection.endpoint))
    response = None
    # The login steps run in a thread: SCRAM computes for milliseconds, and a token may have to be fetched.
    while (step := await asyncio.to_thread(_next_step, steps, response)) is not None:
        try:
            response = await connection.request(step.api_key, step.api_version, **step.values)
        except Disconnected:
            raise LoginFailed(f"{connection.endpoint} closed the connection during the login") from None


def _next_step(steps: "LoginSteps", response: Any) -> "LoginRequest | None":
    try:
        return steps.send(response)
    except StopIteration:
        return None
