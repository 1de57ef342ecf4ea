"""Listeners with TLS or a login: they run TLS handshakes, and check passwords in threads.

TLS handshakes are begun here, socket by socket: a server made by asyncio or uvloop reports failed handshakes neither to
the application nor, by a TLS alert, to the client.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kcoord.security.listener import Listener
from kcoord.security.refusals import Refusal, Refused
from kcoord.server.listener.acceptor import Arrive
from kcoord.server.listener.descriptors import descriptor_limit
from kcoord.server.listener.pre_auth_connection import Gate, Host
from kcoord.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from ssl import SSLContext

    from kcoord.security.login import Login

log = logging.getLogger("kcoord.server")

_PASSWORDS_AT_A_TIME: Final = 2
_SHARE_OF_LINES: Final = 16


class Entrance:
    """The pre-auth connections of one or more listeners with the same security settings."""

    def __init__(self, host: Host, listener: Listener, settings: Settings, refused: Counter[str]) -> None:
        """`refused` counts refused clients by Refusal. Raises BadListenerTls."""
        self.host = host
        self.settings = settings
        self.refused = refused
        self.tls: SSLContext | None = None
        self.gates: set[Gate] = set()
        self.login_timeout = settings.kcoord_login_timeout_ms / 1000
        self.failure_delay = settings.connection_failed_authentication_delay_ms / 1000
        self._sasl = listener.sasl
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: set[int] = set()
        self._most_lines = descriptor_limit() // _SHARE_OF_LINES
        self._held_bytes = 0
        self._executor: ThreadPoolExecutor | None = None
        if listener.tls is not None:
            from kcoord.security.listener_tls import server_context  # imported here, since ssl takes its time

            self.tls = server_context(listener.tls)

    def arriving_at(self, node_id: int) -> Arrive:
        """Returns the callback for sockets that a listener of this node accepts."""
        if self.tls is not None:
            return lambda connection, peername: self._begin_handshake(Gate(self, node_id), connection, peername)
        loop = asyncio.get_running_loop()
        return lambda connection, _: loop.connect_accepted_socket(lambda: Gate(self, node_id), connection)

    def login(self) -> "Login | None":
        """Returns the login of a new client, or None if none is required."""
        if self._sasl is None:
            return None
        from kcoord.security.login import Login

        return Login(self._sasl.users, self._sasl.mechanisms)

    def held(self, change: int) -> None:
        """Adds a change of the bytes held by pre-auth connections, and refuses the largest one beyond the limit."""
        self._held_bytes += change
        most = self.settings.queued_max_request_bytes
        if change > 0 and self._held_bytes > most:
            greediest = max(self.gates, key=lambda gate: gate.held_bytes)
            greediest.refuse(Refused(Refusal.LIMIT, f"queued.max.request.bytes={most} are held before logins"))

    def check(self, work: Callable[[], bool], then: Callable[[bool], None]) -> "asyncio.Future[bool]":
        """Checks a password in a thread, few at a time, since it keeps a core busy. A check can be cancelled before it
        starts."""
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            self._executor = ThreadPoolExecutor(_PASSWORDS_AT_A_TIME, thread_name_prefix="kcoord-login")
        checking = asyncio.get_running_loop().run_in_executor(self._executor, work)
        checking.add_done_callback(lambda done: None if done.cancelled() else then(done.result()))
        return checking

    async def close(self) -> None:
        """Closes all pre-auth connections. No more may be accepted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for gate in list(self.gates):
            gate.hang_up()
        for line in list(self._lines):
            self._close_line(line)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _begin_handshake(self, gate: Gate, connection: socket.socket, peername: Any) -> None:
        """Begins the TLS handshake in a task and returns at once: the client now counts as a pre-auth connection."""
        if not gate.arrive(peername):
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._shake_hands(gate, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shake_hands(self, gate: Gate, connection: socket.socket) -> None:
        line = self._line_to(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: gate, connection, ssl=self.tls, ssl_handshake_timeout=self.login_timeout
            )
            self._close_line(line)
        except (OSError, asyncio.CancelledError) as error:
            self._shook_no_hands(gate, error, line)

    def _line_to(self, connection: socket.socket) -> int | None:
        """Returns a duplicate descriptor for sending a TLS alert, or None if there are too many of them."""
        if len(self._lines) >= self._most_lines:
            return None
        try:
            line = os.dup(connection.fileno())
        except OSError:  # for example, the process has no descriptors left
            return None
        self._lines.add(line)
        return line

    def _shook_no_hands(self, gate: Gate, error: BaseException, line: int | None) -> None:
        from kcoord.security.listener_tls import handshake_refusal, tls_alert

        refused = handshake_refusal(error)
        if refused is not None:
            gate.refuse(refused)
        gate.hang_up()
        self._say_last_words(line, tls_alert(error))

    def _say_last_words(self, line: int | None, words: bytes) -> None:
        """Sends a TLS alert and closes the descriptor later: an immediate close could reset the connection and lose
        it."""
        if line is None:
            return
        with contextlib.suppress(OSError):
            os.write(line, words)
        asyncio.get_running_loop().call_later(self.failure_delay, self._close_line, line)

    def _close_line(self, line: int | None) -> None:
        if line in self._lines:
            self._lines.remove(line)
            os.close(line)
