"""Why a connection could not be made or used. Each error is one line that names the address and what to do."""

from typing import Any, Final

from kcoord.exceptions import RemoteFailure

_LONGEST_SHOWN: Final = 300


class CannotConnect(RemoteFailure, ConnectionError):
    """No connection could be made."""


class Unreachable(CannotConnect):
    """Nobody answers at the address: unknown host, connection refused, no route."""


class TlsFailed(CannotConnect):
    """The two sides did not agree on TLS, or one did not trust the other."""


class NotTls(TlsFailed):
    """The server seems not to speak TLS at all."""


class LoginFailed(CannotConnect):
    """The server refused the login, or wants another mechanism."""


class NoAnswer(CannotConnect, TimeoutError):
    """The server took too long."""


class Disconnected(RemoteFailure, ConnectionResetError):
    """The server closed the connection."""


def in_one_line(text: Any) -> str:
    """Makes text from a server safe to show: control characters are escaped, and it is cut to 300 characters."""
    start = str(text)[: _LONGEST_SHOWN + 1]  # The rest is not shown, so it must not cost anything.
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in start)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
