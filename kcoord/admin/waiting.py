"""What a cluster is being waited for, and since when: for who tells a user why nothing is shown yet.

Whoever waits says so (`with waits.on("broker 2 at host:9092")`), in any thread; who shows it looks now and then.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count


class Waits:
    """The waits that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count()
        self._under_way: dict[int, tuple[str, float]] = {}

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """For as long as this is waited for, in words."""
        number = next(self._numbers)
        with self._lock:
            self._under_way[number] = (what, time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[number]

    def longer_than(self, seconds: float) -> list[str]:
        """What is waited for and has been for so long, the longest first."""
        since = time.monotonic() - seconds
        with self._lock:
            return list(dict.fromkeys(what for what, start in self._under_way.values() if start <= since))
