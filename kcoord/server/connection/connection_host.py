"""What a connection asks of the runtime that it belongs to."""

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
    """Who wants to know of frames that stood, with their lengths, and of their answers."""

    def admit(self, connection: "Connection") -> str | None:
        """Why the connection is refused; None if it is welcome."""

    def decide(self, connection: "Connection", frame: bytes, at: Instant) -> Outcome: ...

    def park(self, connection: "Connection", park: Park) -> None: ...

    def ask_again(self, connection: "Connection", standing: PhaseFrame, chunk: bytes) -> Answer | Ticket | None:
        """The answer to what stands so, or the ticket under which it is parked; None if it is to be decided."""

    def is_in_slices(self, ticket: Ticket | None) -> bool:
        """Whether this request is being decided in slices: some of its records may be appended already."""

    def settle(self) -> None:
        """Answer the requests of others that can now be answered."""

    def held(self, change: int) -> None:
        """So many bytes more, or fewer, wait in this connection."""

    def gone(self, connection: "Connection") -> None: ...

    def soon(self, turn: Turn) -> None:
        """Have this called when the others have been read from, or had their turn; `settle` follows."""

    def keep(self) -> None:
        """Make safe what was decided: answers may leave then, but of connections that are closed instead."""

    def leave(self, send: Callable[[], None]) -> None:
        """Have this called when the others have had their turn, for answers to leave together."""

    def now(self) -> Instant: ...
