"""The runtime with metrics, for `--metrics`. Without that option nothing here is imported.

Theory of operation. Requests that are answered at once are counted where they are decided, by a single increment if the
reply is the same as before; their duration follows from their event round (metrics/counts.py). A parked request is
stored with its arrival time until it is answered. Everything else is counted where it happens, or on request.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcoord.api.table import SERVED
from kcoord.broker.cluster import OFFSETS_TOPIC, Partition
from kcoord.errors import ErrorCode
from kcoord.groups.effects import Cause, Event, EventType
from kcoord.groups.instant import Instant
from kcoord.groups.replies import CommitReply, HeartbeatReply
from kcoord.metrics.counts import NO_TALLY, Histogram, OutcomeCounts, RequestCounts, Tally
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.frames import LENGTH_BYTES
from kcoord.security.refusals import Refusal
from kcoord.server.cluster_runtime import ClusterRuntime
from kcoord.server.connection.connection import Connection
from kcoord.server.dispatch.dispatch import Answer, Outcome, Park
from kcoord.server.dispatch.reply_errors import first_error
from kcoord.server.dispatch.routes import Route
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.server.fast_path.response_cache import CachedRebalanceFrame, CachedResponseFrame
from kcoord.server.runtime import Runtime
from kcoord.storage.filesystem import Filesystem
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.server.groups.group_runtime import GroupRuntime

_ERROR_NAMES: Final = {error: error.name.upper() for error in ErrorCode}  # as Kafka writes them
_RECURRING: Final = frozenset({HeartbeatReply, CommitReply})  # replies whose identical object recurs


class _Waiting(NamedTuple):
    """A parked request: its arrival time and its size."""

    since: float
    size: int


class InstrumentedClusterRuntime(ClusterRuntime):
    """A mixin that counts requests, connections and events of a ClusterRuntime for metrics; it comes before the runtime
    among the bases, as in InstrumentedRuntime.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        self.requests = RequestCounts()
        self.opened = 0
        self.closed: Counter[CloseReason] = Counter()
        self.refused: Counter[str] = Counter()
        self.events: Counter[EventType] = Counter()
        self.rebalances: Counter[Cause] = Counter()
        self.fsyncs = Histogram()
        self._since = 0.0
        self._waiting: dict[Ticket, _Waiting] = {}
        self._finished: list[tuple[OutcomeCounts, _Waiting, int]] = []  # counted by the next flush
        super().__init__(*given, **named)
        self._pending_requests.on_answer = self._finish_parked
        self._time_fsyncs()

    @property
    def held_bytes(self) -> int:
        """The bytes of requests that connections hold in memory."""
        return self._held_bytes

    def parked(self) -> Mapping[str, int]:
        """Returns the number of parked requests by API name."""
        return Counter(route.api.name for _, route, _, _ in self._pending_requests.requests.values())

    # ConnectionHost.

    def admit(self, connection: Connection) -> str | None:
        """Registers a new connection like ClusterRuntime, and counts it as opened or refused."""
        refusal = super().admit(connection)
        if refusal:
            self.refused[Refusal.LIMIT] += 1
        else:
            self.opened += 1
        return refusal

    def on_closed(self, connection: Connection) -> None:
        """Forgets a connection like ClusterRuntime, and counts it by the reason of its closing."""
        super().on_closed(connection)
        if connection.closing is not CloseReason.REFUSED:
            self.closed[connection.closing or CloseReason.CLIENT] += 1
        if connection.ticket is not None:
            self._waiting.pop(connection.ticket, None)

    def decide(self, connection: Connection, frame: bytes, at: Instant) -> Outcome:
        """Decides a request like ClusterRuntime, and counts it by API and error."""
        outcome = super().decide(connection, frame, at)
        if type(outcome) is Answer:
            client = connection.client
            tally = client.tally
            if tally.reply is not outcome[1] or tally.frame_bytes != len(frame):
                tally = self._tally_of(client, frame, outcome)
            fresh = tally.fresh
            tally.fresh = fresh + 1
            if not fresh:
                self.requests.fresh.append(tally)
                self._since = at.now
        elif type(outcome) is Park:
            since = self._event_round.scheduled_at.now if self._event_round.scheduled_at else at.now
            self._waiting[outcome.ticket] = _Waiting(since, LENGTH_BYTES + len(frame))
        return outcome

    def on_cache_hit(self, cached: CachedResponseFrame, chunk: bytes, answer: bytes) -> None:
        """Counts a request that was answered from the response cache."""
        tally = cached.tally
        if tally is NO_TALLY:
            tally = cached.tally = self._new_tally(chunk[LENGTH_BYTES:], [answer], cached.reply)
        fresh = tally.fresh
        tally.fresh = fresh + 1
        if not fresh:
            self.requests.fresh.append(tally)
            self._since = self._event_round.arrival().now

    def decide_cached(
        self, connection: Connection, cached: CachedRebalanceFrame, chunk: bytes
    ) -> Answer | Ticket | None:
        """Decides a cached join or sync like ClusterRuntime, and counts it."""
        outcome = super().decide_cached(connection, cached, chunk)
        if isinstance(outcome, Answer):
            tally = self._new_tally(chunk[LENGTH_BYTES:], outcome.pieces, outcome.reply)
            tally.fresh = 1
            self.requests.fresh.append(tally)
            self._since = self._event_round.arrival().now
        elif outcome is not None:
            self._waiting[outcome] = _Waiting(self._event_round.arrival().now, len(chunk))
        return outcome

    def flush(self) -> None:
        """Flushes like ClusterRuntime, and adds the durations of the requests whose responses may now leave."""
        super().flush()
        if self.requests.fresh or self._finished:
            self._count_answered(time.monotonic())

    def _count_answered(self, now: float) -> None:
        """Counts the requests whose responses may leave now, with their durations."""
        self.requests.on_sent(
            now - (self._event_round.scheduled_at.now if self._event_round.scheduled_at else self._since)
        )
        for requests, waiting, sent in self._finished:
            self.requests.answered(requests, now - waiting.since, received_bytes=waiting.size, sent_bytes=sent)
        self._finished.clear()

    def _tally_of(self, client: ClientSession, frame: bytes, answer: Answer) -> Tally:
        tally = self._new_tally(frame, answer.pieces, answer.reply)
        if type(answer.reply) in _RECURRING:
            client.tally = tally
        return tally

    def _new_tally(self, frame: bytes, pieces: Iterable[bytes], reply: object) -> Tally:
        return Tally(
            reply,
            self._requests_of(SERVED[int.from_bytes(frame[:2])].name, reply),
            frame_bytes=len(frame),
            sent_bytes=sum(map(len, pieces)),
            offsets=_committed(reply) if isinstance(reply, CommitReply) else 0,
        )

    def _requests_of(self, api: str, reply: object) -> OutcomeCounts:
        return self.requests.of(api, _ERROR_NAMES[first_error(reply)])

    def _finish_parked(self, ticket: Ticket, route: Route, reply: object, size: int) -> None:
        self._finished.append((self._requests_of(route.api.name, reply), self._waiting.pop(ticket), size))

    # Events elsewhere in the runtime.

    def _on_appended(self, partition: Partition, size: int) -> None:
        super()._on_appended(partition, size)
        if partition.topic == OFFSETS_TOPIC and self.groups:
            self.groups.counts.written_bytes += size

    def _get_or_make_groups(self) -> "GroupRuntime":
        groups = super()._get_or_make_groups()
        groups.on_events = self._count_events
        return groups

    def _count_events(self, events: Iterable[Event]) -> None:
        for event in events:
            self.events[event.what] += 1
            if event.cause is not None:
                self.rebalances[event.cause] += 1

    def _time_fsyncs(self) -> None:
        from kcoord.storage.data_dir import DataDir

        if isinstance(self.cluster.storage, DataDir):
            self.cluster.storage.files.filesystem = TimedFilesystem(self.fsyncs)


class InstrumentedRuntime(InstrumentedClusterRuntime, Runtime):
    """The runtime of `kcoord serve --metrics`: a Runtime that counts what it does."""


class TimedFilesystem(Filesystem):
    """The operating system's file functions, with the durations of fsync added to a histogram."""

    def __init__(self, fsyncs: Histogram) -> None:
        self._fsyncs = fsyncs

    def sync(self, file: int) -> None:
        """Calls fsync on a file descriptor and measures its duration."""
        began = time.monotonic()
        super().sync(file)
        self._fsyncs.add(time.monotonic() - began)


def _committed(reply: CommitReply) -> int:
    lines = [line for topic in reply.topics for line in topic.partitions]
    return sum(line.error_code is ErrorCode.none for line in lines)
