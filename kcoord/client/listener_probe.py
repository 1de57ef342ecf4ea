"""Probes what a port speaks, after it has closed a connection: a reset does not show that security.protocol
is wrong.
"""

import socket
import time
from typing import TYPE_CHECKING, Any, Final

from kcoord.client.client_codec import schema_codec
from kcoord.client.sasl import SASL_HANDSHAKE, offered_mechanisms
from kcoord.client.security import Security, Tls
from kcoord.errors import ErrorCode
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader

if TYPE_CHECKING:
    from ssl import SSLSocket

_TIMEOUT: Final = 6.0  # For the whole probe: a server that sends a byte now and then is not waited for.
_HTTP_TIMEOUT: Final = 2.0
_HTTP_REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_HTTP_ANSWER: Final = b"HTTP/"
_MOST_BYTES: Final = 1 << 16
_NO_MECHANISM: Final = "kcoord-asks-which"
_UNAUTHENTICATED: Final = Tls(checks_certificate=False)
"""Settings for a server that is not authenticated: the probe sends it no secret and trusts nothing in its responses."""


def listener_advice(host: str, port: int, tried: Security) -> str | None:
    """Probes a listener that closed a connection, and returns a text about which security.protocol it expects instead
    of the one that was tried. Returns None if the probe cannot find out.
    """
    deadline = time.monotonic() + _TIMEOUT
    speaks_tls = _speaks_tls(host, port, deadline)
    mechanisms = _mechanisms(host, port, deadline, speaks_tls=speaks_tls)
    if mechanisms is None:  # It is no Kafka broker, or busy: no advice is better than wrong advice.
        return "it speaks TLS: use security.protocol=SSL or SASL_SSL" if speaks_tls and not tried.tls else None
    wanted = ("SASL_SSL" if speaks_tls else "SASL_PLAINTEXT") if mechanisms else ("SSL" if speaks_tls else "PLAINTEXT")
    if wanted == tried.protocol:
        return None
    differences = []
    if speaks_tls != (tried.tls is not None):
        differences.append("it speaks TLS" if speaks_tls else "it does not speak TLS")
    if mechanisms and not tried.sasl:
        differences.append(f"it wants a login ({mechanisms})")
    elif tried.sasl and not mechanisms:
        differences.append("it wants no login")
    return f"{' and '.join(differences)}: use security.protocol={wanted}"


def speaks_http(host: str, port: int, tried: Security) -> bool:
    """Returns whether the port belongs to an HTTP server and not to a Kafka broker, by sending an HTTP request
    to it.
    """
    deadline = time.monotonic() + _HTTP_TIMEOUT
    try:
        with _opened(host, port, deadline, speaks_tls=tried.tls is not None) as connection:
            connection.settimeout(_remaining(deadline))
            connection.sendall(_HTTP_REQUEST)
            return connection.recv(_MOST_BYTES).startswith(_HTTP_ANSWER)
    except OSError:
        return False


def _speaks_tls(host: str, port: int, deadline: float) -> bool:
    try:
        with _opened(host, port, deadline, speaks_tls=True):
            return True
    except OSError:
        return False


def _mechanisms(host: str, port: int, deadline: float, *, speaks_tls: bool) -> str | None:
    """Returns the mechanisms of a listener that requires a login, "" if it requires none, None if it is no Kafka
    broker.
    """
    try:
        with _opened(host, port, deadline, speaks_tls=speaks_tls) as connection:
            response = _request(connection, deadline, *SASL_HANDSHAKE, mechanism=_NO_MECHANISM)
    except (OSError, ValueError):
        return None
    match response.error_code:
        case ErrorCode.unsupported_sasl_mechanism:
            return offered_mechanisms(response)
        case ErrorCode.illegal_sasl_state:
            return ""
        case _:
            return None


def _opened(host: str, port: int, deadline: float, *, speaks_tls: bool) -> "socket.socket | SSLSocket":
    connection = socket.create_connection((host, port), timeout=_remaining(deadline))
    if not speaks_tls:
        return connection
    from kcoord.client.tls import start_tls

    try:
        connection.settimeout(_remaining(deadline))
        return start_tls(connection, host, _UNAUTHENTICATED, where=host)
    except BaseException:
        connection.close()
        raise


def _remaining(deadline: float) -> float:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _request(
    connection: "socket.socket | SSLSocket", deadline: float, api_key: int, api_version: int, **values: Any
) -> Any:
    codec = schema_codec(api_key, api_version)
    header = RequestHeader(api_key=api_key, api_version=api_version, correlation_id=1, client_id="kcoord")
    connection.settimeout(_remaining(deadline))
    connection.sendall(codec.encode_request(header, values))
    splitter = FrameSplitter(_MOST_BYTES)
    while True:
        connection.settimeout(_remaining(deadline))
        chunk = connection.recv(_MOST_BYTES)
        frames = splitter.feed(chunk)
        if frames:
            return codec.decode_response(frames[0])[1]
        if not chunk or splitter.error:
            raise ValueError("no answer that can be read")
