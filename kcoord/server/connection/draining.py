"""Requests that have arrived are read and decided before a deadline expires.

Theory of operation. A process may be held up: stopped, swapped out, collecting garbage, waiting for a disk. When it
continues, its timers fire at once while the heartbeats of its clients are still unread in the sockets. So a deadline
that has passed does not expire when its timer fires, but

    the timer fires ─ grace: as long as the timer was late, at most a second ─ some iterations of the loop ─ expiry

as of the time when the timer fired. In every iteration the loop polls all its sockets, and requests read in one are
decided in the next; a few are enough to accept a connection, read from it and decide. The grace is for clients that
waited for a response meanwhile, or were held up with this process: they send as soon as they are answered. Both are
bounded, so a flood of requests postpones a deadline by little, and a timer that is on time costs some microseconds.
"""

import asyncio
from collections.abc import Callable
from typing import Final

ITERATIONS: Final = 8
"""Iterations of the loop that decide every request that was in a socket, or on a connection not accepted yet."""
LONGEST_GRACE: Final = 1.0


async def drain() -> None:
    """Waits some iterations of the event loop, until all requests that have arrived by now are read and decided."""
    for _ in range(ITERATIONS):
        await asyncio.sleep(0)


def after_draining(loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
    """Calls `then` some iterations of the event loop later, when all requests that have arrived by now are read and
    decided.
    """
    _iterate(loop, then, ITERATIONS)


class DeferredExpiry:
    """Defers the expiry of session deadlines after a late timer until all requests that had arrived are decided, so
    that a process that was held up does not expel members whose heartbeats are unread. One expiry at a time.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float], expire: Callable[[float], None]
    ) -> None:
        """`expire` is called with the time by which a deadline must have passed to expire."""
        self.is_pending = False
        self._loop = loop
        self._clock = clock
        self._expire = expire
        self._last_expired = 0.0
        self._grace: asyncio.TimerHandle | None = None
        self._is_closed = False

    def begin(self, due: float, rang: float) -> None:
        """Schedules the expiry of the deadlines that had passed when the timer fired. `rang` is that instant, `due` the
        one it was set for.
        """
        if self.is_pending:
            return
        self.is_pending = True
        # Deadlines that passed during an earlier deferral are late because of it, and need no further grace.
        late = max(0.0, rang - max(due, self._last_expired))
        self._grace = self._loop.call_later(
            min(late, LONGEST_GRACE), lambda: after_draining(self._loop, lambda: self._end(rang))
        )

    def close(self) -> None:
        """Cancels the expiry that is scheduled."""
        self._is_closed = True
        if self._grace is not None:
            self._grace.cancel()

    def _end(self, rang: float) -> None:
        if self._is_closed:
            return
        self.is_pending = False
        self._last_expired = self._clock()
        self._expire(rang)


def _iterate(loop: asyncio.AbstractEventLoop, then: Callable[[], None], left: int) -> None:
    if left:
        loop.call_soon(_iterate, loop, then, left - 1)
    else:
        then()
