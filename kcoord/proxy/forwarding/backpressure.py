"""Backpressure: neither side is read from faster than the other side takes what is forwarded to it.

A side is not read from while one of its reasons holds:

| reason             | holds while                                                                     | not read from |
|--------------------|---------------------------------------------------------------------------------|---------------|
| UPSTREAM_FULL      | more than MAX_UNSENT_BYTES wait to be sent to the broker                        | the client    |
| CONNECTING         | more than that wait until a broker is connected                                 | the client    |
| HANDLING           | a request is handled here, which no later request of the client may overtake    | the client    |
| CLIENT_FULL        | more than MAX_UNSENT_BYTES wait to be sent to the client                        | both          |
| TOO_MANY_IN_FLIGHT | more requests than in_flight.MAX_IN_FLIGHT wait for their answers               | the client    |
"""

from typing import Final, Protocol

MAX_UNSENT_BYTES: Final = 1 << 19
"""How many bytes may wait to be sent to one side before reading from the other side is paused."""

UPSTREAM_FULL: Final = 1
CONNECTING: Final = 2
HANDLING: Final = 4
CLIENT_FULL: Final = 8
TOO_MANY_IN_FLIGHT: Final = 16


class Readable(Protocol):
    """A connection that can be read from or not, such as an asyncio transport."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Backpressure:
    """Pauses and resumes reading from a client and its broker, whatever the order in which reasons come and go.

    The client is paused when its first reason comes and resumed when its last one has gone, so each of the two is
    called only when it changes something.
    """

    __slots__ = ("_client", "_is_client_paused", "_reasons", "_upstream")

    def __init__(self) -> None:
        self._client: Readable | None = None
        self._upstream: Readable | None = None
        self._reasons = 0
        self._is_client_paused = False

    def is_paused_for(self, reasons: int) -> bool:
        """Returns whether any of these reasons holds."""
        return bool(self._reasons & reasons)

    def attach_client(self, client: Readable) -> None:
        self._client = client

    def detach_client(self) -> None:
        """Never pauses or resumes the client again: it is closed, or has sent its end, which must not be read twice."""
        self._client = None

    def attach_upstream(self, upstream: Readable) -> None:
        """Attaches the broker's connection, in place of an earlier one; it is paused if the client is full."""
        self._upstream = upstream
        if self._reasons & CLIENT_FULL:
            upstream.pause_reading()

    def pause_for(self, reason: int) -> None:
        self._reasons |= reason
        if self._client is not None and not self._is_client_paused:
            self._is_client_paused = True
            self._client.pause_reading()
        if reason == CLIENT_FULL and self._upstream is not None:
            self._upstream.pause_reading()

    def resume_after(self, reason: int) -> None:
        """Drops a reason; does nothing if it does not hold."""
        if not self._reasons & reason:
            return
        self._reasons &= ~reason
        if reason == CLIENT_FULL and self._upstream is not None:
            self._upstream.resume_reading()
        if self._client is not None and self._is_client_paused and not self._reasons:
            self._is_client_paused = False
            self._client.resume_reading()
