"""Accepts connections from listening sockets: few at a time, and none beyond the limits.

Theory of operation. A server made by asyncio or uvloop accepts all waiting connections at once, up to its backlog,
before any can be refused: for a moment every descriptor of the process is taken, and whatever needs one then fails. So
sockets are accepted here, some in each iteration of the loop, and one beyond the limits is closed at once, before it
has a transport. A flood of refused clients is logged by a line now and then, with the number of suppressed lines.
"""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kcoord.security.refusals import Refusal
from kcoord.server.listener.connection_limits import ConnectionLimits
from kcoord.server.log_text import format_node
from kcoord.server.quiet_log import RateLimitedLog

OnAccept = Callable[[socket.socket, Any], Awaitable[object]]
"""Makes a connection from an accepted socket and its peer address."""

_MAX_ACCEPTS_PER_ITERATION: Final = 64
_MAX_CONNECTING: Final = 8
"""Accepted sockets that are not counted as connections yet, which may exceed the limits by this number."""
_ACCEPT_BACKOFF: Final = 1.0  # after a failed accept, for example with no descriptors left
_QUIET_SECONDS: Final = 10.0


class Acceptor:
    """Accepts connections from all listening sockets of a process, within the connection limits. `on_half_full` is
    called once, when half of the allowed connections are open.
    """

    def __init__(self, limits: ConnectionLimits, refused: Counter[str], log: logging.Logger) -> None:
        """`refused` counts refused clients by Refusal."""
        self.on_half_full: Callable[[], None] | None = None
        self._limits = limits
        self._refused = refused
        self._log = log
        self._listening: dict[socket.socket, tuple[int | None, OnAccept]] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._quiet_log = RateLimitedLog(log, seconds=_QUIET_SECONDS)

    def listen(self, listening: socket.socket, node_id: int | None, on_accept: OnAccept, *, backlog: int) -> None:
        """Listens on a bound socket. Its clients are meant for this node (None: any); `on_accept` makes a connection of
        each accepted socket.
        """
        listening.setblocking(False)
        listening.listen(backlog)
        self._listening[listening] = (node_id, on_accept)
        self._add_reader(listening)

    def stop(self, listening: socket.socket) -> None:
        """Stops accepting from this socket and closes it."""
        if self._listening.pop(listening, None) is not None:
            asyncio.get_running_loop().remove_reader(listening)
        listening.close()

    async def close(self) -> None:
        """Stops accepting on all sockets, and cancels connections that are being made."""
        for listening in list(self._listening):
            self.stop(listening)
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _add_reader(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_MAX_ACCEPTS_PER_ITERATION):
            if listening not in self._listening or len(self._connecting) >= _MAX_CONNECTING:
                return  # the others are accepted in the next iteration
            try:
                connection, peername = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # for example, the process has no descriptors left
                self._back_off(listening, error)
                return
            self._admit(connection, peername, *self._listening[listening])

    def _back_off(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        self._quiet_log.log(logging.ERROR, error.errno, "not accepted why=%r", error.strerror or str(error))
        loop.remove_reader(listening)
        loop.call_later(_ACCEPT_BACKOFF, self._add_reader, listening)

    def _admit(self, connection: socket.socket, peername: Any, node_id: int | None, on_accept: OnAccept) -> None:
        if reason := self._limits.refusal(str(peername[0])):
            self._refused[Refusal.LIMIT] += 1
            endpoint = (f"{peername[0]}:{peername[1]}", format_node(node_id))
            self._quiet_log.log(logging.WARNING, reason, "refused peer=%s node=%s why=%r", *endpoint, reason)
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._connect(connection, peername, on_accept))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        if self.on_half_full and 2 * self._limits.open > self._limits.most:
            on_half_full, self.on_half_full = self.on_half_full, None
            on_half_full()

    async def _connect(self, connection: socket.socket, peername: Any, on_accept: OnAccept) -> None:
        try:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await on_accept(connection, peername)
        except OSError as error:  # the client has hung up already
            connection.close()
            self._log.debug("not connected peer=%s why=%r", peername, str(error))
        except Exception:
            connection.close()
            self._log.exception("bug peer=%s: it could not be connected", peername)
