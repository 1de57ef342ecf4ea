"""The name of a request that waits for its answer (D3)."""

from enum import Enum
from typing import Final, NewType

Ticket = NewType("Ticket", int)


class Waits(Enum):
    """Instead of a reply: it comes later, under its ticket."""

    WAITS = "waits"


WAITS: Final = Waits.WAITS
