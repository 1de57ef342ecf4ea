"""Why a connection could not be made or used. Each error is one line that names the address and what to do."""

from typing import Any, Final

from kcoord.exceptions import RemoteFailure

_LONGEST_SHOWN: Final = 300


class CannotConnect(RemoteFailure, ConnectionError):
    """An error: no connection to a broker could be made, because of the network, TLS or the login."""


class Unreachable(CannotConnect):
    """An error: no server is at the address. The host is unknown, the connection was refused, or there is no route."""


class TlsFailed(CannotConnect):
    """An error: the TLS handshake failed. The two sides share no version or cipher, or one does not trust the other."""


class NotTls(TlsFailed):
    """An error: the server does not seem to speak TLS at all."""


class LoginFailed(CannotConnect):
    """An error: the SASL login failed. The server rejected the credentials or does not offer the mechanism."""


class NoAnswer(CannotConnect, TimeoutError):
    """An error: the server did not answer within the timeout."""


class Disconnected(RemoteFailure, ConnectionResetError):
    """An error: the server closed the connection."""


def in_one_line(text: Any) -> str:
    """Makes text from a server safe to show: control characters are escaped, and it is cut to 300 characters."""
    start = str(text)[: _LONGEST_SHOWN + 1]  # The rest is not shown, so it must not cost anything.
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in start)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
