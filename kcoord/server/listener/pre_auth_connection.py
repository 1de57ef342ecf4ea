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

from kcoord.protocol.frames import LENGTH_PREFIX, CorruptMessage, explain_bad_length
from kcoord.security.listener import ANONYMOUS
from kcoord.security.refusals import Refusal, Refused
from kcoord.server.connection.draining import after_draining
from kcoord.server.log_text import format_node

if TYPE_CHECKING:
    from kcoord.security.login import Login, Outcome
    from kcoord.server.listener.secure_listener import SecureListener

log = logging.getLogger("kcoord.server")

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that a refused client may take to close its side, which an orderly close over TLS needs."""


class PreAuthHost(Protocol):
    """The server or proxy behind a secure listener: clients are promoted to it when their TLS handshake and SASL login
    are done.
    """

    def admit_pre_auth(self, pre_auth: "PreAuthConnection") -> str | None:
        """Registers a client that has connected but not logged in; returns the reason if it must be refused,
        else None.
        """

    def on_pre_auth_closed(self, pre_auth: "PreAuthConnection") -> None:
        """Called once per client when its pre-auth connection ends: closed, refused or promoted."""

    def answer_api_versions(self, pre_auth: "PreAuthConnection", frame: bytes) -> None:
        """Answers an ApiVersions request that came before the login by `send_api_versions`, now or later. May raise
        CorruptMessage.
        """

    def promote(self, pre_auth: "PreAuthConnection", transport: asyncio.Transport) -> asyncio.Protocol:
        """Makes the connection of a client that has logged in, as `pre_auth.principal`, and returns the protocol that
        takes over its transport. Its connection_made was called.
        """


class PreAuthConnection(asyncio.Protocol):
    """The connection of one client before its TLS handshake and SASL login are done (asyncio.Protocol)."""

    def __init__(self, listener: "SecureListener", node_id: int) -> None:
        self.node_id = node_id
        self.peer = ""
        self.address = ""
        self.principal = ANONYMOUS
        self.server_name: str | None = None
        """The server name that the client sent in TLS (SNI)."""
        self._listener = listener
        self._login: Login | None = None
        self._checking: asyncio.Future[bool] | None = None
        self._received = bytearray()
        self._is_reading_paused = False  # while a frame is being handled
        self._is_done = False
        self._chunks_received = 0  # number of received chunks
        self._is_prolonged = False
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def admit(self, peername: tuple[object, ...]) -> bool:
        """Registers the client with the host; returns False if it was refused and closed."""
        self.address, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        self._listener.pre_auth_connections.add(self)
        reason = self._listener.host.admit_pre_auth(self)
        if reason is not None:
            self.refuse(Refused(Refusal.LIMIT, reason))
            return False
        self._set_deadline(self._listener.login_timeout, self._on_timeout)
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins the SASL login, or promotes the client if none is required; over TLS the handshake is done by now."""
        self._transport = cast(asyncio.Transport, transport)
        if self._is_done:
            self._transport.abort()
            return
        if self._listener.tls is not None:
            from kcoord.security.listener_tls import principal_of, server_name_of

            self.principal, self.server_name = principal_of(transport), server_name_of(transport)
        elif not self.admit(transport.get_extra_info("peername") or ("?", 0)):
            return
        self._login = self._listener.login()
        if self._login is None:
            self._promote()

    def data_received(self, chunk: bytes) -> None:
        """Handles the login's requests, and ApiVersions."""
        if not self._is_done:
            self._chunks_received += 1
            self._received += chunk
            self._listener.adjust_held(len(chunk))
            self._process_received()

    @property
    def held_bytes(self) -> int:
        """The received bytes that are not processed yet."""
        return len(self._received)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the login of a client that has disconnected."""
        self._end()

    def send_api_versions(self, pieces: list[bytes]) -> None:
        """Sends the pieces of the response to the ApiVersions request that was passed to the host."""
        if not self._is_done:
            self._write(pieces)
            self._resume_reading()

    def refuse(self, refused: Refused) -> None:
        """Counts and logs why the client is refused and closes the connection, unless it has ended."""
        if not self._is_done:
            self._count(refused)
            self.hang_up()

    def hang_up(self) -> None:
        """Closes the connection, when the server stops."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def _process_received(self) -> None:
        """Passes received frames to the login until none is left or one must be waited for."""
        while not self._is_reading_paused and not self._is_done:
            frame = self._next_frame()
            if frame is None:
                return
            assert self._login is not None
            self._apply(self._login.receive(frame), frame)

    def _next_frame(self) -> bytes | None:
        if len(self._received) < LENGTH_PREFIX.size:
            return None
        (length,) = LENGTH_PREFIX.unpack_from(self._received)
        most = self._listener.settings.sasl_server_max_receive_size
        if not 0 <= length <= most:
            about = f"before the login: {explain_bad_length(length, 0, most)}"
            self.refuse(Refused(Refusal.MALFORMED, about))
            return None
        end = LENGTH_PREFIX.size + length
        if len(self._received) < end:
            return None
        frame = bytes(self._received[LENGTH_PREFIX.size : end])
        del self._received[:end]
        self._listener.adjust_held(-end)
        return frame

    def _apply(self, outcome: "Outcome", frame: bytes = b"") -> None:
        from kcoord.security.login import AnswerApiVersions, Check, LoggedIn, Refuse, Send

        match outcome:
            case Send(pieces):
                self._write(pieces)
            case AnswerApiVersions():
                self._pause_reading()
                try:
                    self._listener.host.answer_api_versions(self, frame)
                except CorruptMessage:
                    self.refuse(Refused(Refusal.MALFORMED, "a malformed ApiVersions request"))
            case Check(work):
                self._pause_reading()
                self._checking = self._listener.check(work, self._checked)
            case LoggedIn(pieces, principal):
                self._write(pieces)
                self.principal = principal
                self._promote()
            case Refuse(pieces, refused):
                self._pause_reading()
                self._count(refused)
                self._set_deadline(self._listener.failure_delay, lambda: self._write_and_close(pieces))
            case _:
                assert_never(outcome)

    def _checked(self, is_right: bool) -> None:
        if not self._is_done:
            assert self._login is not None
            self._apply(self._login.checked(is_right))

    def _pause_reading(self) -> None:
        """Pauses reading, so that a client cannot fill memory while a frame is being handled."""
        assert self._transport is not None
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        assert self._transport is not None
        self._is_reading_paused = False
        self._transport.resume_reading()
        self._process_received()

    def _write(self, pieces: list[bytes]) -> None:
        assert self._transport is not None
        if pieces:
            self._transport.writelines(pieces)

    def _promote(self) -> None:
        """Hands the transport and the unread bytes over to the real connection."""
        transport, unread = self._transport, bytes(self._received)
        assert transport is not None
        self._end()
        log.debug("let in peer=%s node=%s principal=%r", self.peer, format_node(self.node_id), self.principal)
        connection = self._listener.host.promote(self, transport)
        transport.set_protocol(connection)
        if self._is_reading_paused:
            transport.resume_reading()
        if unread:
            connection.data_received(unread)

    def _on_timeout(self) -> None:
        after_draining(asyncio.get_running_loop(), partial(self._time_out_unless_active, self._chunks_received))

    def _time_out_unless_active(self, received_before: int) -> None:
        """Refuses a client that is late. If bytes had arrived while this process was held up, extends the timeout
        once."""
        if self._is_done:
            return
        if self._chunks_received > received_before and not self._is_prolonged:
            self._is_prolonged = True
            self._set_deadline(self._listener.login_timeout, self._on_timeout)
        else:
            self.refuse(Refused(Refusal.TIMEOUT, "not let in in time"))

    def _write_and_close(self, pieces: list[bytes]) -> None:
        assert self._transport is not None
        self._write(pieces)
        self._transport.close()
        self._set_deadline(_CLOSE_TIMEOUT, self.hang_up)

    def _set_deadline(self, timeout: float, then: Callable[[], None]) -> None:
        """Replaces the current deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(timeout, then)

    def _count(self, refused: Refused) -> None:
        self._listener.refused[refused.why] += 1
        log.warning("refused peer=%s node=%s why=%s about=%r", self.peer, format_node(self.node_id), *refused)

    def _end(self) -> None:
        if self._is_done:
            return
        self._is_done = True
        if self._deadline is not None:
            self._deadline.cancel()
        if self._checking is not None:
            self._checking.cancel()  # frees the thread for other logins
        self._listener.adjust_held(-len(self._received))
        self._received.clear()
        if self in self._listener.pre_auth_connections:
            self._listener.pre_auth_connections.remove(self)
            self._listener.host.on_pre_auth_closed(self)
