"""A connection with a response cache (response_cache.py): cached frames are answered without being decided.

Except for commits, this happens where they are read, without an event round.
"""

from time import monotonic
from typing import cast

from kcoord.groups.instant import Instant
from kcoord.protocol.frames import LENGTH_BYTES
from kcoord.server.connection.connection import LARGE_BYTES, Connection, size_of
from kcoord.server.connection.connection_host import Owner
from kcoord.server.dispatch.dispatch import Answer
from kcoord.server.fast_path.response_cache import HEAD, CommitFrame, HeartbeatFrame, PhaseFrame, StandingFrame
from kcoord.tickets import Ticket


class StandingConnection(Connection):
    __slots__ = ("_other_phase", "_put_by", "_standing", "_stood")

    def __init__(self, owner: Owner, node_id: int, max_frame_bytes: int) -> None:
        super().__init__(owner, node_id, max_frame_bytes)
        self._standing: StandingFrame | None = None  # the next frame to expect: the last or the other phase's
        self._other_phase: PhaseFrame | None = None  # join and sync alternate
        self._put_by = b""  # a commit that may be a cache hit, until the event round
        self._stood = owner.stood

    def connection_lost(self, error: Exception | None) -> None:
        self._take_in(b"")
        super().connection_lost(error)

    def eof_received(self) -> bool:
        self._take_in(b"")
        return super().eof_received()

    def data_received(self, chunk: bytes) -> None:
        standing = self._standing
        if standing is None or not chunk.startswith(standing.head):
            standing = self._standing = self.asker.standing.get(chunk[HEAD])
        if standing is not None:
            is_held_up = self._has_turn_coming or self.ticket is not None or self._is_amidst or self._is_full
            if not is_held_up and not self._is_closed and self._ask_again(standing, chunk):
                return
        if self._has_taken_in(chunk):
            if len(chunk) > LARGE_BYTES or type(standing) is PhaseFrame:
                self._work_now([])
            else:
                self._ask_for_turn()

    def _ask_again(self, standing: StandingFrame, chunk: bytes) -> bool:
        """Returns whether the chunk was handled as a cached frame: answered, parked, or, for a commit, staged."""
        if type(standing) is CommitFrame:
            return self._put_commit_by(standing, chunk)
        try:
            if type(standing) is PhaseFrame:
                stands = self._take_part(standing, chunk)
            else:
                assert type(standing) is HeartbeatFrame
                stands = self._beat_again(standing, chunk)
        except Exception as error:
            self._refuse_fault(error)
            return True
        if not stands:
            self._standing = None
        return stands

    def _take_part(self, standing: PhaseFrame, chunk: bytes) -> bool:
        outcome = self._owner.ask_again(self, standing, chunk)
        if outcome is None:
            return False
        self._standing, self._other_phase = self._other_phase, standing
        if type(outcome) is Answer:
            self.last_active = monotonic()
            self._put_aside(outcome.pieces, size_of(outcome.pieces))
        else:
            self.ticket = cast(Ticket, outcome)
            self._parked_bytes = size = len(chunk) - LENGTH_BYTES
            self._hold(size)
        return True

    def _beat_again(self, standing: HeartbeatFrame, chunk: bytes) -> bool:
        now = monotonic()
        if self._outgoing or (answer := standing.answer(chunk, now)) is None:
            return False
        self.last_active = now
        if self._stood is not None:
            self._stood(standing, chunk, answer)
        assert self._transport is not None
        self._transport.write(answer)
        return True

    def _put_commit_by(self, standing: CommitFrame, chunk: bytes) -> bool:
        if len(chunk) != standing.size:
            return False
        self._put_by = chunk
        self._has_turn_coming = True
        self._owner.soon(self._commit_again)
        return True

    def _commit_again(self, at: Instant) -> None:
        """Answers the staged commit in the event round, or decides it if it is no cache hit or if more was received."""
        chunk, standing = self._put_by, self._standing
        if not chunk or self._is_closed:
            self._take_turn(at)
            return
        assert type(standing) is CommitFrame
        try:
            answer = standing.answer(chunk, at)
            if answer is not None and self._stood is not None:
                self._stood(standing, chunk, answer)
        except Exception as error:
            self._refuse_fault(error)
            return
        if answer is None:
            self._standing = None
            self._take_in(b"")
            self._take_turn(at)
            return
        self._has_turn_coming = False
        self._put_by = b""
        self.last_active = at.now
        if not self._outgoing:
            self._owner.leave(self._send)
        self._outgoing.append(answer)

    def _take_in(self, chunk: bytes) -> None:
        """Feeds the staged commit, if there is one, and the chunk to the frame splitter."""
        put_by, self._put_by = self._put_by, b""
        super()._take_in(put_by + chunk)
