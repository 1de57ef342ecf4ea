"""The system's clocks."""

import time

from kcoord.groups.instant import Instant


def instant() -> Instant:
    return Instant(time.monotonic(), time.time_ns() // 1_000_000)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
