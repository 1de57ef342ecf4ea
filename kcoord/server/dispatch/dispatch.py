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
from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.broker.cluster import Cluster, Node, RequestContext
from kcoord.exceptions import RemoteFailure
from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.headers import CORRELATION_ID, RequestHeader, read_request_start
from kcoord.server.dispatch.routes import Route, route_for
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.server.fast_path.request_template import CORRELATION, START, RequestTemplate
from kcoord.server.fast_path.response_cache import (
    CachedCommitFrame,
    CachedHeartbeatFrame,
    CachedRebalanceFrame,
    add_frame,
)
from kcoord.server.log_text import escape_name
from kcoord.server.quiet_log import RateLimitedLog
from kcoord.tickets import WAITS, Ticket

if TYPE_CHECKING:
    from kcoord.broker.fetch_sessions import FetchSessions
    from kcoord.broker.fetching import Fetch, Waiting
    from kcoord.broker.log.slices import Decompression, Slices
    from kcoord.server.groups.group_runtime import GroupRuntime


log = logging.getLogger("kcoord.server")

_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH
_FIND_COORDINATOR: Final = ApiKey.FIND_COORDINATOR
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_INIT_PRODUCER_ID: Final = ApiKey.INIT_PRODUCER_ID
_SLICED: Final = frozenset({_PRODUCE, ApiKey.LIST_OFFSETS})
_QUIET_SECONDS: Final = 60.0


class UnsupportedRequest(RemoteFailure, ValueError):
    """Raised for an API or version that is not served: the connection is closed, as a Kafka broker does."""


class Answer(NamedTuple):
    """The outcome of a request that was decided: its encoded response as pieces of a frame (none for a Produce with
    acks=0), and the reply that they encode.
    """

    pieces: list[bytes]
    reply: object = None


class Park(NamedTuple):
    """The outcome of a request that must wait: until records arrive, other members act, or its remaining slices are
    done.
    """

    route: Route
    correlation_id: int
    ticket: Ticket
    waiting: "Waiting | None" = None  # what a Fetch waits for
    unfinished: "Unfinished | None" = None
    held_bytes: int = 0  # in addition to the request's size, while it is parked


class Unfinished(NamedTuple):
    """The remaining slices of a parked request, and the decompression that the last one yielded, if any."""

    slices: "Slices[Outcome]"
    decompression: "Decompression | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """The outcome of a request for which the connection must be closed, with the reason."""

    reason: str
    closing: CloseReason = CloseReason.OTHER


Outcome = Answer | Park | HangUp


class Dispatch:
    """Decides the requests to one node: finds the API, decodes the frame, checks it, and has the broker or a group
    coordinator decide.
    """

    def __init__(
        self, cluster: Cluster, node: Node, fresh_session_id: Callable[[], int], groups: Callable[[], "GroupRuntime"]
    ) -> None:
        self.caching_allowed = False
        """Whether responses may be cached (fast_path/response_cache.py)."""
        self._cluster = cluster
        self._node = node
        self._fresh_session_id = fresh_session_id
        self._make_groups = groups
        self._routes: dict[bytes, Route] = {}  # by the first bytes of a frame
        self._quiet_log = RateLimitedLog(log, seconds=_QUIET_SECONDS)

    def decide(self, frame: bytes, client: ClientSession, ticket: Ticket, at: Instant) -> Outcome:
        """Decides the request of a frame: returns its answer, or how to park it, or that the client is hung up on.
        `ticket` names it if it is parked. Raises CorruptMessage or UnsupportedRequest.
        """
        start = frame[START]
        template = client.templates.get(start)
        if (
            template is not None
            and (outcome := self._decide_from_template(frame, template, client, ticket, at)) is not None
        ):
            return outcome
        found = self._routes.get(start) or self._find_route(frame)
        if not isinstance(found, Route):
            return found
        header, entity = found.read(frame)
        if found.api.is_group_api:
            request = found.to_request(entity, Caller(header.client_id or "", client.host, client.known_principal))
            if found.is_templated:
                client.add_template(frame, found, request)
            return self._coordinate(frame, found, request, client, ticket, at)
        context = RequestContext(node=self._node, now_ms=at.wall_ms)
        return self._decide(header, found.to_request(entity), context, client, ticket)

    def finish(self, waiting: "Waiting", now_ms: int) -> object:
        """Decides a parked Fetch once more and returns its reply."""
        return _module(_FETCH).finish(self._cluster, waiting, RequestContext(node=self._node, now_ms=now_ms))

    def _find_route(self, frame: bytes) -> Route | Answer:
        start = read_request_start(frame)
        api = SERVED.get(start.api_key)
        if api is None:
            raise UnsupportedRequest(f"API key {start.api_key} is not served")
        if start.api_version not in api.versions:
            return self._unserved_version(start, api.name)
        found = self._routes[frame[START]] = route_for(start.api_key, start.api_version)
        return found

    def _decide_from_template(
        self, frame: bytes, template: RequestTemplate, client: ClientSession, ticket: Ticket, at: Instant
    ) -> Outcome | None:
        """Decides a frame that matches a template, or returns None if it does not match."""
        values = template.match(frame)
        if values is None:
            return None
        route, prevalidated = template.route, template.prevalidated
        if prevalidated is not None and (reply := prevalidated.apply(values, ticket)) is not None:
            return outcome_of(frame, route, None if reply is WAITS else reply, client, ticket)
        request = template.fill(values)
        if request is None:
            return None
        outcome = self._coordinate(frame, route, request, client, ticket, at)
        if self.caching_allowed and (not route.has_recurring_replies or client.is_not_pipelining):
            self._cache(frame, template, request, client, outcome)
        return outcome

    def _coordinate(
        self, frame: bytes, route: Route, request: Any, client: ClientSession, ticket: Ticket, at: Instant
    ) -> Outcome:
        return outcome_of(
            frame, route, self._groups.decide(self._node.node_id, route.decide, request, ticket, at), client, ticket
        )

    def _cache(
        self, frame: bytes, template: RequestTemplate, request: Any, client: ClientSession, outcome: Outcome
    ) -> None:
        """Caches what allows the next matching frame to be answered or parked in fewer steps, or without deciding."""
        route, groups = template.route, self._groups
        reply = outcome.reply if type(outcome) is Answer else None
        prevalidated = groups.prevalidate(self._node.node_id, route.prevalidate, request, reply)
        if not route.has_recurring_replies:
            template.prevalidated = prevalidated
            if prevalidated is not None and prevalidated.has_many_members:
                add_frame(client.cached_frames, CachedRebalanceFrame(frame, template, prevalidated))
            return
        if prevalidated is None:
            return
        assert type(outcome) is Answer
        (whole,) = outcome.pieces
        if route.with_fields is None:
            add_frame(client.cached_frames, CachedHeartbeatFrame(frame, whole, reply, prevalidated))
        else:
            appender = groups.commit_appender(prevalidated.partitions)
            add_frame(client.cached_frames, CachedCommitFrame(frame, template, whole, reply, prevalidated, appender))

    def _decide(
        self, header: RequestHeader, request: Any, context: RequestContext, client: ClientSession, ticket: Ticket
    ) -> Outcome:
        if header.api_key in _SLICED:
            outcome = _begin_slices(header, self._decide_in_slices(header, request, context, client), ticket)
            if type(outcome) is Park and header.api_key == _PRODUCE and request.is_compressed:
                from kcoord.broker.log.slices import (
                    SMALL_BYTES,  # imported here, where slicing has loaded the module: it would delay a server's start
                )

                return outcome._replace(held_bytes=SMALL_BYTES)
            return outcome
        if header.api_key == _FETCH:
            return self._fetch(header, request, context, client, ticket)
        if header.api_key == _API_VERSIONS:
            return _answer(header, _module(_API_VERSIONS).announce(request))
        if header.api_key in (_FIND_COORDINATOR, _INIT_PRODUCER_ID):
            self._warn_of_transactions(header, request, client)
        return _answer(header, self._reply(header.api_key, request, context, client))

    def _warn_of_transactions(self, header: RequestHeader, request: Any, client: ClientSession) -> None:
        """Logs that transactions are not served, because the error that a client shows may not explain it."""
        for transactional_id in _module(header.api_key).transactional_ids(request):
            self._quiet_log.log(
                logging.WARNING,
                (client.host, transactional_id),
                "refused transaction peer=%s client=%s transactional_id=%s why=%r",
                client.host.removeprefix("/"),
                escape_name(header.client_id or ""),
                escape_name(transactional_id),
                "transactions are not served: use a producer without transactional.id",
            )

    def _reply(self, api_key: int, request: Any, context: RequestContext, client: ClientSession) -> Any:
        decide: Any = SERVED[api_key].served.decide
        return decide(self._cluster, request, context)

    def _decide_in_slices(
        self, header: RequestHeader, request: Any, context: RequestContext, client: ClientSession
    ) -> "Slices[Outcome]":
        reply = yield from self._reply(header.api_key, request, context, client)
        if header.api_key != _PRODUCE or not request.is_unanswered:
            return _answer(header, reply)
        # The client waits for no response, so closing the connection is the only way to report the error (as in
        # KafkaApis).
        if reply.has_errors:
            return HangUp(reason="a Produce with acks=0 failed", closing=CloseReason.FAILED_PRODUCE)
        return Answer([], reply)

    def _fetch(
        self, header: RequestHeader, request: "Fetch", context: RequestContext, client: ClientSession, ticket: Ticket
    ) -> Outcome:
        reply = _module(_FETCH).decide(self._cluster, self._fetch_sessions, request, context)
        if isinstance(reply, _module(_FETCH).Waiting):
            return Park(route_for(_FETCH, header.api_version), header.correlation_id, ticket, waiting=reply)
        return _answer(header, reply)

    @cached_property
    def _groups(self) -> "GroupRuntime":
        return self._make_groups()

    @cached_property
    def _fetch_sessions(self) -> "FetchSessions":
        slots: int = self._cluster.settings.max_incremental_fetch_session_cache_slots
        sessions: FetchSessions = _module(_FETCH).FetchSessions(slots, self._fresh_session_id)
        return sessions

    def _unserved_version(self, start: RequestHeader, name: str) -> Answer:
        if start.api_key != _API_VERSIONS:
            raise UnsupportedRequest(f"{name} version {start.api_version} is not served")
        oldest = RequestHeader(api_key=start.api_key, api_version=0, correlation_id=start.correlation_id)
        return _answer(oldest, _module(_API_VERSIONS).refuse_version())


def _module(api_key: int) -> Any:
    """Returns the file of an API that has functions of its own. It is imported on first use."""
    return SERVED[api_key].module


def _begin_slices(header: RequestHeader, slices: "Slices[Outcome]", ticket: Ticket) -> Outcome:
    """Runs the first slice of a request, which completes almost all of them; the others are parked."""
    try:
        decompression = next(slices)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    route = route_for(header.api_key, header.api_version)
    return Park(route, header.correlation_id, ticket, unfinished=Unfinished(slices, decompression))


def outcome_of(frame: bytes, route: Route, reply: Any, client: ClientSession, ticket: Ticket) -> Outcome:
    """Returns the outcome of a group request: an Answer with the encoded reply, or a Park if there is no reply yet."""
    if route.has_recurring_replies and reply is not None:
        return Answer(client.encode_response(frame, route, reply), reply)
    (correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION.start)
    return (
        Park(route, correlation_id, ticket)
        if reply is None
        else Answer(route.encode_response(correlation_id, reply), reply)
    )


def _answer(header: RequestHeader, reply: Any) -> Answer:
    return Answer(route_for(header.api_key, header.api_version).encode_response(header.correlation_id, reply), reply)
