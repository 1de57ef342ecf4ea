"""Pending requests: fetches that wait for records, joins and syncs that wait for other members.

Theory of operation. When a large group is rebalanced, all its members but one wait, and thousands get their answers at
once. So these answers are encoded together, by columns, once the records that they depend on are flushed, and each is
written at once; one at a time, each took some 19 calls. A connection has at most one pending request, so the order in
which connections are answered does not matter.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcoord.broker.long_polls import LongPolls
from kcoord.metrics.reasons import CloseReason
from kcoord.server.clock import now_ms
from kcoord.server.connection.connection import Connection
from kcoord.server.dispatch.dispatch import Answer, HangUp, Outcome, Park
from kcoord.server.dispatch.routes import Route
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.broker.fetching import Waiting

log = logging.getLogger("kcoord.server")

ParkedRequest = tuple[Connection, Route, int, "Waiting | None"]
"""The connection, the route that encodes the response, the correlation id, and what a Fetch waits for."""


class PendingRequests:
    """All parked requests of a cluster, each by its ticket (Kafka's purgatory): fetches that wait for records, joins
    and syncs that wait for other members, requests decided in slices.
    """

    def __init__(self, finish: Callable[[Connection, "Waiting", int], object]) -> None:
        """`finish` returns the reply to a parked Fetch at the given time in milliseconds."""
        self.requests: dict[Ticket, ParkedRequest] = {}
        self.long_polls = LongPolls()
        self.on_answer: Callable[[Ticket, Route, object, int], None] | None = None
        """Called for each answer with the ticket, the route, the reply, and the bytes of the response."""
        self._finish = finish

    def park(self, connection: Connection, park: Park) -> None:
        """Stores a parked request; a Fetch also with its deadline."""
        self.requests[park.ticket] = (connection, park.route, park.correlation_id, park.waiting)
        if waiting := park.waiting:
            deadline = time.monotonic() + waiting.request.max_wait
            self.long_polls.park(park.ticket, waiting.watched, waiting.missing_bytes, deadline)

    def park_member(self, connection: Connection, route: Route, correlation_id: int, ticket: Ticket) -> None:
        """Stores a join or sync that the fast path has parked, without a Park from dispatch."""
        self.requests[ticket] = (connection, route, correlation_id, None)

    def forget(self, ticket: Ticket) -> None:
        """Drops the parked request of a connection that has closed."""
        self.requests.pop(ticket, None)
        self.long_polls.forget(ticket)

    def answer_ready(self) -> bool:
        """Answers the fetches that have enough bytes by now; returns whether there were any."""
        ready = self.long_polls.take_ready()
        self.answer_fetches(ready)
        return bool(ready)

    def answer_fetches(self, tickets: Sequence[Ticket]) -> None:
        """Answers the fetches of these tickets with what they can read now."""
        for ticket in tickets:
            connection, route, correlation_id, waiting = self.requests.pop(ticket)
            assert waiting is not None
            try:
                reply = self._finish(connection, waiting, now_ms())
            except Exception as error:
                _close_unanswered(connection, error)
            else:
                self._answer(ticket, (connection, route, correlation_id, waiting), reply, time.monotonic())

    def answer(self, ticket: Ticket, reply: object, now: float) -> None:
        """Encodes the reply to a parked request and passes it to its connection, unless that has closed."""
        parked = self.requests.pop(ticket, None)
        if parked is not None:
            self._answer(ticket, parked, reply, now)

    def finish_slices(self, ticket: Ticket, outcome: Outcome, now: float) -> None:
        """Passes the outcome of a request that was decided in slices to its connection, unless that has closed."""
        parked = self.requests.pop(ticket, None)
        if parked is None:
            return
        connection, route = parked[:2]
        try:
            if isinstance(outcome, HangUp):
                connection.refuse(outcome.reason, closing=outcome.closing)
                return
            assert isinstance(outcome, Answer)
            if self.on_answer is not None:
                self.on_answer(ticket, route, outcome.reply, sum(map(len, outcome.pieces)))
            connection.answer(outcome.pieces, now)
        except Exception as error:  # one fault must not stop the others
            _close_unanswered(connection, error)

    def fail(self, ticket: Ticket, error: Exception) -> None:
        """Closes the connection of a parked request whose decision has raised an exception."""
        parked = self.requests.pop(ticket, None)
        if parked is not None:
            _close_unanswered(parked[0], error)

    def answer_all(self, replies: Iterable[tuple[Ticket, object]], now: float) -> int:
        """Answers many parked requests, whose records are flushed already, with responses that are encoded together.

        Returns how many bytes the connections no longer hold, for the host to subtract in one sum.
        """
        by_route: defaultdict[Route, _RouteBatch] = defaultdict(_RouteBatch)
        take = self.requests.pop
        for ticket, reply in replies:
            parked = take(ticket, None)
            if parked is not None:
                connection, route, correlation_id, _ = parked
                batch = by_route[route]
                batch.tickets.append(ticket)
                batch.connections.append(connection)
                batch.correlation_ids.append(correlation_id)
                batch.replies.append(reply)
        freed = 0
        for route, batch in by_route.items():
            freed += self._answer_batch(route, batch, now)
        return freed

    def _answer_batch(self, route: Route, batch: "_RouteBatch", now: float) -> int:
        try:
            frames = route.encode_responses(batch.correlation_ids, batch.replies)
        except Exception:  # one reply cannot be encoded: encode them one by one, to answer the others all the same
            for ticket, connection, correlation_id, reply in batch.rows():
                self._answer(ticket, (connection, route, correlation_id, None), reply, now)
            return 0
        freed, on_answer = 0, self.on_answer
        for ticket, connection, reply, frame in zip(
            batch.tickets, batch.connections, batch.replies, frames, strict=True
        ):
            try:
                if on_answer is not None:
                    on_answer(ticket, route, reply, len(frame))
                freed += connection.answer_flushed(frame, now)
            except Exception as error:  # one fault must not stop the others
                _close_unanswered(connection, error)
        return freed

    def _answer(self, ticket: Ticket, parked: ParkedRequest, reply: object, now: float) -> None:
        connection, route, correlation_id, _ = parked
        try:
            pieces = route.encode_response(correlation_id, reply)
            if self.on_answer is not None:
                self.on_answer(ticket, route, reply, sum(map(len, pieces)))
            connection.answer(pieces, now)
        except Exception as error:
            _close_unanswered(connection, error)


class _RouteBatch:
    """The requests with the same route that are answered together, with their replies, as columns."""

    __slots__ = ("connections", "correlation_ids", "replies", "tickets")

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.connections: list[Connection] = []
        self.correlation_ids: list[int] = []
        self.replies: list[object] = []

    def rows(self) -> Iterator[tuple[Ticket, Connection, int, object]]:
        return zip(self.tickets, self.connections, self.correlation_ids, self.replies, strict=True)


def _close_unanswered(connection: Connection, error: Exception) -> None:
    log.error("bug peer=%s: a parked request could not be answered", connection.peer, exc_info=error)
    connection.close("a fault of the server", closing=CloseReason.FAULT)
