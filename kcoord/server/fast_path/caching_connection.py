"""A connection with a response cache (response_cache.py): cached frames are answered without being decided.

Except for commits, this happens where they are read, without an event round.
"""

from time import monotonic
from typing import cast

from kcoord.groups.instant import Instant
from kcoord.protocol.frames import LENGTH_BYTES
from kcoord.server.connection.connection import LARGE_BYTES, Connection, size_of
from kcoord.server.connection.connection_host import ConnectionHost
from kcoord.server.dispatch.dispatch import Answer
from kcoord.server.fast_path.response_cache import (
    HEAD,
    CachedCommitFrame,
    CachedFrame,
    CachedHeartbeatFrame,
    CachedRebalanceFrame,
)
from kcoord.tickets import Ticket


class CachingConnection(Connection):
    """A Connection that answers repeated requests (heartbeats, commits, joins, syncs) from the response cache of its
    client, without decoding or deciding them.
    """

    __slots__ = ("_next_cached", "_on_cache_hit", "_other_cached", "_staged_commit")

    def __init__(self, host: ConnectionHost, node_id: int, max_frame_bytes: int) -> None:
        super().__init__(host, node_id, max_frame_bytes)
        self._next_cached: CachedFrame | None = None  # the next frame to expect: the last or the other phase's
        self._other_cached: CachedRebalanceFrame | None = None  # join and sync alternate
        self._staged_commit = b""  # a commit that may be a cache hit, until the event round
        self._on_cache_hit = host.on_cache_hit

    def connection_lost(self, error: Exception | None) -> None:
        """Puts a commit that was staged for the event round back among the frames to decide, then does what
        Connection.connection_lost does.
        """
        self._feed(b"")
        super().connection_lost(error)

    def eof_received(self) -> bool:
        """Puts a commit that was staged for the event round back among the frames to decide, then does what
        Connection.eof_received does.
        """
        self._feed(b"")
        return super().eof_received()

    def data_received(self, chunk: bytes) -> None:
        """Answers a chunk that is one cached frame from the cache; other chunks are processed like those of
        Connection.
        """
        cached = self._next_cached
        if cached is None or not chunk.startswith(cached.head):
            cached = self._next_cached = self.client.cached_frames.get(chunk[HEAD])
        if cached is not None:
            is_busy = (
                self._is_decide_scheduled or self.ticket is not None or self._has_partial_frame or self._is_write_paused
            )
            if not is_busy and not self._is_closed and self._answer_from_cache(cached, chunk):
                return
        if self._accept_chunk(chunk):
            if len(chunk) > LARGE_BYTES or type(cached) is CachedRebalanceFrame:
                self._decide_now([])
            else:
                self._schedule_decide()

    def _answer_from_cache(self, cached: CachedFrame, chunk: bytes) -> bool:
        """Returns whether the chunk was handled as a cached frame: answered, parked, or, for a commit, staged."""
        if type(cached) is CachedCommitFrame:
            return self._stage_commit(cached, chunk)
        try:
            if type(cached) is CachedRebalanceFrame:
                is_hit = self._rebalance_from_cache(cached, chunk)
            else:
                assert type(cached) is CachedHeartbeatFrame
                is_hit = self._heartbeat_from_cache(cached, chunk)
        except Exception as error:
            self._refuse_fault(error)
            return True
        if not is_hit:
            self._next_cached = None
        return is_hit

    def _rebalance_from_cache(self, cached: CachedRebalanceFrame, chunk: bytes) -> bool:
        outcome = self._host.decide_cached(self, cached, chunk)
        if outcome is None:
            return False
        self._next_cached, self._other_cached = self._other_cached, cached
        if type(outcome) is Answer:
            self.last_active = monotonic()
            self._queue_response(outcome.pieces, size_of(outcome.pieces))
        else:
            self.ticket = cast(Ticket, outcome)
            self._parked_bytes = size = len(chunk) - LENGTH_BYTES
            self._adjust_held(size)
        return True

    def _heartbeat_from_cache(self, cached: CachedHeartbeatFrame, chunk: bytes) -> bool:
        now = monotonic()
        if self._outgoing or (answer := cached.answer(chunk, now)) is None:
            return False
        self.last_active = now
        if self._on_cache_hit is not None:
            self._on_cache_hit(cached, chunk, answer)
        assert self._transport is not None
        self._transport.write(answer)
        return True

    def _stage_commit(self, cached: CachedCommitFrame, chunk: bytes) -> bool:
        if len(chunk) != cached.size:
            return False
        self._staged_commit = chunk
        self._is_decide_scheduled = True
        self._host.schedule_decide(self._commit_from_cache)
        return True

    def _commit_from_cache(self, at: Instant) -> None:
        """Answers the staged commit in the event round, or decides it if it is no cache hit or if more was received."""
        chunk, cached = self._staged_commit, self._next_cached
        if not chunk or self._is_closed:
            self._on_decide(at)
            return
        assert type(cached) is CachedCommitFrame
        try:
            answer = cached.answer(chunk, at)
            if answer is not None and self._on_cache_hit is not None:
                self._on_cache_hit(cached, chunk, answer)
        except Exception as error:
            self._refuse_fault(error)
            return
        if answer is None:
            self._next_cached = None
            self._feed(b"")
            self._on_decide(at)
            return
        self._is_decide_scheduled = False
        self._staged_commit = b""
        self.last_active = at.now
        if not self._outgoing:
            self._host.schedule_send(self._send)
        self._outgoing.append(answer)

    def _feed(self, chunk: bytes) -> None:
        """Feeds the staged commit, if there is one, and the chunk to the frame splitter."""
        staged, self._staged_commit = self._staged_commit, b""
        super()._feed(staged + chunk)
