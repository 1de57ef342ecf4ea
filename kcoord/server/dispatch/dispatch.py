"""Dispatch: from a frame to its answer.

    frame ─ header ─ kio entity ─ api/*.to_request ─ broker/* or groups/* decides ─ reply ─ frame

Nothing here waits: the answer is returned at once, or the request is parked under its ticket and `Runtime` answers
later. Long work is decided in slices (broker/log/slices.py): the first slice is done here, and the request parks for
the rest.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcoord.api.caller import Caller
from kcoord.api.table import API_VERSIONS, FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE, SERVED
from kcoord.broker.cluster import Asked, Cluster, Node
from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.headers import CORRELATION_ID, RequestHeader, read_request_start
from kcoord.server.dispatch.routes import CORRELATION, START, Asker, Repeated, Route, route
from kcoord.server.fast_path.response_cache import CommitFrame, HeartbeatFrame, PhaseFrame, add
from kcoord.server.log_text import plain
from kcoord.server.quiet_log import QuietLog
from kcoord.tickets import WAITS, Ticket

if TYPE_CHECKING:
    from kcoord.broker.fetch_sessions import FetchSessions
    from kcoord.broker.fetching import Fetch, Waiting
    from kcoord.broker.log.slices import Decompression, Slices
    from kcoord.server.groups.group_runtime import GroupRuntime


log = logging.getLogger("kcoord.server")

_SLICED: Final = frozenset({PRODUCE, LIST_OFFSETS})
_QUIET_SECONDS: Final = 60.0


class Unserved(ValueError):
    """An API or version that is not served: the connection is closed, as Kafka does."""


class Answer(NamedTuple):
    """The pieces of the encoded response, none for a Produce with acks=0, and the reply that they encode."""

    pieces: list[bytes]
    reply: object = None


class Park(NamedTuple):
    """The request is parked until records arrive, other members act, or its remaining slices are done."""

    route: Route
    correlation_id: int
    ticket: Ticket
    waiting: "Waiting | None" = None  # what a Fetch waits for
    unfinished: "Unfinished | None" = None
    held_bytes: int = 0  # in addition to the request's size, while it is parked


class Unfinished(NamedTuple):
    """The remaining slices of a request, and the decompression that the last one requested."""

    slices: "Slices[Outcome]"
    asked: "Decompression | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """The connection must be closed, for this reason."""

    reason: str
    closing: CloseReason = CloseReason.OTHER


Outcome = Answer | Park | HangUp


class Dispatch:
    """Decides the requests to one node."""

    def __init__(
        self, cluster: Cluster, node: Node, fresh_session_id: Callable[[], int], groups: Callable[[], "GroupRuntime"]
    ) -> None:
        self.lets_stand = False
        """Whether responses may be cached (fast_path/response_cache.py)."""
        self._cluster = cluster
        self._node = node
        self._fresh_session_id = fresh_session_id
        self._make_groups = groups
        self._routes: dict[bytes, Route] = {}  # by the first bytes of a frame
        self._quiet_log = QuietLog(log, seconds=_QUIET_SECONDS)

    def decide(self, frame: bytes, asker: Asker, ticket: Ticket, at: Instant) -> Outcome:
        """Decides a request. Raises CorruptMessage or UnsupportedRequest."""
        start = frame[START]
        repeated = asker.repeated.get(start)
        if repeated is not None and (outcome := self._decide_again(frame, repeated, asker, ticket, at)) is not None:
            return outcome
        found = self._routes.get(start) or self._find_route(frame)
        if not isinstance(found, Route):
            return found
        header, entity = found.read(frame)
        if found.api.is_of_groups:
            request = found.module.to_request(entity, Caller(header.client_id or "", asker.host, asker.known_principal))
            if found.is_repeated:
                asker.remember(frame, found, request)
            return self._coordinate(frame, found, request, asker, ticket, at)
        asked = Asked(node=self._node, now_ms=at.wall_ms)
        return self._decide(header, found.module.to_request(entity), asked, asker, ticket)

    def finish(self, waiting: "Waiting", now_ms: int) -> object:
        """Returns the reply to a parked Fetch."""
        return _module(FETCH).finish(self._cluster, waiting, Asked(node=self._node, now_ms=now_ms))

    def _find_route(self, frame: bytes) -> Route | Answer:
        start = read_request_start(frame)
        api = SERVED.get(start.api_key)
        if api is None:
            raise Unserved(f"API key {start.api_key} is not served")
        if start.api_version not in api.versions:
            return self._unserved_version(start, api.name)
        found = self._routes[frame[START]] = route(start.api_key, start.api_version)
        return found

    def _decide_again(
        self, frame: bytes, repeated: Repeated, asker: Asker, ticket: Ticket, at: Instant
    ) -> Outcome | None:
        """Decides a frame that matches a template, or returns None if it does not match."""
        varying = repeated.varying_in(frame)
        if varying is None:
            return None
        by, phase = repeated.route, repeated.phase
        if phase is not None and (told := phase.ask(varying, ticket)) is not None:
            return outcome_of(frame, by, None if told is WAITS else told, asker, ticket)
        request = repeated.request_with(varying)
        if request is None:
            return None
        outcome = self._coordinate(frame, by, request, asker, ticket, at)
        if self.lets_stand and (not by.has_few_answers or asker.asks_one_by_one):
            self._let_stand(frame, repeated, request, asker, outcome)
        return outcome

    def _coordinate(self, frame: bytes, by: Route, request: Any, asker: Asker, ticket: Ticket, at: Instant) -> Outcome:
        return outcome_of(
            frame, by, self._groups.decide(self._node.node_id, by.decide, request, ticket, at), asker, ticket
        )

    def _let_stand(self, frame: bytes, repeated: Repeated, request: Any, asker: Asker, outcome: Outcome) -> None:
        """Caches what allows the next matching frame to be answered or parked in fewer steps, or without deciding."""
        by, groups = repeated.route, self._groups
        reply = outcome.reply if type(outcome) is Answer else None
        standing = groups.standing(self._node.node_id, by.stand, request, reply)
        if not by.has_few_answers:
            repeated.phase = standing
            if standing is not None and standing.is_of_many:
                add(asker.standing, PhaseFrame(frame, repeated, standing))
            return
        if standing is None:
            return
        assert type(outcome) is Answer
        (whole,) = outcome.pieces
        if by.with_varying is None:
            add(asker.standing, HeartbeatFrame(frame, whole, reply, standing))
        else:
            keeping = groups.keeping(standing.places)
            add(asker.standing, CommitFrame(frame, repeated, whole, reply, standing, keeping))

    def _decide(self, header: RequestHeader, request: Any, asked: Asked, asker: Asker, ticket: Ticket) -> Outcome:
        if header.api_key in _SLICED:
            outcome = _begin(header, self._decide_in_slices(header, request, asked, asker), ticket)
            if type(outcome) is Park and header.api_key == PRODUCE and request.is_compressed:
                from kcoord.broker.log.slices import (
                    SMALL_BYTES,  # imported here, where slicing has loaded the module: it would delay a server's start
                )

                return outcome._replace(held_bytes=SMALL_BYTES)
            return outcome
        if header.api_key == FETCH:
            return self._fetch(header, request, asked, asker, ticket)
        if header.api_key == API_VERSIONS:
            return _answer(header, _module(API_VERSIONS).announce(request))
        if header.api_key in (FIND_COORDINATOR, INIT_PRODUCER_ID):
            self._warn_of_transactions(header, request, asker)
        return _answer(header, self._reply(header.api_key, request, asked, asker))

    def _warn_of_transactions(self, header: RequestHeader, request: Any, asker: Asker) -> None:
        """Logs that transactions are not served, because the error that a client shows may not explain it."""
        for transactional_id in _module(header.api_key).transactional_ids(request):
            self._quiet_log.say(
                logging.WARNING,
                (asker.host, transactional_id),
                "refused transaction peer=%s client=%s transactional_id=%s why=%r",
                asker.host.removeprefix("/"),
                plain(header.client_id or ""),
                plain(transactional_id),
                "transactions are not served: use a producer without transactional.id",
            )

    def _reply(self, api_key: int, request: Any, asked: Asked, asker: Asker) -> Any:
        return _module(api_key).decide(self._cluster, request, asked)

    def _decide_in_slices(self, header: RequestHeader, request: Any, asked: Asked, asker: Asker) -> "Slices[Outcome]":
        reply = yield from self._reply(header.api_key, request, asked, asker)
        if header.api_key != PRODUCE or not request.is_unanswered:
            return _answer(header, reply)
        # The client waits for no response, so closing the connection is the only way to report the error (as in
        # KafkaApis).
        if reply.has_errors:
            return HangUp(reason="a Produce with acks=0 failed", closing=CloseReason.FAILED_PRODUCE)
        return Answer([], reply)

    def _fetch(self, header: RequestHeader, request: "Fetch", asked: Asked, asker: Asker, ticket: Ticket) -> Outcome:
        reply = _module(FETCH).decide(self._cluster, self._fetch_sessions, request, asked)
        if isinstance(reply, _module(FETCH).Waiting):
            return Park(route(FETCH, header.api_version), header.correlation_id, ticket, waiting=reply)
        return _answer(header, reply)

    @cached_property
    def _groups(self) -> "GroupRuntime":
        return self._make_groups()

    @cached_property
    def _fetch_sessions(self) -> "FetchSessions":
        slots: int = self._cluster.settings.max_incremental_fetch_session_cache_slots
        sessions: FetchSessions = _module(FETCH).FetchSessions(slots, self._fresh_session_id)
        return sessions

    def _unserved_version(self, start: RequestHeader, name: str) -> Answer:
        if start.api_key != API_VERSIONS:
            raise Unserved(f"{name} version {start.api_version} is not served")
        oldest = RequestHeader(api_key=start.api_key, api_version=0, correlation_id=start.correlation_id)
        return _answer(oldest, _module(API_VERSIONS).refuse_version())


def _module(api_key: int) -> Any:
    return SERVED[api_key].module


def _begin(header: RequestHeader, slices: "Slices[Outcome]", ticket: Ticket) -> Outcome:
    """Runs the first slice of a request, which completes almost all of them; the others are parked."""
    try:
        asked = next(slices)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    by = route(header.api_key, header.api_version)
    return Park(by, header.correlation_id, ticket, unfinished=Unfinished(slices, asked))


def outcome_of(frame: bytes, by: Route, reply: Any, asker: Asker, ticket: Ticket) -> Outcome:
    """Returns the outcome of a group request: an answer, or a park if there is no reply."""
    if by.has_few_answers and reply is not None:
        return Answer(asker.answer(frame, by, reply), reply)
    (correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION.start)
    return Park(by, correlation_id, ticket) if reply is None else Answer(by.answer(correlation_id, reply), reply)


def _answer(header: RequestHeader, reply: Any) -> Answer:
    return Answer(route(header.api_key, header.api_version).answer(header.correlation_id, reply), reply)
