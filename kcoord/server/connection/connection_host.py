"""The interface that a connection needs from its runtime."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kcoord.groups.instant import Instant
from kcoord.server.connection.event_round import DecideCallback
from kcoord.server.dispatch.dispatch import Answer, Outcome, Park
from kcoord.server.fast_path.response_cache import CachedRebalanceFrame, CachedResponseFrame
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.server.connection.connection import Connection


class ConnectionHost(Protocol):
    """The runtime as its connections see it: it admits them, decides and parks their requests, and schedules their work
    in event rounds.
    """

    on_cache_hit: Callable[[CachedResponseFrame, bytes, bytes], None] | None
    """Called on each cache hit with the cached frame, the received chunk with its length prefix, and the response."""

    def admit(self, connection: "Connection") -> str | None:
        """Registers a new connection; returns the reason if it must be closed, else None."""

    def decide(self, connection: "Connection", frame: bytes, at: Instant) -> Outcome:
        """Decides a request of the connection: returns its answer, or how to park it, or that the client is
        hung up on.
        """

    def park(self, connection: "Connection", park: Park) -> None:
        """Parks a request that waits for records or other members; the host answers it later."""

    def decide_cached(
        self, connection: "Connection", cached: CachedRebalanceFrame, chunk: bytes
    ) -> Answer | Ticket | None:
        """Decides a cached join or sync: returns its answer, or the ticket if it is parked, or None on a cache miss."""

    def is_in_slices(self, ticket: Ticket | None) -> bool:
        """Returns whether the request of this ticket is being decided in slices, so that some of its records may be
        appended already.
        """

    def drain_parked(self) -> None:
        """Answers all parked requests (joins, syncs, fetches that wait) that can be answered by now."""

    def adjust_held(self, change: int) -> None:
        """Adds `change` to the bytes that all connections hold in memory, which are limited."""

    def on_closed(self, connection: "Connection") -> None:
        """Called once when a connection has closed."""

    def schedule_decide(self, callback: DecideCallback) -> None:
        """Schedules a call for the decide pass of the event round, when all readable connections have been read;
        `drain_parked` follows.
        """

    def flush(self) -> None:
        """Makes the records of all decisions durable, so that responses may leave; on failure the connections concerned
        are closed.
        """

    def schedule_send(self, send: Callable[[], None]) -> None:
        """Schedules a call for the send pass of the event round, when all connections have decided, so that responses
        leave together.
        """

    def now(self) -> Instant:
        """Returns the current time, which is the same for all decisions of one event round."""
