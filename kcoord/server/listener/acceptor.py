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
from kcoord.server.log_text import node_word
from kcoord.server.quiet_log import QuietLog

Arrive = Callable[[socket.socket, Any], Awaitable[object]]
"""Makes a connection from an accepted socket and its peer address."""

_AT_ONCE: Final = 64
_MOST_ARRIVING: Final = 8
"""Accepted sockets that are not counted as connections yet, which may exceed the limits by this number."""
_PAUSE: Final = 1.0  # after a failed accept, for example with no descriptors left
_QUIET_SECONDS: Final = 10.0


class Accepting:
    """The listening sockets of one process. `on_half_full` is called once, when half of the allowed connections are
    open."""

    def __init__(self, limits: ConnectionLimits, refused: Counter[str], log: logging.Logger) -> None:
        """`refused` counts refused clients by Refusal."""
        self.on_crowd: Callable[[], None] | None = None
        self._limits = limits
        self._refused = refused
        self._log = log
        self._listening: dict[socket.socket, tuple[int | None, Arrive]] = {}
        self._arriving: set[asyncio.Task[None]] = set()
        self._quiet_log = QuietLog(log, seconds=_QUIET_SECONDS)

    def listen(self, listening: socket.socket, node_id: int | None, arrive: Arrive, *, backlog: int) -> None:
        """Listens on a bound socket, whose clients are meant for this node."""
        listening.setblocking(False)
        listening.listen(backlog)
        self._listening[listening] = (node_id, arrive)
        self._watch(listening)

    def stop(self, listening: socket.socket) -> None:
        """Stops accepting from this socket and closes it."""
        if self._listening.pop(listening, None) is not None:
            asyncio.get_running_loop().remove_reader(listening)
        listening.close()

    async def close(self) -> None:
        """Stops accepting, and waits for sockets that are being connected."""
        for listening in list(self._listening):
            self.stop(listening)
        for task in self._arriving:
            task.cancel()
        await asyncio.gather(*self._arriving, return_exceptions=True)

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if listening not in self._listening or len(self._arriving) >= _MOST_ARRIVING:
                return  # the others are accepted in the next iteration
            try:
                connection, peername = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # for example, the process has no descriptors left
                self._rest(listening, error)
                return
            self._let_arrive(connection, peername, *self._listening[listening])

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        self._quiet_log.say(logging.ERROR, error.errno, "not accepted why=%r", error.strerror or str(error))
        loop.remove_reader(listening)
        loop.call_later(_PAUSE, self._watch, listening)

    def _let_arrive(self, connection: socket.socket, peername: Any, node_id: int | None, arrive: Arrive) -> None:
        if reason := self._limits.refusal(str(peername[0])):
            self._refused[Refusal.LIMIT] += 1
            where = (f"{peername[0]}:{peername[1]}", node_word(node_id))
            self._quiet_log.say(logging.WARNING, reason, "refused peer=%s node=%s why=%r", *where, reason)
            connection.close()
            return
        task = asyncio.get_running_loop().create_task(self._arrive(connection, peername, arrive))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        if self.on_crowd and 2 * self._limits.open > self._limits.most:
            on_crowd, self.on_crowd = self.on_crowd, None
            on_crowd()

    async def _arrive(self, connection: socket.socket, peername: Any, arrive: Arrive) -> None:
        try:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await arrive(connection, peername)
        except OSError as error:  # the client has hung up already
            connection.close()
            self._log.debug("not connected peer=%s why=%r", peername, str(error))
        except Exception:
            connection.close()
            self._log.exception("bug peer=%s: it could not be connected", peername)
