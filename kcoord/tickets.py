"""The name of a request that waits for its answer (D3)."""

from typing import NewType

Ticket = NewType("Ticket", int)
