"""Log lines that clients cause, and could cause without end: the same one is left out for a while, and counted."""

import logging
import time
from collections import Counter
from collections.abc import Hashable
from typing import Final

_MOST_LINES: Final = 20


class QuietLog:
    """Logs at most one line of a kind, and at most so many of all kinds, in each period."""

    def __init__(self, log: logging.Logger, *, seconds: float, most: int = _MOST_LINES) -> None:
        self._log = log
        self._seconds = seconds
        self._most = most
        self._period_end = 0.0
        self._said: set[Hashable] = set()
        self._unsaid: Counter[Hashable] = Counter()

    def say(self, level: int, kind: Hashable, form: str, *values: object) -> None:
        """Log the line, with how many of its kind were left out since the last one; or leave it out."""
        if time.monotonic() >= self._period_end:
            self._period_end = time.monotonic() + self._seconds
            self._said.clear()
        if kind in self._said or len(self._said) >= self._most:
            if kind in self._unsaid or len(self._unsaid) < self._most:
                self._unsaid[kind] += 1
            return
        self._said.add(kind)
        unsaid = self._unsaid.pop(kind, 0)
        self._log.log(level, f"{form}%s", *values, f" unsaid={unsaid}" if unsaid else "")
