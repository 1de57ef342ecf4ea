"""What has arrived is read and decided before a deadline is judged.

Theory of operation. A process may be held up: stopped, swapped out, collecting garbage, waiting for a disk. When it
goes on, its alarms ring at once while the heartbeats of its clients still lie in the sockets. So a deadline that
has passed is not judged when its alarm rings, but

    the alarm rings ─ grace: as long as the alarm was late, at most a second ─ some iterations of the loop ─ judged

as of the time when the alarm rang. In every iteration the loop polls all its sockets, and what is read in one is
decided in the next; a few are enough to accept a connection, read from it and decide. The grace is for clients
that waited for an answer of ours meanwhile, or were held up with us: they speak as soon as they are answered. Both are
bounded, so a flood of requests postpones a deadline by little, and an alarm that is on time costs some microseconds.
"""

import asyncio
from collections.abc import Callable
from typing import Final

ITERATIONS: Final = 8
"""Iterations of the loop until a request is decided that was in a socket, or on a connection to be accepted, before."""
LONGEST_GRACE: Final = 1.0


async def drain() -> None:
    """Return when what has arrived by now is read and decided."""
    for _ in range(ITERATIONS):
        await asyncio.sleep(0)


def after_draining(loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
    """Call this when what has arrived by now is read and decided."""
    _iterate(loop, then, ITERATIONS)


class DeferredJudgement:
    """One judgement of deadlines at a time, put off until what had arrived is decided."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float], judge: Callable[[float], None]
    ) -> None:
        """`judge` is called with the time by which deadlines must have passed."""
        self.is_pending = False
        self._loop = loop
        self._clock = clock
        self._judge = judge
        self._last_judged = 0.0
        self._grace: asyncio.TimerHandle | None = None
        self._is_closed = False

    def begin(self, due: float, rang: float) -> None:
        """Judge the deadlines that have passed when the alarm rang, which was to ring when it was `due`."""
        if self.is_pending:
            return
        self.is_pending = True
        # Deadlines that passed while others were put off are late by our own doing, and need no further grace.
        late = max(0.0, rang - max(due, self._last_judged))
        self._grace = self._loop.call_later(
            min(late, LONGEST_GRACE), lambda: after_draining(self._loop, lambda: self._end(rang))
        )

    def close(self) -> None:
        self._is_closed = True
        if self._grace is not None:
            self._grace.cancel()

    def _end(self, rang: float) -> None:
        if self._is_closed:
            return
        self.is_pending = False
        self._last_judged = self._clock()
        self._judge(rang)


def _iterate(loop: asyncio.AbstractEventLoop, then: Callable[[], None], left: int) -> None:
    if left:
        loop.call_soon(_iterate, loop, then, left - 1)
    else:
        then()
