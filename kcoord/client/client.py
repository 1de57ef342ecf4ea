"""A client connection: one request out, its response back. It blocks; tools and tests use it."""

import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from kcoord.api_keys import ApiKey
from kcoord.client.client_codec import CodecFactory, kio_codec
from kcoord.client.connect_errors import (
    CannotConnect,
    Disconnected,
    NoAnswer,
    NotTls,
    Unreachable,
    in_one_line,
)
from kcoord.client.security import Security
from kcoord.endpoints import format_endpoint
from kcoord.exceptions import CorruptData
from kcoord.protocol.frames import CorruptMessage, FrameSplitter
from kcoord.protocol.headers import RequestHeader

if TYPE_CHECKING:
    import ssl

__all__ = ["Client", "Disconnected"]

Read = TypeVar("Read")

_TLS_ALERT: Final = b"\x15\x03"
"""The first bytes of a TLS alert. As the length of a frame they would mean 350 MB: no first response is so long."""
_MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The largest response: none of those asked for here is so long, and no server may fill the memory."""
_MAX_PREALLOCATED_BYTES: Final = 16 * 1024 * 1024
"""The largest frame that gets its memory at once, on the claim of its length."""
_RECV_BYTES: Final = 1 << 15
"""Bytes. For larger reads the system would allocate fresh memory each time, which takes longer than more calls do."""


class Client:
    """A blocking connection to one Kafka broker, over which requests are sent and their responses read.

    `Client("127.0.0.1", 9092).ask(3, 12, topics=None)` sends Metadata version 12. `codec` writes requests and reads
    responses; by default responses are kio's entities. With `security`, TLS and the login are done when the constructor
    returns. Failures are the errors of connect_errors. If the server closes the connection before the first response,
    and `security` was given, the client probes what the listener expects.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        security: Security | None = None,
        client_id: str | None = "kcoord",
        timeout: float = 30.0,
        codec: CodecFactory = kio_codec,
    ) -> None:
        self.where = format_endpoint(host, port)
        self._endpoint = (host, port)
        self._security = security
        self._client_id = client_id
        self._timeout = timeout
        self._codec = codec
        self._is_accepted = False
        self._splitter = FrameSplitter(_MAX_RESPONSE_BYTES)
        self._frames: list[bytes] = []
        self._correlation_id = 0
        # Correlation ids; None marks a request that `send_bytes` sent, which has its own.
        self._awaited: deque[int | None] = deque()
        self._socket: socket.socket | ssl.SSLSocket = _connected(host, port, timeout)
        if security:
            try:
                self._secure(security)
            except BaseException:
                self.close()
                raise

    def ask(self, api_key: int, api_version: int, **values: Any) -> Any:
        """Sends a request of these field values, waits for its response and returns that. Nested entities are dicts;
        fields of other versions are left out, and missing ones take their defaults.
        """
        self.send(api_key, api_version, **values)
        return self.receive(api_key, api_version)

    def send(self, api_key: int, api_version: int, **values: Any) -> None:
        """Sends a request and does not wait for its response."""
        self._correlation_id += 1
        header = RequestHeader(
            api_key=api_key,
            api_version=api_version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        content = self._codec(api_key, api_version).encode_request(header, values)
        # Produce with acks=0 is the one request that is never answered.
        if api_key != ApiKey.PRODUCE or values.get("acks") != 0:
            self._awaited.append(self._correlation_id)
        self._send(content)

    def receive(self, api_key: int, api_version: int) -> Any:
        """Reads the next response, which must be to the oldest request without one, and returns it. Raises
        CorruptMessage if it is malformed or belongs to another request.
        """
        awaited = self._awaited[0] if self._awaited else None
        read = self._codec(api_key, api_version).decode_response  # Made before the wait, while the server works.
        correlation_id, response = read(self.receive_frame())
        if awaited is not None and correlation_id != awaited:
            raise CorruptMessage(f"an answer to request {correlation_id}, where that to {awaited} was due")
        # ApiVersions is answered to every client, also by a listener that then requires a login.
        self._is_accepted = self._is_accepted or api_key != ApiKey.API_VERSIONS
        return response

    def send_bytes(self, content: bytes) -> None:
        """Sends a request that the caller has encoded: a whole frame, with its length prefix."""
        self._awaited.append(None)
        self._send(content)

    def receive_frame(self) -> bytes:
        """Reads the next response frame and returns its bytes without the length prefix. Raises Disconnected if the
        server hung up.
        """
        deadline = time.monotonic() + self._timeout
        while not self._frames:
            chunk = self._wait(partial(self._socket.recv, _RECV_BYTES), deadline)
            if not chunk or (not self._is_accepted and chunk.startswith(_TLS_ALERT)):
                self._raise_disconnected()
            self._frames = self._splitter.feed(chunk)
            if self._splitter.error:
                raise self._splitter.error
            if not self._frames and _RECV_BYTES < self._splitter.missing_bytes <= _MAX_PREALLOCATED_BYTES:
                self._frames = [self._receive_large_frame(deadline)]
        if self._awaited:
            self._awaited.popleft()
        return self._frames.pop(0)

    def _receive_large_frame(self, deadline: float) -> bytes:
        """Reads a large frame straight into its memory: growing a buffer on the way takes time."""
        missing = self._splitter.missing_bytes
        partial_frame = self._splitter.take_partial()
        frame = bytearray(len(partial_frame) + missing)
        frame[: len(partial_frame)] = partial_frame
        whole = memoryview(frame)
        try:
            while missing:
                read = self._wait(partial(self._socket.recv_into, whole[-missing:]), deadline)
                if not read:
                    self._raise_disconnected()
                missing -= read
        except BaseException:
            self.close()  # A part of the frame is lost, so the stream cannot be read on.
            raise
        return bytes(frame)

    def set_response_timeout(self, timeout: float) -> None:
        """Sets how many seconds each response may take from now on; until then the timeout of the connect applies."""
        self._timeout = timeout
        self._socket.settimeout(timeout)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _wait(self, read: Callable[[], Read], deadline: float) -> Read:
        try:
            if time.monotonic() > deadline:  # A server may send a little now and then, so that reads do not time out.
                raise TimeoutError
            return read()
        except OSError as error:
            self._raise_connection_error(error)

    def _send(self, content: bytes) -> None:
        try:
            self._socket.sendall(content)
        except OSError as error:
            if not isinstance(error, TimeoutError):
                self._read_tls_alert()
            self._raise_connection_error(error)

    def _secure(self, security: Security) -> None:
        if security.tls:
            from kcoord.client.tls import start_tls  # Imported here because many clients never need ssl.

            try:
                self._socket = start_tls(self._socket, self._endpoint[0], security.tls, where=self.where)
            except NotTls:
                self._raise_probe_advice()
                raise
            except OSError as error:
                self._raise_connection_error(error)
        if security.sasl:
            from kcoord.client.sasl import log_in

            try:
                log_in(self.ask, security, where=self.where)
            except CorruptData as error:
                raise CannotConnect(f"{self.where} does not answer as a Kafka broker does: {error}") from None

    def _read_tls_alert(self) -> None:
        """Reads a TLS alert after a failed write: a server of TLS 1.3 asks for a client certificate only then."""
        if self._is_accepted or not self._security or not self._security.tls:
            return
        import ssl

        try:
            self._socket.recv(1)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return
        except ssl.SSLError as error:
            self._raise_connection_error(error)
        except OSError:
            return

    def _raise_connection_error(self, error: OSError) -> NoReturn:
        """Raises the error that explains why the connection broke. One that explains itself is raised unchanged."""
        if isinstance(error, CannotConnect):
            raise error
        if isinstance(error, TimeoutError):
            self._raise_if_http()
            raise NoAnswer(f"{self.where} did not answer within {self._timeout:g} s") from None
        if isinstance(error, ConnectionError):
            self._raise_disconnected()
        tls = self._security.tls if self._security else None
        if tls:
            import ssl

            from kcoord.client.tls import tls_failure

            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                self._raise_disconnected()
            if isinstance(error, ssl.SSLError):
                raise tls_failure(error, tls, where=self.where) from None
        raise error

    def _raise_disconnected(self) -> NoReturn:
        if self._is_accepted or self._security is None:
            raise Disconnected(f"{self.where} closed the connection")
        self._raise_probe_advice()
        raise Disconnected(f"{self.where} closed the connection without an answer; is it a Kafka broker?")

    def _raise_probe_advice(self) -> None:
        """Raises CannotConnect with the reason, if probing the listener finds one."""
        assert self._security, "what was not meant to be secure is not explained"
        from kcoord.client.listener_probe import listener_advice

        self.close()
        if advice := listener_advice(*self._endpoint, self._security):
            raise CannotConnect(f"{self.where} closed the connection: {advice}") from None

    def _raise_if_http(self) -> None:
        """Raises CannotConnect if it is an HTTP server: some wait for the end of a line that never comes."""
        if self._is_accepted or self._security is None:
            return
        from kcoord.client.listener_probe import speaks_http

        self.close()  # Closed first: the server may serve one connection after the other.
        if speaks_http(*self._endpoint, self._security):
            raise CannotConnect(f"{self.where} speaks HTTP, not Kafka's protocol: is it another port?") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    where = in_one_line(format_endpoint(host, port))
    try:
        connection = socket.create_connection((_encoded(host), port), timeout=timeout)
    except TimeoutError:
        raise NoAnswer(f"cannot connect to {where}: no answer within {timeout:g} s") from None
    except (socket.gaierror, UnicodeError):
        raise Unreachable(f"cannot connect to {where}: the host {host!r} is not known") from None
    except (ValueError, OverflowError) as error:  # For example, a broker advertises an address that no socket takes.
        raise Unreachable(f"cannot connect to {where}: no such address can be: {error}") from None
    except ConnectionRefusedError:
        raise Unreachable(f"cannot connect to {where}: connection refused; is a broker running there?") from None
    except OSError as error:
        raise Unreachable(f"cannot connect to {where}: {error.strerror or error}") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _encoded(host: str) -> Any:
    """Returns bytes, which are resolved as they are. For text Python would import the codec for names beyond ASCII."""
    return host.encode() if host.isascii() else host
