"""What time it is, by the two clocks that the coordinator needs."""

from typing import NamedTuple


class Instant(NamedTuple):
    now: float  # monotonic, in seconds: deadlines are made of it
    wall_ms: int  # since the epoch: what is written into records
