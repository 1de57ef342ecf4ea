"""Frames that need not be decided: what members ask again and again, and what stands (groups/standing).

Theory of operation. Most of what a coordinator is asked are heartbeats and small commits, each the same as the one
before but for its correlation id and its offsets. Once such a frame was read, decided and answered, its connection
keeps it here, with what its reply rests on. When it comes again, alone and with nothing of its client before it that
waits, it takes a few comparisons to see that it is the same and that nothing has changed, and it has its answer:

    bytes ─ the same frame? ─ does it stand? ─ the same answer, with the new correlation id

Otherwise it goes the way of every frame. Frames are taken apart as Repeated does it (routes.py), without a look at
that: by the next time, each object of a thousand members has left the processor's cache. A heartbeat's answer may leave
at once: what it rests on was kept before this one was read. A commit waits for its turn, and its answer for its offsets
to be kept (turns.py). When a large group is rebalanced, all its members but one wait for others, twice: their joins and
syncs are parked where they are read. One that is to be decided is decided at once then, as it is what the others wait
for.
"""

from typing import TYPE_CHECKING, Final

from kcoord.groups.instant import Instant
from kcoord.metrics.counts import NO_TALLY
from kcoord.protocol.frames import LENGTH_BYTES, LENGTH_PREFIX
from kcoord.server.dispatch.routes import SAME, VARYING
from kcoord.tickets import Ticket, Waits

if TYPE_CHECKING:
    from kcoord.groups.classic.prevalidated import StandingCommit, StandingHeartbeat, StandingPhase
    from kcoord.groups.replies import SyncReply
    from kcoord.server.dispatch.routes import Repeated
    from kcoord.server.groups.group_runtime import Keeping

HEAD: Final = slice(0, 8)  # of a frame with its length: that, key and version
CORRELATION_AT: Final = 8  # where the correlation id is in it
_CORRELATION: Final = slice(8, 12)
_REST: Final = slice(12, None)
_MOST_FRAMES: Final = 8  # of one connection


class StandingFrame:
    """What is like one that was decided."""

    __slots__ = ("head",)

    def __init__(self, frame: bytes) -> None:
        """Of a frame without its length."""
        self.head = LENGTH_PREFIX.pack(len(frame)) + frame[: HEAD.stop - LENGTH_BYTES]


class PhaseFrame(StandingFrame):
    """A join or a sync: its member takes part in the rebalance that is under way."""

    __slots__ = ("_same", "_size", "_standing", "_taken_apart", "route")

    def __init__(self, frame: bytes, repeated: "Repeated", standing: "StandingPhase") -> None:
        super().__init__(frame)
        self.route = repeated.route
        self._size = LENGTH_BYTES + len(frame)
        self._taken_apart, self._same = repeated.taken_apart, repeated.same
        self._standing = standing

    def ask(self, chunk: bytes, ticket: Ticket) -> "SyncReply | Waits | None":
        """The reply to a chunk that has the same head, unless it waits; None if it is to be decided."""
        if len(chunk) != self._size:
            return None
        parts = self._taken_apart(chunk, LENGTH_BYTES)
        return self._standing.ask(parts[VARYING], ticket) if parts[SAME] == self._same else None


class AnsweredFrame(StandingFrame):
    """With the answer, which has its length before it."""

    __slots__ = ("_end", "_start", "reply", "tally")

    def __init__(self, frame: bytes, answer: bytes, reply: object) -> None:
        super().__init__(frame)
        self.reply = reply
        self.tally = NO_TALLY
        self._start, self._end = answer[:4], answer[8:]


class HeartbeatFrame(AnsweredFrame):
    __slots__ = ("_rest", "_standing")

    def __init__(self, frame: bytes, answer: bytes, reply: object, standing: "StandingHeartbeat") -> None:
        super().__init__(frame, answer, reply)
        self._rest = frame[8:]
        self._standing = standing

    def answer(self, chunk: bytes, now: float) -> bytes | None:
        """What is answered to a chunk that has the same head; None if it is not this frame, or does not stand."""
        if chunk[_REST] != self._rest or not self._standing.beat(now):
            return None
        return self._start + chunk[_CORRELATION] + self._end


class CommitFrame(AnsweredFrame):
    __slots__ = ("_keeping", "_same", "_standing", "_taken_apart", "size")

    def __init__(
        self,
        frame: bytes,
        repeated: "Repeated",
        answer: bytes,
        reply: object,
        standing: "StandingCommit",
        keeping: "Keeping",
    ) -> None:
        super().__init__(frame, answer, reply)
        self.size = LENGTH_BYTES + len(frame)
        self._taken_apart, self._same = repeated.taken_apart, repeated.same
        self._standing = standing
        self._keeping = keeping

    def answer(self, chunk: bytes, at: Instant) -> bytes | None:
        """What is answered to a chunk that has the same head; None if it is not this frame, or does not stand. It is to
        leave when what it rests on is kept, not before."""
        parts = self._taken_apart(chunk, LENGTH_BYTES)
        if parts[SAME] != self._same:
            return None
        record = self._standing.commit(parts[VARYING], at)
        if record is None:
            return None
        self._keeping.keep(record, at)
        return self._start + chunk[_CORRELATION] + self._end


def add(frames: dict[bytes, StandingFrame], standing: StandingFrame) -> None:
    """To those of a connection, by their heads."""
    if len(frames) >= _MOST_FRAMES:
        frames.clear()
    frames[standing.head] = standing
