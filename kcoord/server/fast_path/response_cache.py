"""The response cache: frames that members repeat, with their prevalidated requests (groups/classic/prevalidated.py).

Theory of operation. Most requests to a coordinator are heartbeats and small commits, each equal to the one before
except for its correlation id and its offsets. Once such a frame was decoded, decided and answered, its connection
caches it here, with its response and the prevalidated request that checks whether the response is still valid. When the
frame comes again, by itself and with no request of its client pending, a few comparisons show that it matches and is
valid:

    bytes ─ same frame? ─ still valid? ─ same response, with the new correlation id

Otherwise it is processed like any other frame. Frames are unpacked as RequestTemplate does it, but its function is
copied here: by the next time, every object of a thousand members has left the processor's cache. The response to a
heartbeat may leave at once, because the records that it depends on were flushed before the frame was read. A commit
waits for the event round, and its response for the flush of its offsets (connection/event_round.py). When a large group
is rebalanced, all its members but one wait for others, twice: their joins and syncs are parked where they are read. One
that must be decided is decided at once, since the others wait for it.
"""

from typing import TYPE_CHECKING, Final

from kcoord.groups.instant import Instant
from kcoord.metrics.counts import NO_TALLY
from kcoord.protocol.frames import LENGTH_BYTES, LENGTH_PREFIX
from kcoord.server.fast_path.request_template import FIXED, VARIABLE
from kcoord.tickets import Ticket, Waits

if TYPE_CHECKING:
    from kcoord.groups.classic.prevalidated import (
        PrevalidatedCommit,
        PrevalidatedHeartbeat,
        PrevalidatedRebalanceRequest,
    )
    from kcoord.groups.replies import SyncReply
    from kcoord.server.fast_path.request_template import RequestTemplate
    from kcoord.server.groups.group_runtime import RepeatedCommitAppender

HEAD: Final = slice(0, 8)  # of a frame with its length prefix: length, API key and version
CORRELATION_AT: Final = 8  # position of the correlation id in such a frame
_CORRELATION: Final = slice(8, 12)
_REST: Final = slice(12, None)
_MAX_FRAMES: Final = 8  # per connection


class CachedFrame:
    """A request frame that was decided before, and may be handled again without being decided if the client
    repeats it.
    """

    __slots__ = ("head",)

    def __init__(self, frame: bytes) -> None:
        """`frame` comes without its length prefix."""
        self.head = LENGTH_PREFIX.pack(len(frame)) + frame[: HEAD.stop - LENGTH_BYTES]


class CachedRebalanceFrame(CachedFrame):
    """A cached JoinGroup or SyncGroup frame of a rebalance, whose request is prevalidated: its checks are known to
    hold.
    """

    __slots__ = ("_fixed_parts", "_prevalidated", "_size", "_unpack", "route")

    def __init__(self, frame: bytes, template: "RequestTemplate", prevalidated: "PrevalidatedRebalanceRequest") -> None:
        super().__init__(frame)
        self.route = template.route
        self._size = LENGTH_BYTES + len(frame)
        self._unpack, self._fixed_parts = template.unpack, template.fixed_parts
        self._prevalidated = prevalidated

    def apply(self, chunk: bytes, ticket: Ticket) -> "SyncReply | Waits | None":
        """Handles a chunk that repeats the frame: returns the reply, WAITS if the request is parked, or None if it must
        be decided on the ordinary path.
        """
        if len(chunk) != self._size:
            return None
        parts = self._unpack(chunk, LENGTH_BYTES)
        return self._prevalidated.apply(parts[VARIABLE], ticket) if parts[FIXED] == self._fixed_parts else None


class CachedResponseFrame(CachedFrame):
    """A cached request frame with its encoded response."""

    __slots__ = ("_end", "_start", "reply", "tally")

    def __init__(self, frame: bytes, answer: bytes, reply: object) -> None:
        super().__init__(frame)
        self.reply = reply
        self.tally = NO_TALLY
        self._start, self._end = answer[:4], answer[8:]


class CachedHeartbeatFrame(CachedResponseFrame):
    """A cached Heartbeat frame, with its encoded response and the prevalidated heartbeat that checks whether it is
    still valid.
    """

    __slots__ = ("_prevalidated", "_rest")

    def __init__(self, frame: bytes, answer: bytes, reply: object, prevalidated: "PrevalidatedHeartbeat") -> None:
        super().__init__(frame, answer, reply)
        self._rest = frame[8:]
        self._prevalidated = prevalidated

    def answer(self, chunk: bytes, now: float) -> bytes | None:
        """Renews the member's session and returns the encoded response to a chunk that repeats the frame; None if the
        chunk differs or the response is no longer valid.
        """
        if chunk[_REST] != self._rest or not self._prevalidated.heartbeat(now):
            return None
        return self._start + chunk[_CORRELATION] + self._end


class CachedCommitFrame(CachedResponseFrame):
    """A cached OffsetCommit frame, with its encoded response and the prevalidated commit that checks whether it is
    still valid.
    """

    __slots__ = ("_appender", "_fixed_parts", "_prevalidated", "_unpack", "size")

    def __init__(
        self,
        frame: bytes,
        template: "RequestTemplate",
        answer: bytes,
        reply: object,
        prevalidated: "PrevalidatedCommit",
        appender: "RepeatedCommitAppender",
    ) -> None:
        super().__init__(frame, answer, reply)
        self.size = LENGTH_BYTES + len(frame)
        self._unpack, self._fixed_parts = template.unpack, template.fixed_parts
        self._prevalidated = prevalidated
        self._appender = appender

    def answer(self, chunk: bytes, at: Instant) -> bytes | None:
        """Commits the offsets of a chunk that repeats the frame, and returns the encoded response; None if the chunk
        differs or the response is no longer valid.

        The response must not leave before its record is flushed.
        """
        parts = self._unpack(chunk, LENGTH_BYTES)
        if parts[FIXED] != self._fixed_parts:
            return None
        record = self._prevalidated.commit(parts[VARIABLE], at)
        if record is None:
            return None
        self._appender.append(record, at)
        return self._start + chunk[_CORRELATION] + self._end


def add_frame(frames: dict[bytes, CachedFrame], frame: CachedFrame) -> None:
    """Adds a request frame, and what answers its repetitions, to the cache of a connection. It replaces the one that
    has the same head, which is the frame's length, API key and version."""
    if len(frames) >= _MAX_FRAMES:
        frames.clear()
    frames[frame.head] = frame
