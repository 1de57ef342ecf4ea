"""A rate limit for log lines that clients could cause without end: repeated lines are suppressed and counted."""

import logging
import time
from collections import Counter
from collections.abc import Hashable
from typing import Final

_MOST_LINES: Final = 20


class QuietLog:
    """Logs at most one line of each kind, and at most `most` lines of all kinds, per period."""

    def __init__(self, log: logging.Logger, *, seconds: float, most: int = _MOST_LINES) -> None:
        self._log = log
        self._seconds = seconds
        self._most = most
        self._period_end = 0.0
        self._said: set[Hashable] = set()
        self._unsaid: Counter[Hashable] = Counter()

    def say(self, level: int, kind: Hashable, form: str, *values: object) -> None:
        """Logs the line with the number of its kind that were suppressed since the last one, or suppresses it."""
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
