"""Tickets: the names of parked requests (D3)."""

from enum import Enum
from typing import Final, NewType

Ticket = NewType("Ticket", int)


class Waits(Enum):
    """The type of WAITS, which is returned instead of a reply if the request is parked: its reply comes later, under
    the ticket that names the request.
    """

    WAITS = "waits"


WAITS: Final = Waits.WAITS
