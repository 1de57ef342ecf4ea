"""The system's clocks."""

import time

from kcoord.groups.instant import Instant


def instant() -> Instant:
    """Reads the system's clocks: monotonic seconds, and wall-clock milliseconds since the epoch."""
    return Instant(time.monotonic(), time.time_ns() // 1_000_000)


def now_ms() -> int:
    """Returns the wall-clock time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
