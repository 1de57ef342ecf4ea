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
from kcoord.server.listener.acceptor import OnAccept
from kcoord.server.listener.descriptors import descriptor_limit
from kcoord.server.listener.pre_auth_connection import PreAuthConnection, PreAuthHost
from kcoord.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from ssl import SSLContext

    from kcoord.security.login import Login

log = logging.getLogger("kcoord.server")

_LOGIN_THREADS: Final = 2
_DUP_FD_SHARE: Final = 16


class SecureListener:
    """Takes clients through TLS handshake and SASL login on one or more listeners with the same security settings, and
    holds their pre-auth connections."""

    def __init__(self, host: PreAuthHost, listener: Listener, settings: Settings, refused: Counter[str]) -> None:
        """`refused` counts refused clients by Refusal. Raises BadListenerTls."""
        self.host = host
        self.settings = settings
        self.refused = refused
        self.tls: SSLContext | None = None
        self.pre_auth_connections: set[PreAuthConnection] = set()
        self.login_timeout = settings.kcoord_login_timeout_ms / 1000
        self.failure_delay = settings.connection_failed_authentication_delay_ms / 1000
        self._sasl = listener.sasl
        self._tasks: set[asyncio.Task[None]] = set()
        self._dup_fds: set[int] = set()
        self._max_dup_fds = descriptor_limit() // _DUP_FD_SHARE
        self._held_bytes = 0
        self._executor: ThreadPoolExecutor | None = None
        if listener.tls is not None:
            from kcoord.security.listener_tls import server_context  # imported here, since ssl takes its time

            self.tls = server_context(listener.tls)

    def on_accept_for(self, node_id: int) -> OnAccept:
        """Returns the callback that makes pre-auth connections of the sockets accepted for this node."""
        if self.tls is not None:
            return lambda connection, peername: self._begin_handshake(
                PreAuthConnection(self, node_id), connection, peername
            )
        loop = asyncio.get_running_loop()
        return lambda connection, _: loop.connect_accepted_socket(lambda: PreAuthConnection(self, node_id), connection)

    def login(self) -> "Login | None":
        """Returns a SASL login for a new client, or None if none is required."""
        if self._sasl is None:
            return None
        from kcoord.security.login import Login

        return Login(self._sasl.users, self._sasl.mechanisms)

    def adjust_held(self, change: int) -> None:
        """Adds `change` to the bytes that pre-auth connections hold in memory. Beyond queued.max.request.bytes it
        refuses the one that holds most."""
        self._held_bytes += change
        most = self.settings.queued_max_request_bytes
        if change > 0 and self._held_bytes > most:
            greediest = max(self.pre_auth_connections, key=lambda pre_auth: pre_auth.held_bytes)
            greediest.refuse(Refused(Refusal.LIMIT, f"queued.max.request.bytes={most} are held before logins"))

    def check(self, work: Callable[[], bool], then: Callable[[bool], None]) -> "asyncio.Future[bool]":
        """Runs `work`, a password check that keeps a core busy, in one of few threads, then calls `then` with its
        result. The returned future can be cancelled before the check starts."""
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            self._executor = ThreadPoolExecutor(_LOGIN_THREADS, thread_name_prefix="kcoord-login")
        checking = asyncio.get_running_loop().run_in_executor(self._executor, work)
        checking.add_done_callback(lambda done: None if done.cancelled() else then(done.result()))
        return checking

    async def close(self) -> None:
        """Closes all pre-auth connections, when the server stops. No more may be accepted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pre_auth in list(self.pre_auth_connections):
            pre_auth.hang_up()
        for fd in list(self._dup_fds):
            self._close_dup_fd(fd)
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _begin_handshake(self, pre_auth: PreAuthConnection, connection: socket.socket, peername: Any) -> None:
        """Begins the TLS handshake in a task and returns at once: the client now counts as a pre-auth connection."""
        if not pre_auth.admit(peername):
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._handshake(pre_auth, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handshake(self, pre_auth: PreAuthConnection, connection: socket.socket) -> None:
        dup_fd = self._duplicate_fd(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: pre_auth, connection, ssl=self.tls, ssl_handshake_timeout=self.login_timeout
            )
            self._close_dup_fd(dup_fd)
        except (OSError, asyncio.CancelledError) as error:
            self._handshake_failed(pre_auth, error, dup_fd)

    def _duplicate_fd(self, connection: socket.socket) -> int | None:
        """Returns a duplicate descriptor for sending a TLS alert, or None if there are too many of them."""
        if len(self._dup_fds) >= self._max_dup_fds:
            return None
        try:
            dup_fd = os.dup(connection.fileno())
        except OSError:  # for example, the process has no descriptors left
            return None
        self._dup_fds.add(dup_fd)
        return dup_fd

    def _handshake_failed(self, pre_auth: PreAuthConnection, error: BaseException, dup_fd: int | None) -> None:
        from kcoord.security.listener_tls import handshake_refusal, tls_alert

        refused = handshake_refusal(error)
        if refused is not None:
            pre_auth.refuse(refused)
        pre_auth.hang_up()
        self._send_tls_alert(dup_fd, tls_alert(error))

    def _send_tls_alert(self, dup_fd: int | None, alert: bytes) -> None:
        """Sends a TLS alert and closes the descriptor later: an immediate close could reset the connection and lose
        it."""
        if dup_fd is None:
            return
        with contextlib.suppress(OSError):
            os.write(dup_fd, alert)
        asyncio.get_running_loop().call_later(self.failure_delay, self._close_dup_fd, dup_fd)

    def _close_dup_fd(self, dup_fd: int | None) -> None:
        if dup_fd in self._dup_fds:
            self._dup_fds.remove(dup_fd)
            os.close(dup_fd)
