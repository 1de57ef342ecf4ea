"""Whose turn it is, and when answers leave.

Theory of operation. When the loop looks at its sockets, many of them may have something for us. Were each read, decided
and answered before the next is read, a core would go from the kernel to the interpreter and back for every request and
find its caches full of the other's code, and each answer would wake a client that has just gone to sleep. So what one
round of the loop brings is worked on in sweeps:

    read      connections cut frames out of what came in, and ask for a turn
    decide    each has its turn: requests are decided, answers put aside, with those to requests that waited
    keep      what answers rest on is made safe, in one write for all of them
    send      each writes its answers

That took a quarter off the CPU time of small commits of 200 members, and a sixth off that of their heartbeats. Who asks
for a turn while turns are taken gets it in the next round, when the others have been read again.
"""

import asyncio
import logging
from collections.abc import Callable

from kcoord.groups.instant import Instant

log = logging.getLogger("kcoord.server")

Act = Callable[[], None]
Turn = Callable[[Instant], None]


class Turns:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], Instant], *, settle: Act, keep: Act, afterwards: Act
    ) -> None:
        """`settle` is called when all had their turn, `keep` before anything is sent, `afterwards` at the end."""
        self.at: Instant | None = None  # when the round began that is under way
        self.asked: Instant | None = None  # when it was asked for: what it works on had come by then
        self._loop = loop
        self._clock = clock
        self._settle = settle
        self._keep = keep
        self._afterwards = afterwards
        self._turns: list[Turn] = []
        self._sends: list[Act] = []
        self._coming: asyncio.Handle | None = None

    def ask(self, turn: Turn) -> None:
        self._turns.append(turn)
        if self._coming is None:
            self.begin()

    def ask_to_send(self, send: Act) -> None:
        self._sends.append(send)
        if self._coming is None:
            self.begin()

    def arrival(self) -> Instant:
        """When what is being read came: the same for all that the coming round works on."""
        if self.asked is None:
            self.begin()
            assert self.asked is not None
        return self.asked

    def begin(self) -> None:
        """Have a round, if none is coming or under way."""
        if self._coming is None:
            self._coming = self._loop.call_soon(self._round)
            self.asked = self._clock()

    def end(self) -> None:
        if self._coming is not None:
            self._coming.cancel()

    def _round(self) -> None:
        self.at = at = self._clock()
        turns, self._turns = self._turns, []
        for turn in turns:
            try:
                turn(at)
            except Exception:  # is not to keep the others waiting
                log.exception("bug: a turn could not be taken")
        if turns:
            try:
                self._settle()
            except Exception:
                log.exception("bug: those who wait could not be answered")
        self._keep()
        sends, self._sends = self._sends, []
        for send in sends:
            try:
                send()
            except Exception:
                log.exception("bug: answers could not be sent")
        self._coming = self.at = self.asked = None
        self._afterwards()
        if self._turns or self._sends:
            self.begin()
