"""The current time, by the two clocks that the coordinator needs."""

from typing import NamedTuple


class Instant(NamedTuple):
    now: float  # monotonic, in seconds, for deadlines
    wall_ms: int  # since the Unix epoch, for records
