"""One client's connection.

As a broker does, a connection works on one request at a time: the next is not looked at before the one at hand is
answered, so answers keep the order of requests and a client that asks faster than it is answered fills its own socket.
What is decided in one turn leaves in one write. A turn ends after so many requests or bytes of answers, so that a
client with a lot to ask neither holds up the others nor fills memory with answers that it does not read. Small requests
and answers of many connections are worked on together (turns.py); large ones at once, as they take memory. What stands
(standing.py) is not decided, and but for commits needs no turn.
"""

import asyncio
import logging
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, cast

from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import Closing
from kcoord.server.dispatch import Answer, HangUp, Park, Unserved
from kcoord.server.owner import Owner
from kcoord.server.routes import Asker
from kcoord.server.standing import HEAD, CommitFrame, HeartbeatFrame, PhaseFrame, StandingFrame
from kcoord.tickets import Ticket
from kcoord.wire.check import BadBody
from kcoord.wire.frames import LENGTH_BYTES, FrameSplitter

if TYPE_CHECKING:
    from kcoord.server.lane import Lane, LaneTransport

log = logging.getLogger("kcoord.server")

_READ_AHEAD_BYTES = 1 << 16
_TURN_REQUESTS = 100
_TURN_BYTES = 1 << 16
_LARGE_BYTES = 1 << 13


class Connection(asyncio.Protocol):
    __slots__ = (
        "_frames",
        "_has_turn_coming",
        "_in_lane",
        "_is_amidst",
        "_is_closed",
        "_is_full",
        "_is_paused",
        "_lane",
        "_may_take_lane",
        "_outgoing",
        "_owner",
        "_parked_bytes",
        "_put_by",
        "_splitter",
        "_standing",
        "_stood",
        "_transport",
        "_unread_bytes",
        "address",
        "asker",
        "closing",
        "held_bytes",
        "last_active",
        "node_id",
        "peer",
        "ticket",
    )

    def __init__(self, owner: Owner, node_id: int, max_frame_bytes: int) -> None:
        self.node_id = node_id
        self.peer = ""
        self.address = ""
        self.asker = Asker("")
        self.closing: Closing | None = None  # None: it is open, or the client hung up
        self.last_active = owner.now().now
        self.held_bytes = 0
        self.ticket: Ticket | None = None
        self._owner = owner
        self._splitter = FrameSplitter(max_frame_bytes)
        self._standing: StandingFrame | None = None  # that came last
        self._put_by = b""  # a commit that may stand, until its turn
        self._stood = owner.stood
        self._frames: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._unread_bytes = 0  # that came in and were not worked on: requests with their lengths, the last in part
        self._parked_bytes = 0
        self._is_amidst = False  # the last frame came in part so far
        self._is_full = False
        self._is_paused = False
        self._has_turn_coming = False
        self._is_closed = False
        self._may_take_lane = True
        self._lane: Lane | None = None
        self._in_lane: LaneTransport | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername") or ("?", 0)
        self.address, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        self.asker = Asker(self.address)
        if reason := self._owner.admit(self):
            self.close(reason, closing=Closing.REFUSED)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        self._frames.clear()
        self._outgoing.clear()
        self._put_by = b""
        self._unread_bytes = self._parked_bytes = 0
        self._hold(-self.held_bytes)
        if self._in_lane is not None:
            self._in_lane.get_out()
        self._owner.gone(self)

    def data_received(self, chunk: bytes) -> None:
        standing = self._standing
        if standing is None or not chunk.startswith(standing.head):
            standing = self._standing = self.asker.standing.get(chunk[HEAD])
        if standing is not None:
            if self._may_take_lane:
                self._take_lane()
            if self._ask_again(standing, chunk):
                return
        if self._is_closed or self._splitter.broken:
            return
        self._take_in(chunk)
        if self._has_turn_coming:
            self._take_stock()
        elif len(chunk) > _LARGE_BYTES or type(standing) is PhaseFrame:
            self._work_now([])
        else:
            self._has_turn_coming = True
            self._owner.soon(self._take_turn)

    def _ask_again(self, standing: StandingFrame, chunk: bytes) -> bool:
        """Whether this is a frame that stands, with nothing before it that waits: then it has its answer, or waits. Of
        a commit that is seen at its turn."""
        if self._has_turn_coming or self.ticket is not None or self._is_amidst or self._is_full or self._is_closed:
            return False
        if type(standing) is CommitFrame:
            if len(chunk) != standing.size:
                return False
            self._put_by = chunk
            self._has_turn_coming = True
            self._owner.soon(self._commit_again)
            return True
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

    def left_lane(self, transport: asyncio.Transport) -> None:
        """It has this transport of the loop again, until something stands once more."""
        self._transport, self._in_lane, self._may_take_lane = transport, None, True

    def _take_lane(self) -> None:
        """With what stands, where there is a lane and room in it (lane.py)."""
        assert self._transport is not None
        if self._lane is None:
            self._lane = self._owner.lane_for(self._transport)
        self._in_lane = self._lane.take(self, self._transport) if self._lane else None
        self._transport = self._in_lane or self._transport
        self._may_take_lane = self._lane is not None and self._in_lane is None

    def _take_in(self, chunk: bytes) -> None:
        """Cut frames out of what came, and of what was put by before it."""
        if self._put_by:
            chunk, self._put_by = self._put_by + chunk, b""
        self._unread_bytes += len(chunk)
        frames = self._splitter.feed(chunk)
        self._is_amidst = self._splitter.is_amidst
        self._frames += frames
        if len(frames) == 1:
            self.asker.alone += 1
        elif frames:
            self.asker.came_together()

    def _take_part(self, standing: PhaseFrame, chunk: bytes) -> bool:
        outcome = self._owner.ask_again(self, standing, chunk)
        if outcome is None:
            return False
        self.last_active = monotonic()
        if isinstance(outcome, Answer):
            self._put_aside(outcome.pieces, _size(outcome.pieces))
        else:
            self.ticket = outcome
            self._parked_bytes = len(chunk) - LENGTH_BYTES
            self._hold(self._parked_bytes)
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

    def _commit_again(self, at: Instant) -> None:
        """The turn of a commit that was put by, unless more has come since: if it stands, it has its answer."""
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

    def pause_writing(self) -> None:
        """The client does not read what it is sent."""
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._work_now([])

    def answer(self, pieces: list[bytes], now: float) -> None:
        """The answer to the request that was parked."""
        self.ticket = None
        self._parked_bytes = 0
        if self._frames or self._is_full or self._is_amidst:
            self._work_now(list(pieces))
            return
        self.last_active = now
        self._put_aside(pieces, _size(pieces))
        self._hold(-self.held_bytes)

    def refuse(self, reason: str, *, closing: Closing = Closing.OTHER) -> None:
        """Hang up on the client once it has its answers, saying why in one line of the log."""
        self._log_closing(reason, closing)
        self._owner.keep()
        self._send()
        self._is_closed = True
        assert self._transport is not None
        self._transport.close()

    def close(self, reason: str, *, closing: Closing = Closing.OTHER) -> None:
        """Hang up at once, saying why in one line of the log; what is unsent is dropped."""
        self._log_closing(reason, closing)
        self._outgoing.clear()
        self.hang_up()

    @property
    def has_unsent(self) -> bool:
        """Whether answers wait to be sent."""
        return bool(self._outgoing)

    def hang_up(self) -> None:
        self._is_closed = True
        assert self._transport is not None
        self._transport.abort()

    def _log_closing(self, reason: str, closing: Closing) -> None:
        if not self._is_closed:
            self.closing = closing
            log.warning("closed peer=%s node=%s why=%r", self.peer, self.node_id, reason)

    def _take_turn(self, at: Instant) -> None:
        self._has_turn_coming = False
        if not self._is_closed:
            self._work([], at)

    def _work_now(self, pieces: list[bytes]) -> None:
        """Not in a turn. If there is one coming, all the rest waits for it."""
        at = self._owner.now()
        if not self._has_turn_coming:
            self._work(pieces, at)
        else:
            self.last_active = at.now
            self._put_aside(pieces, _size(pieces))
            self._take_stock()
        self._owner.settle()

    def _work(self, pieces: list[bytes], at: Instant) -> None:
        """Work on what came in until nothing is left, one is parked, or the turn is over. The pieces leave first."""
        self.last_active = at.now
        frames, requests, size = self._frames, 0, _size(pieces)
        while frames and self.ticket is None and not self._is_full and not self._is_closed:
            if requests == _TURN_REQUESTS or size > _TURN_BYTES:
                self._has_turn_coming = True
                self._owner.soon(self._take_turn)
                break
            frame = frames.popleft()
            requests += 1
            self._unread_bytes -= LENGTH_BYTES + len(frame)
            try:
                outcome = self._owner.decide(self, frame, at)
            except Exception as error:
                outcome = self._fault(error)
            if type(outcome) is Answer:
                for piece in outcome.pieces:
                    pieces.append(piece)
                    size += len(piece)
            elif type(outcome) is Park:
                self.ticket = outcome.ticket
                self._parked_bytes = len(frame)
                self._owner.park(self, outcome)
            else:
                assert type(outcome) is HangUp
                self._outgoing += pieces
                pieces, size = [], 0
                self.refuse(outcome.reason, closing=outcome.closing)
        if pieces:
            self._put_aside(pieces, size)
        if frames or self._is_amidst or self.held_bytes or self._is_full:
            self._take_stock()
        elif self.ticket is not None:
            self._hold(self._parked_bytes)

    def _take_stock(self) -> None:
        """Not all is done: what is held is counted, a client that is far ahead not read from, a broken stream ended."""
        if self._splitter.broken and not self._frames and self.ticket is None:
            self.refuse(str(self._splitter.broken), closing=Closing.MALFORMED)
        self._hold(self._bytes_in_flight() - self.held_bytes)
        if self._frames or self._is_paused:
            self._pause_or_resume()

    def _bytes_in_flight(self) -> int:
        """What this client makes us hold: requests that wait, a part of one, and answers that it does not read."""
        held = self._parked_bytes + self._unread_bytes
        if self._is_full:
            assert self._transport is not None
            held += self._transport.get_write_buffer_size()
        return held

    def _fault(self, error: Exception) -> HangUp:
        """What becomes of a request that could not be decided."""
        if isinstance(error, BadBody):
            return HangUp(reason=f"a malformed request: {error}", closing=Closing.MALFORMED)
        if isinstance(error, Unserved):
            return HangUp(reason=str(error), closing=Closing.UNSERVED)
        log.error("bug peer=%s node=%s: a request could not be answered", self.peer, self.node_id, exc_info=error)
        return HangUp(reason="a fault of the server", closing=Closing.FAULT)

    def _refuse_fault(self, error: Exception) -> None:
        fault = self._fault(error)
        self.refuse(fault.reason, closing=fault.closing)

    def _put_aside(self, pieces: list[bytes], size: int) -> None:
        """Answers leave when all have had their turn; large ones at once, together with those before them."""
        is_first = not self._outgoing
        if is_first:
            self._outgoing = pieces
        else:
            self._outgoing += pieces
        if size > _LARGE_BYTES:
            self._owner.keep()
            self._send()
        elif is_first:
            self._owner.leave(self._send)

    def _send(self) -> None:
        outgoing = self._outgoing
        if outgoing and not self._is_closed:
            assert self._transport is not None
            self._outgoing = []
            self._transport.writelines(outgoing)

    def _hold(self, change: int) -> None:
        self.held_bytes += change
        if change:
            self._owner.held(change)

    def _pause_or_resume(self) -> None:
        if self._is_closed:
            return
        assert self._transport is not None
        is_behind = bool(self._frames) and self.held_bytes > _READ_AHEAD_BYTES
        if is_behind and not self._is_paused:
            self._transport.pause_reading()
        elif self._is_paused and not is_behind:
            self._transport.resume_reading()
        self._is_paused = is_behind


def _size(pieces: list[bytes]) -> int:
    if not pieces:
        return 0
    return len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
