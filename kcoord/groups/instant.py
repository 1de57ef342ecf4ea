"""The current time, by the two clocks that the coordinator needs."""

from typing import NamedTuple


class Instant(NamedTuple):
    """The current time by two clocks: `now` is monotonic, in seconds, for deadlines; `wall_ms` is milliseconds since
    the Unix epoch, for records."""

    now: float  # monotonic, in seconds, for deadlines
    wall_ms: int  # since the Unix epoch, for records
