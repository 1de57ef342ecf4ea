"""Waits after which it is certain which deadlines have passed.

Sequences with short timeouts follow a grid. Between two waits of one grid all requests are sent within a moment; a
session of SHORT_SESSION, or a rebalance of SHORT_REBALANCE, expires somewhere between two grid points, and so does what
begins when it expires: 1.4, 2.43, 2.8, 3.83, 4.2, … grids after the moment in which the first began.

A moment must not grow. If the machine was busy, the sequence has slipped off its grid and is replayed on a wider one.
"""

import time
from collections import deque
from typing import Final

from tests.differential.groups.support.group_requests import Grids

SHORT_SESSION: Final = Grids(1.4)
SHORT_REBALANCE: Final = Grids(2.43)

_slack: Final = 0.18  # share of a grid: for the moments of the last waits together, and for oversleeping
_remembered: Final = 5


class Slipped(Exception):
    """The machine was too slow: the observations prove nothing."""


class Clock:
    """Follows a grid of so many seconds."""

    def __init__(self, grid: float) -> None:
        self._grid = grid
        self._moment_began = time.monotonic()
        self._delays: deque[float] = deque(maxlen=_remembered)

    def wait(self) -> None:
        """Sleeps until the next grid point. Raises Slipped."""
        self.check()
        time.sleep(self._grid)
        self._delays.append(time.monotonic() - self._moment_began - self._grid)
        self._moment_began = time.monotonic()
        self.check()

    def check(self) -> None:
        """Raises Slipped if the moments, including the current one, have grown too long."""
        late = sum(self._delays) + time.monotonic() - self._moment_began
        if late > _slack * self._grid:
            raise Slipped(f"{late:.3f} s late on a grid of {self._grid} s")
