"""Listeners with gates: sockets accepted, TLS handshakes, passwords checked in threads.

TLS handshakes are ours to begin, socket by socket: a server that asyncio or uvloop makes says nothing of handshakes
that fail, neither to us nor, by the alert that TLS has for it, to the client.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from kcoord.security.listener import Listener
from kcoord.security.refusals import Refusal, Refused
from kcoord.server.gate import Gate, Host
from kcoord.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from ssl import SSLContext

    from kcoord.security.login import Login

log = logging.getLogger("kcoord.server")

_PASSWORDS_AT_A_TIME: Final = 2
_REST: Final = 1.0  # when there are no more files to be had


class Entrance:
    """The gates of one or more listeners that ask for the same."""

    def __init__(self, host: Host, listener: Listener, settings: Settings, refused: Counter[str]) -> None:
        """`refused` counts by Refusal. Raises BadListenerTls."""
        self.host = host
        self.settings = settings
        self.refused = refused
        self.tls: SSLContext | None = None
        self.gates: set[Gate] = set()
        self.login_timeout = settings.kcoord_login_timeout_ms / 1000
        self.failure_delay = settings.connection_failed_authentication_delay_ms / 1000
        self._sasl = listener.sasl
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._lines: set[int] = set()
        self._held_bytes = 0
        self._executor: ThreadPoolExecutor | None = None
        if listener.tls is not None:
            from kcoord.security.listener_tls import server_context  # here: ssl is not imported for nothing

            self.tls = server_context(listener.tls)

    async def listen(self, node_id: int, listening: socket.socket, *, backlog: int) -> None:
        """Let clients come to this socket, which is bound. They mean this node."""
        if self.tls is None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: Gate(self, node_id), sock=listening, backlog=backlog)
            self._servers.append(server)
            return
        listening.setblocking(False)
        listening.listen(backlog)
        self._own(self._accept(node_id, listening))

    def login(self) -> "Login | None":
        """For one more who comes; None if there is none to be gone through."""
        if self._sasl is None:
            return None
        from kcoord.security.login import Login

        return Login(self._sasl.users, self._sasl.mechanisms)

    def held(self, change: int) -> None:
        """So many bytes more, or fewer, are held for those at the gates. There is a limit to it, whoever they are."""
        self._held_bytes += change
        most = self.settings.queued_max_request_bytes
        if change > 0 and self._held_bytes > most:
            greediest = max(self.gates, key=lambda gate: gate.held_bytes)
            greediest.refuse(Refused(Refusal.LIMIT, f"queued.max.request.bytes={most} are held before logins"))

    def check(self, work: Callable[[], bool], then: Callable[[bool], None]) -> "asyncio.Future[bool]":
        """Have a password checked in a thread: few at a time, as it keeps a core busy. Cancelled, it takes none."""
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            self._executor = ThreadPoolExecutor(_PASSWORDS_AT_A_TIME, thread_name_prefix="kcoord-login")
        checking = asyncio.get_running_loop().run_in_executor(self._executor, work)
        checking.add_done_callback(lambda done: None if done.cancelled() else then(done.result()))
        return checking

    async def close(self) -> None:
        """Let nobody in any more; those at the gates are hung up on."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for gate in list(self.gates):
            gate.hang_up()
        for line in list(self._lines):
            self._close_line(line)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _accept(self, node_id: int, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    connection, peername = await loop.sock_accept(listening)
                except OSError as error:  # as when this process has no more files
                    log.error("not accepted node=%s why=%r", node_id, error.strerror)
                    await asyncio.sleep(_REST)
                    continue
                self._own(self._shake_hands(Gate(self, node_id), connection, peername))

    async def _shake_hands(self, gate: Gate, connection: socket.socket, peername: Any) -> None:
        if not gate.arrive(peername):
            connection.close()
            return
        try:
            line = os.dup(connection.fileno())
        except OSError as error:  # as when this process has no more files
            gate.refuse(Refused(Refusal.LIMIT, error.strerror or "no line to say last words on"))
            connection.close()
            return
        self._lines.add(line)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: gate, connection, ssl=self.tls, ssl_handshake_timeout=self.login_timeout
            )
            self._close_line(line)
        except (OSError, asyncio.CancelledError) as error:
            self._shook_no_hands(gate, error, line)

    def _shook_no_hands(self, gate: Gate, error: BaseException, line: int) -> None:
        from kcoord.security.listener_tls import handshake_refusal, last_words

        refused = handshake_refusal(error)
        if refused is not None:
            gate.refuse(refused)
        gate.hang_up()
        self._say_last_words(line, last_words(error))

    def _say_last_words(self, line: int, words: bytes) -> None:
        """They would be lost if the connection were closed at once: the client may have sent more than was read."""
        with contextlib.suppress(OSError):
            os.write(line, words)
        asyncio.get_running_loop().call_later(self.failure_delay, self._close_line, line)

    def _close_line(self, line: int) -> None:
        if line in self._lines:
            self._lines.remove(line)
            os.close(line)

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
