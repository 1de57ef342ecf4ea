"""A rate limit for log lines that clients could cause without end: repeated lines are suppressed and counted."""

import logging
import time
from collections import Counter
from collections.abc import Hashable
from typing import Final

_MAX_LINES: Final = 20


class RateLimitedLog:
    """A logger with a rate limit: at most one line of each kind, and at most `most` lines of all kinds, per period of
    `seconds`.
    """

    def __init__(self, log: logging.Logger, *, seconds: float, most: int = _MAX_LINES) -> None:
        self._log = log
        self._seconds = seconds
        self._most = most
        self._period_end = 0.0
        self._logged: set[Hashable] = set()
        self._suppressed: Counter[Hashable] = Counter()

    def log(self, level: int, kind: Hashable, form: str, *values: object) -> None:
        """Logs a line, with the number of lines of its kind that were suppressed since the last one, or
        suppresses it.
        """
        if time.monotonic() >= self._period_end:
            self._period_end = time.monotonic() + self._seconds
            self._logged.clear()
        if kind in self._logged or len(self._logged) >= self._most:
            if kind in self._suppressed or len(self._suppressed) < self._most:
                self._suppressed[kind] += 1
            return
        self._logged.add(kind)
        suppressed = self._suppressed.pop(kind, 0)
        self._log.log(level, f"{form}%s", *values, f" unsaid={suppressed}" if suppressed else "")
