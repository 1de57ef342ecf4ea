"""Pre-auth connections: a client of a secure listener has one until its TLS handshake and its login are done.

    accept ─ TLS handshake ─ login (security/login decides) ─ promote: the real connection takes over the transport

This is a separate asyncio protocol, so that connections know nothing of logins and listeners without security have none
of this. It reads one small frame at a time and buffers the rest for the real connection. A refused client is counted
and logged in one line; a failed login is answered with a delay, to slow down guessing of passwords. Pre-auth
connections count towards the limits of connections and of memory.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, assert_never, cast

from kcoord.protocol.frames import LENGTH_PREFIX, BadBody, about_length
from kcoord.security.listener import ANONYMOUS
from kcoord.security.refusals import Refusal, Refused
from kcoord.server.connection.draining import after_draining
from kcoord.server.log_text import node_word

if TYPE_CHECKING:
    from kcoord.security.login import Login, Outcome
    from kcoord.server.listener.secure_listener import Entrance

log = logging.getLogger("kcoord.server")

_FAREWELL: Final = 1.0
"""Seconds that a refused client may take to close its side, which an orderly close over TLS needs."""


class Host(Protocol):
    """The server or proxy that authenticated clients are promoted to."""

    def welcome(self, gate: "Gate") -> str | None:
        """Registers a new client; returns the reason if it must be refused, else None."""

    def left(self, gate: "Gate") -> None:
        """Called once per client when its pre-auth connection ends: closed, refused or promoted."""

    def tell_versions(self, gate: "Gate", frame: bytes) -> None:
        """Answers an ApiVersions request with `send_api_versions`, now or later. May raise CorruptMessage."""

    def let_in(self, gate: "Gate", transport: asyncio.Transport) -> asyncio.Protocol:
        """Returns the protocol that takes over for the authenticated `principal`; its connection_made was called."""


class Gate(asyncio.Protocol):
    """One client before its TLS handshake and login are done."""

    def __init__(self, entrance: "Entrance", node_id: int) -> None:
        self.node_id = node_id
        self.peer = ""
        self.address = ""
        self.principal = ANONYMOUS
        self.server_name: str | None = None
        """The server name that the client sent in TLS (SNI)."""
        self._entrance = entrance
        self._login: Login | None = None
        self._checking: asyncio.Future[bool] | None = None
        self._received = bytearray()
        self._is_busy = False  # while a frame is being handled
        self._is_over = False
        self._heard = 0  # number of received chunks
        self._is_prolonged = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def arrive(self, peername: tuple[object, ...]) -> bool:
        """Registers the client with the host; returns whether it may go on."""
        self.address, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        self._entrance.gates.add(self)
        reason = self._entrance.host.welcome(self)
        if reason is not None:
            self.refuse(Refused(Refusal.LIMIT, reason))
            return False
        self._set_deadline(self._entrance.login_timeout, self._give_up)
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins the login; over TLS the handshake is done by now."""
        self._transport = cast(asyncio.Transport, transport)
        if self._is_over:
            self._transport.abort()
            return
        if self._entrance.tls is not None:
            from kcoord.security.listener_tls import principal_of, server_name_of

            self.principal, self.server_name = principal_of(transport), server_name_of(transport)
        elif not self.arrive(transport.get_extra_info("peername") or ("?", 0)):
            return
        self._login = self._entrance.login()
        if self._login is None:
            self._let_in()

    def data_received(self, chunk: bytes) -> None:
        if not self._is_over:
            self._heard += 1
            self._received += chunk
            self._entrance.held(len(chunk))
            self._work()

    @property
    def held_bytes(self) -> int:
        return len(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def told(self, pieces: list[bytes]) -> None:
        """Sends the response to the ApiVersions request that the host was given."""
        if not self._is_over:
            self._say(pieces)
            self._go_on()

    def refuse(self, refused: Refused) -> None:
        """Counts and logs the refusal and closes the connection, unless it has ended."""
        if not self._is_over:
            self._count(refused)
            self.hang_up()

    def hang_up(self) -> None:
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _work(self) -> None:
        """Passes received frames to the login until none is left or one must be waited for."""
        while not self._is_busy and not self._is_over:
            frame = self._next_frame()
            if frame is None:
                return
            assert self._login is not None
            self._do(self._login.receive(frame), frame)

    def _next_frame(self) -> bytes | None:
        if len(self._received) < LENGTH_PREFIX.size:
            return None
        (length,) = LENGTH_PREFIX.unpack_from(self._received)
        most = self._entrance.settings.sasl_server_max_receive_size
        if not 0 <= length <= most:
            about = f"before the login: {about_length(length, 0, most)}"
            self.refuse(Refused(Refusal.MALFORMED, about))
            return None
        end = LENGTH_PREFIX.size + length
        if len(self._received) < end:
            return None
        frame = bytes(self._received[LENGTH_PREFIX.size : end])
        del self._received[:end]
        self._entrance.held(-end)
        return frame

    def _do(self, outcome: "Outcome", frame: bytes = b"") -> None:
        from kcoord.security.login import AnswerApiVersions, Check, LoggedIn, Refuse, Send

        match outcome:
            case Send(pieces):
                self._say(pieces)
            case AnswerApiVersions():
                self._wait()
                try:
                    self._entrance.host.tell_versions(self, frame)
                except BadBody:
                    self.refuse(Refused(Refusal.MALFORMED, "a malformed ApiVersions request"))
            case Check(work):
                self._wait()
                self._checking = self._entrance.check(work, self._checked)
            case LoggedIn(pieces, principal):
                self._say(pieces)
                self.principal = principal
                self._let_in()
            case Refuse(pieces, refused):
                self._wait()
                self._count(refused)
                self._set_deadline(self._entrance.failure_delay, lambda: self._say_and_close(pieces))
            case _:
                assert_never(outcome)

    def _checked(self, is_right: bool) -> None:
        if not self._is_over:
            assert self._login is not None
            self._do(self._login.checked(is_right))

    def _wait(self) -> None:
        """Pauses reading, so that a client cannot fill memory while a frame is being handled."""
        assert self._transport is not None
        if not self._is_busy:
            self._is_busy = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        assert self._transport is not None
        self._is_busy = False
        self._transport.resume_reading()
        self._work()

    def _say(self, pieces: list[bytes]) -> None:
        assert self._transport is not None
        if pieces:
            self._transport.writelines(pieces)

    def _let_in(self) -> None:
        """Hands the transport and the unread bytes over to the real connection."""
        transport, unread = self._transport, bytes(self._received)
        assert transport is not None
        self._end()
        log.debug("let in peer=%s node=%s principal=%r", self.peer, node_word(self.node_id), self.principal)
        connection = self._entrance.host.let_in(self, transport)
        transport.set_protocol(connection)
        if self._is_busy:
            transport.resume_reading()
        if unread:
            connection.data_received(unread)

    def _give_up(self) -> None:
        after_draining(asyncio.get_running_loop(), partial(self._give_up_unless_heard, self._heard))

    def _give_up_unless_heard(self, heard_before: int) -> None:
        """Refuses a client that is late. If bytes had arrived while this process was held up, extends the timeout
        once."""
        if self._is_over:
            return
        if self._heard > heard_before and not self._is_prolonged:
            self._is_prolonged = True
            self._set_deadline(self._entrance.login_timeout, self._give_up)
        else:
            self.refuse(Refused(Refusal.TIMEOUT, "not let in in time"))

    def _say_and_close(self, pieces: list[bytes]) -> None:
        assert self._transport is not None
        self._say(pieces)
        self._transport.close()
        self._set_deadline(_FAREWELL, self.hang_up)

    def _set_deadline(self, timeout: float, then: Callable[[], None]) -> None:
        """Replaces the current deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(timeout, then)

    def _count(self, refused: Refused) -> None:
        self._entrance.refused[refused.why] += 1
        log.warning("refused peer=%s node=%s why=%s about=%r", self.peer, node_word(self.node_id), *refused)

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._checking is not None:
            self._checking.cancel()  # frees the thread for other logins
        self._entrance.held(-len(self._received))
        self._received.clear()
        if self in self._entrance.gates:
            self._entrance.gates.remove(self)
            self._entrance.host.left(self)
