"""The running cluster: its connections, its groups, and the timer of pending requests and group deadlines.

All decisions are made in synchronous code on the loop; this module owns the clock and the limits.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Set
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, cast
from uuid import uuid4

from kcoord.api.table import SERVED
from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Node, Partition, Topic
from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.headers import CORRELATION_ID, read_request_start
from kcoord.protocol.validate import CorruptMessage
from kcoord.server.clock import instant, now_ms
from kcoord.server.connection.connection import Connection
from kcoord.server.connection.draining import DeferredExpiry
from kcoord.server.connection.event_round import Callback, DecideCallback, EventRound
from kcoord.server.connection.pending_requests import PendingRequests
from kcoord.server.connection.sliced_requests import SlicedRequests
from kcoord.server.dispatch.dispatch import Answer, Dispatch, Outcome, Park
from kcoord.server.fast_path.response_cache import CORRELATION_AT, CachedRebalanceFrame, CachedResponseFrame
from kcoord.server.listener.connection_limits import ConnectionLimits
from kcoord.server.maintenance import IDLE_INTERVAL, Maintenance
from kcoord.server.setup import fresh_session_id
from kcoord.tickets import WAITS, Ticket

if TYPE_CHECKING:
    from kcoord.broker.fetching import Waiting
    from kcoord.server.authorization.permissions import Authorizer
    from kcoord.server.groups.group_runtime import GroupRuntime

log = logging.getLogger("kcoord.server")

_BATCH_THRESHOLD: Final = 32  # replies that justify a flush before they are sent as a batch


class ClusterRuntime:
    """A running cluster without listeners: it drives connections, group coordinators, parked requests and their timer
    on the event loop. The caller makes its connections. It runs within `async with`.
    """

    on_cache_hit: Callable[[CachedResponseFrame, bytes, bytes], None] | None = None  # see ConnectionHost

    def __init__(self, cluster: Cluster, *, authorizer: "Authorizer | None" = None) -> None:
        """Without an authorizer every client may do everything."""
        self.cluster = cluster
        self._authorizer = authorizer
        self._settings = cluster.settings
        self.cluster.on_append = self._on_appended
        self.cluster.on_delete = self._on_topic_deleted
        self._dispatches: dict[int, Dispatch] = {
            node.node_id: self._dispatch_of(node) for node in self.cluster.nodes.values()
        }
        self.groups: GroupRuntime | None = None  # None until the first request of a group
        self._pending_requests = PendingRequests(self._finish)
        self._tickets = cast("Iterator[Ticket]", count(1))
        self._connections: set[Connection] = set()
        self._limits = ConnectionLimits(self._settings)
        self._held_bytes = 0
        self._maintenance = Maintenance(self)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._is_draining = False
        self.schedule_decide: Callable[[DecideCallback], None]
        self.schedule_send: Callable[[Callback], None]
        self._is_verbose = log.isEnabledFor(logging.DEBUG)

    @property
    def caching_allowed(self) -> bool:
        """Whether encoded responses may be cached: not if authorization rules may change, nor if each request is to be
        logged.
        """
        return self._authorizer is None and not self._is_verbose

    @property
    def connections(self) -> Set[Connection]:
        """The open connections of clients."""
        return self._connections

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._event_round = EventRound(self._loop, instant, drain=self.drain_parked, flush=self.flush, on_end=self._arm)
        self._deferred_expiry = DeferredExpiry(self._loop, time.monotonic, self._expire_groups)
        self._sliced = SlicedRequests(self._loop, finish=self._finish_slices, fail=self._fail_slices)
        self.schedule_decide, self.schedule_send = self._event_round.defer_decide, self._event_round.defer_send
        for dispatch in self._dispatches.values():
            dispatch.caching_allowed = self.caching_allowed
        self._maintenance.start()
        if self._authorizer:
            self._maintenance.repeat(self._authorizer.reload, IDLE_INTERVAL)
        if OFFSETS_TOPIC in self.cluster.topics:
            self._maintenance.load_groups(self._get_or_make_groups())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._maintenance.stop()
        self._event_round.cancel()
        if self._alarm:
            self._alarm.cancel()
        self._deferred_expiry.close()
        self._sliced.close()
        for connection in list(self._connections):
            connection.hang_up()
        self.cluster.close()

    # ConnectionHost.

    def now(self) -> Instant:
        """Returns the current time, which is the same for all decisions of one event round."""
        return self._event_round.began_at or instant()

    def admit(self, connection: Connection) -> str | None:
        """Registers a new connection; returns the connection limit that it exceeds and must be closed for,
        else None.
        """
        self._connections.add(connection)
        log.debug("connected peer=%s node=%s", connection.peer, connection.node_id)
        return self._limits.add(connection.address)

    def on_closed(self, connection: Connection) -> None:
        """Forgets a closed connection and its parked request."""
        self._connections.discard(connection)
        log.debug("gone peer=%s node=%s", connection.peer, connection.node_id)
        self._limits.remove(connection.address)
        if connection.ticket is not None:
            self._pending_requests.forget(connection.ticket)
            self._sliced.forget(connection.ticket)

    def flush(self) -> None:
        """Makes the records of all decisions durable before responses leave. On failure, groups are unloaded and
        connections with unsent responses are closed.
        """
        self._maintenance.is_busy = self._maintenance.has_slack = True
        is_flushed = self.groups is None or self.groups.flush(self.now())
        try:
            self.cluster.storage.sync()
        except OSError as error:
            is_flushed = False
            log.error("not synced why=%r", str(error))
            if self.groups:
                self.groups.on_flush_lost(str(error), instant())
        if not is_flushed:
            self.close_unsent()
            self.drain_parked()
        if self.groups and self.groups.to_load:
            self._maintenance.load_groups(self.groups, pause=IDLE_INTERVAL)

    def close_unsent(self) -> None:
        """Closes the connections with unsent responses, because the records that these depend on are not durable."""
        unsafe = [each for each in self._connections if each.has_unsent or self.is_in_slices(each.ticket)]
        for connection in unsafe:
            connection.close("what its answers rest on could not be kept", closing=CloseReason.NOT_FLUSHED)

    def is_in_slices(self, ticket: Ticket | None) -> bool:
        """Returns whether the request of this ticket is being decided in slices, so that some of its records may be
        appended already.
        """
        return ticket is not None and self._sliced.has(ticket)

    def adjust_held(self, change: int) -> None:
        """Adds `change` to the bytes that connections hold in memory. Beyond queued.max.request.bytes it closes the
        connection that holds most.
        """
        self._held_bytes += change
        if self._held_bytes > self._settings.queued_max_request_bytes and self._connections:
            greediest = max(self._connections, key=lambda connection: connection.held_bytes)
            most = self._settings.queued_max_request_bytes
            greediest.close(f"queued.max.request.bytes={most} are held", closing=CloseReason.MEMORY)

    def decide(self, connection: Connection, frame: bytes, at: Instant) -> Outcome:
        """Decides a request of the connection: returns its answer, or how to park it, or that the client is
        hung up on.
        """
        if self._is_verbose:
            _log_request(connection, frame)
        return self._dispatches[connection.node_id].decide(frame, connection.client, next(self._tickets), at)

    def park(self, connection: Connection, park: Park) -> None:
        """Parks a request, and schedules its remaining slices if it has some."""
        self._pending_requests.park(connection, park)
        if park.unfinished is not None:
            self._sliced.add(park.ticket, *park.unfinished)

    def decide_cached(
        self, connection: Connection, cached: CachedRebalanceFrame, chunk: bytes
    ) -> Answer | Ticket | None:
        """Decides a cached join or sync: returns its answer, or the ticket if it is parked, or None on a cache miss."""
        ticket = next(self._tickets)
        reply = cached.apply(chunk, ticket)
        if reply is None:
            return None
        (correlation_id,) = CORRELATION_ID.unpack_from(chunk, CORRELATION_AT)
        if reply is not WAITS:
            return Answer(cached.route.encode_response(correlation_id, reply), reply)
        self._pending_requests.park_member(connection, cached.route, correlation_id, ticket)
        return ticket

    def drain_parked(self) -> None:
        """Answers all parked requests that can be answered by now, and sets the timer for the next deadline."""
        if self._is_draining:  # an answer lets its connection decide more, which calls this again
            return
        if self._pending_requests.long_polls.ready or (self.groups and self.groups.outbox):
            self._answer_parked()
        self._event_round.schedule()  # the timer is set at its end

    def _dispatch_of(self, node: Node) -> Dispatch:
        if self._authorizer is None:
            return Dispatch(self.cluster, node, fresh_session_id, self._get_or_make_groups)
        from kcoord.server.authorization.authorizing_dispatch import AuthorizingDispatch

        return AuthorizingDispatch(
            self.cluster, node, fresh_session_id, self._get_or_make_groups, authorizer=self._authorizer
        )

    def _get_or_make_groups(self) -> "GroupRuntime":
        """Returns the group runtime, made at the first request of a group: imports take most of a server's start-up
        time."""
        if self.groups is None:
            self.groups = self._make_groups()
        return self.groups

    def _make_groups(self) -> "GroupRuntime":
        from kcoord.broker.offsets_topic import make_offsets_topic
        from kcoord.server.groups.group_runtime import GroupRuntime

        make_offsets_topic(self.cluster, now_ms())
        return GroupRuntime(self.cluster, fresh_member_id)

    def _on_appended(self, partition: Partition, size: int) -> None:
        self._pending_requests.long_polls.appended(partition.topic, partition.index, size)

    def _on_topic_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._pending_requests.long_polls.topic_deleted(topic.name, partition.index)
        if self.groups:
            self.groups.topic_deleted(topic.name, topic.topic_id, instant())

    def _answer_parked(self) -> None:
        self._is_draining = True
        try:
            while self._pending_requests.answer_ready() or self._answer_members():
                pass
        finally:
            self._is_draining = False

    def _answer_members(self) -> bool:
        """Answers the parked requests whose replies are in the outbox; returns whether there were any."""
        groups = self.groups
        if groups is None or not groups.outbox:
            return False
        now = self.now().now
        if len(groups.outbox) >= _BATCH_THRESHOLD:
            self.flush()  # flush first: a failure replaces these replies
            freed = self._pending_requests.answer_all(groups.take_replies(), now)
            self.adjust_held(-freed)
        while groups.outbox:  # one at a time: an answer may flush, and a failure replaces the replies after it
            self._pending_requests.answer(*groups.outbox.popleft(), now)
        return True

    def _finish(self, connection: Connection, waiting: "Waiting", at_ms: int) -> object:
        """Returns the reply to a parked Fetch."""
        return self._dispatches[connection.node_id].finish(waiting, at_ms)

    def _finish_slices(self, ticket: Ticket, outcome: Outcome) -> None:
        self._pending_requests.finish_slices(ticket, outcome, self.now().now)
        self.drain_parked()

    def _fail_slices(self, ticket: Ticket, error: Exception) -> None:
        self._pending_requests.fail(ticket, error)
        self.drain_parked()

    # Time.

    def _arm(self) -> None:
        """Sets one timer, no later than the earliest deadline. A timer that fires too early sets the next one."""
        deadline = self._deadline()
        if deadline is None or (self._alarm is not None and self._alarm_at <= deadline):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._tick)

    def _deadline(self) -> float | None:
        deadline = self._pending_requests.long_polls.deadline()
        of_groups = self.groups.deadline() if self.groups and not self._deferred_expiry.is_pending else None
        if deadline is None or of_groups is None:
            return of_groups if deadline is None else deadline
        return min(deadline, of_groups)

    def _tick(self) -> None:
        self._alarm = None
        try:
            now = time.monotonic()
            self._pending_requests.answer_fetches(self._pending_requests.long_polls.tick(now))
            if self.groups and self.groups.has_due(now):
                self._deferred_expiry.begin(self._alarm_at, now)
        except Exception:
            log.exception("bug: what was due could not be done")
        finally:
            self.drain_parked()  # also sets the next timer, so that one fault does not stop all deadlines

    def _expire_groups(self, passed_by: float) -> None:
        try:
            assert self.groups is not None
            self.groups.tick(instant(), passed_by=passed_by)
        except Exception:
            log.exception("bug: what was due could not be done")
        finally:
            self.drain_parked()


def fresh_member_id() -> str:
    """Returns a random UUID, the last part of the member id that a new group member gets."""
    return str(uuid4())


def _log_request(connection: Connection, frame: bytes) -> None:
    with contextlib.suppress(CorruptMessage):
        asked = read_request_start(frame)
        name = SERVED[asked.api_key].name if asked.api_key in SERVED else asked.api_key
        log.debug("request peer=%s node=%s api=%s v%s", connection.peer, connection.node_id, name, asked.api_version)
