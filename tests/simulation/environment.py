"""The environment of a simulation: clock, randomness and diary. All events follow from one seed."""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from kcoord.groups.instant import Instant
from tests.simulation.narration import format_exchange

WALL_START_MS = 1_700_000_000_000


class Environment:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.is_calm = False  # nothing goes wrong any more
        self.diary: list[tuple[float, str, object, object]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def instant(self) -> Instant:
        return Instant(self.now, WALL_START_MS + int(self.now * 1000))

    def later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), action))

    def next_at(self) -> float | None:
        return self._queue[0][0] if self._queue else None

    def run_next(self) -> None:
        """Advances the clock to the next action and runs it."""
        at, _, action = heapq.heappop(self._queue)
        self.now = max(self.now, at)
        action()

    def goes_wrong(self, probability: float) -> bool:
        return not self.is_calm and self.rng.random() < probability

    def note(self, who: str, what: object, came_of_it: object = None) -> None:
        """Adds an entry to the diary; it is formatted only when read, since most diaries are never read."""
        self.diary.append((self.now, who, what, came_of_it))

    def format_diary(self, last: int | None = None) -> str:
        """Formats the diary, one line per entry."""
        lines = self.diary if last is None else self.diary[-last:]
        return "\n".join(
            f"{at:9.3f}  {who:<9} {what if isinstance(what, str) else format_exchange(what, came_of_it)}"
            for at, who, what, came_of_it in lines
        )
