"""Why a connection could not be made or used. Each is one line that names the address and says what to do."""

from typing import Any, Final

_LONGEST_SHOWN: Final = 300


class CannotConnect(ConnectionError):
    """There is no connection."""


class Unreachable(CannotConnect):
    """Nobody answers there: unknown host, refused, no route."""


class TlsFailed(CannotConnect):
    """The two sides could not agree on TLS, or one did not trust the other."""


class NotTls(TlsFailed):
    """The other side seems not to speak TLS at all."""


class LoginFailed(CannotConnect):
    """The server did not let us in, or wants another kind of login."""


class NoAnswer(CannotConnect, TimeoutError):
    """The other side took too long."""


class Disconnected(ConnectionResetError):
    """The server closed the connection."""


def address(host: str, port: int) -> str:
    """host:port, as people write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def in_one_line(text: Any) -> str:
    """What the other side said, safe to show: control characters are escaped, and it is not endless."""
    said = str(text)[: _LONGEST_SHOWN + 1]  # the rest is not shown, so that it must not cost anything, either
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in said)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
