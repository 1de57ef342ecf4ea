"""The interface that a connection needs from its runtime."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kcoord.groups.instant import Instant
from kcoord.server.connection.event_round import Turn
from kcoord.server.dispatch.dispatch import Answer, Outcome, Park
from kcoord.server.fast_path.response_cache import AnsweredFrame, PhaseFrame
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.server.connection.connection import Connection


class Owner(Protocol):
    stood: Callable[[AnsweredFrame, bytes, bytes], None] | None
    """Called on each cache hit with the cached frame, the received chunk with its length prefix, and the response."""

    def admit(self, connection: "Connection") -> str | None:
        """Registers a connection; returns the reason if it must be refused, else None."""

    def decide(self, connection: "Connection", frame: bytes, at: Instant) -> Outcome: ...

    def park(self, connection: "Connection", park: Park) -> None: ...

    def ask_again(self, connection: "Connection", standing: PhaseFrame, chunk: bytes) -> Answer | Ticket | None:
        """Decides a cached join or sync: returns its answer, or the ticket if it is parked, or None on a cache miss."""

    def is_in_slices(self, ticket: Ticket | None) -> bool:
        """Whether the request is being decided in slices, so that some of its records may be appended already."""

    def settle(self) -> None:
        """Answers all parked requests that can be answered by now."""

    def held(self, change: int) -> None:
        """Adds a change of the bytes that connections hold."""

    def gone(self, connection: "Connection") -> None: ...

    def soon(self, turn: Turn) -> None:
        """Schedules a call for when all readable connections have been read; `drain_parked` follows."""

    def keep(self) -> None:
        """Makes all decisions durable, so that answers may leave; on failure the connections concerned are closed."""

    def leave(self, send: Callable[[], None]) -> None:
        """Schedules a call for when all connections have decided, so that answers leave together."""

    def now(self) -> Instant: ...
