"""A registry of what a command currently waits for, so that the user can be shown why nothing is printed yet.

A waiting thread registers itself (`with waits.on("broker 2 at host:9092")`); the display polls the registry.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count


class Waits:
    """A registry of what the command waits for now (a broker's response, a retry), by any thread, so that the user can
    be shown it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._under_way: dict[int, tuple[str, float]] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Registers a wait under this description for as long as the context is open."""
        number = next(self._numbers)
        with self._lock:
            self._under_way[number] = (what, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[number]

    def longer_than(self, seconds: float) -> list[str]:
        """Returns the descriptions of waits that have lasted for at least so long, the longest first."""
        since = time.monotonic() - seconds
        with self._lock:
            return list(dict.fromkeys(what for what, start in self._under_way.values() if start <= since))
