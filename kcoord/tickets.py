"""Tickets: the names of parked requests (D3)."""

from enum import Enum
from typing import Final, NewType

Ticket = NewType("Ticket", int)


class Waits(Enum):
    """Returned instead of a reply: the request is parked, and its reply comes later under its ticket."""

    WAITS = "waits"


WAITS: Final = Waits.WAITS
