"""One client's connection.

As in a broker, a connection processes one request at a time: the next is decided once the current one is answered, so
that responses have the order of requests, and a client that sends faster than it is answered fills its own socket. The
responses of one event round leave in one write. A connection decides a limited number of requests and bytes of
responses per round, so that a client with many requests neither delays the others nor fills memory with responses that
it does not read. Small requests and responses of many connections are processed together (event_round.py), large ones
at once, since they take memory.

As a broker does, a connection decides all requests that had arrived whole when its client closed, in their order. A
producer with acks=0 waits for no response, and a member that leaves need not. A client that closed only its sending
half gets its responses, except for that to a parked request with nothing behind it. Over TLS, and when the client
resets the connection, there is no transport any more to respond on; the connection goes on without one until it is
done.
"""

import asyncio
import logging
from collections import deque
from typing import cast

from kcoord.groups.instant import Instant
from kcoord.metrics.reasons import CloseReason
from kcoord.protocol.frames import LENGTH_BYTES, FrameSplitter
from kcoord.protocol.validate import CorruptMessage
from kcoord.server.connection.connection_host import ConnectionHost
from kcoord.server.dispatch.dispatch import Answer, HangUp, Park, UnsupportedRequest
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.tickets import Ticket

log = logging.getLogger("kcoord.server")

_READ_AHEAD_BYTES = 1 << 16
_MAX_ROUND_REQUESTS = 100
_MAX_ROUND_BYTES = 1 << 16
LARGE_BYTES = 1 << 13


class Connection(asyncio.Protocol):
    """One client's connection (asyncio.Protocol): splits bytes into request frames, has them decided in order, and
    writes the responses. Requests behind a parked one wait.
    """

    __slots__ = (
        "_frames",
        "_has_ended",
        "_has_partial_frame",
        "_host",
        "_is_closed",
        "_is_decide_scheduled",
        "_is_gone",
        "_is_read_paused",
        "_is_write_paused",
        "_outgoing",
        "_parked_bytes",
        "_splitter",
        "_transport",
        "_unread_bytes",
        "address",
        "client",
        "closing",
        "held_bytes",
        "last_active",
        "node_id",
        "peer",
        "ticket",
    )

    def __init__(self, host: ConnectionHost, node_id: int, max_frame_bytes: int) -> None:
        self.node_id = node_id
        self.peer = ""
        self.address = ""
        self.client = ClientSession("")
        self.closing: CloseReason | None = None  # None: it is open, or the client hung up
        self.last_active = host.now().now
        self.held_bytes = 0
        self.ticket: Ticket | None = None
        self._host = host
        self._splitter = FrameSplitter(max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._outgoing: list[bytes] = []
        self._unread_bytes = 0  # received and not decided yet, with length prefixes and a partial frame
        self._parked_bytes = 0
        self._has_partial_frame = False  # the last frame is incomplete so far
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_decide_scheduled = False
        self._has_ended = False  # the client sent EOF; the connection stays open until its requests are done
        self._is_gone = False  # the client sent EOF and the transport is lost: nobody receives a response
        self._is_closed = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection with its host, which may refuse it."""
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername") or ("?", 0)
        self.address, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        self.client = ClientSession(self.address)
        if reason := self._host.admit(self):
            self.close(reason, closing=CloseReason.REFUSED)

    def connection_lost(self, error: Exception | None) -> None:
        """Has the requests that were received completely decided, then lets the connection go."""
        if self._is_closed or self._is_write_paused or not self._has_more():
            self._let_go()
            return
        self._has_ended = self._is_gone = True
        self._outgoing.clear()
        if self._frames and self.ticket is None and not self._is_decide_scheduled:
            self._schedule_decide()

    def eof_received(self) -> bool:
        """Keeps the connection open, once its client has closed its sending half, until its requests are decided.

        Over TLS a transport closes in any case, and `connection_lost` is called.
        """
        assert self._transport is not None
        is_plain = self._transport.get_extra_info("ssl_object") is None
        self._has_ended = is_plain and not self._is_closed and self._has_more()
        if self._outgoing and not self._has_ended:
            self._host.flush()
            self._send()
        return self._has_ended

    def data_received(self, chunk: bytes) -> None:
        """Splits received bytes into frames, and schedules their decision in the next event round."""
        if self._accept_chunk(chunk):
            if len(chunk) > LARGE_BYTES:
                self._decide_now([])
            else:
                self._schedule_decide()

    def pause_writing(self) -> None:
        """Stops deciding requests: the client does not read its responses (backpressure)."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Goes on deciding requests: the client has read its responses."""
        self._is_write_paused = False
        self._decide_now([])

    def answer(self, pieces: list[bytes], now: float) -> None:
        """Queues the response to the parked request, given as the pieces of its frame, and goes on with the requests
        behind it.
        """
        self.ticket = None
        self._parked_bytes = 0
        if self._frames or self._is_write_paused or self._has_partial_frame:
            self._decide_now(list(pieces))
            return
        self.last_active = now
        self._queue_response(pieces, size_of(pieces))
        self._adjust_held(-self.held_bytes)
        if self._has_ended:
            self._end_if_done()

    def answer_flushed(self, frame: bytes, now: float) -> int:
        """Writes the response to the parked request at once, because the records that it depends on are flushed
        already.

        Returns how many bytes this connection no longer holds, for the host to subtract in one sum.
        """
        if (
            self._outgoing
            or self._frames
            or self._is_write_paused
            or self._has_partial_frame
            or self._has_ended
            or self._is_closed
        ):
            self.answer([frame], now)
            return 0
        assert self._transport is not None
        self.ticket = None  # before the transport has the answer: through a proxy the next request may come at once
        self.last_active = now
        freed, self.held_bytes, self._parked_bytes = self.held_bytes, 0, 0
        self._transport.write(frame)
        return freed

    def refuse(self, reason: str, *, closing: CloseReason = CloseReason.OTHER) -> None:
        """Sends the queued responses, then closes the connection and logs the reason."""
        self._log_closing(reason, closing)
        self._host.flush()
        self._send()
        self._close_transport()

    def close(self, reason: str, *, closing: CloseReason = CloseReason.OTHER) -> None:
        """Aborts the connection, drops unsent responses and logs the reason."""
        self._log_closing(reason, closing)
        self._outgoing.clear()
        self.hang_up()

    @property
    def has_unsent(self) -> bool:
        """Whether responses are queued that have not been passed to the transport."""
        return bool(self._outgoing)

    def hang_up(self) -> None:
        """Closes the connection without logging a reason, when the server stops."""
        self._is_closed = True
        assert self._transport is not None
        if self._is_gone:
            self._let_go()
        else:
            self._transport.abort()

    def _log_closing(self, reason: str, closing: CloseReason) -> None:
        if not self._is_closed:
            self.closing = closing
            log.warning("closed peer=%s node=%s why=%r", self.peer, self.node_id, reason)

    def _accept_chunk(self, chunk: bytes) -> bool:
        """Takes a chunk in; returns whether it must be decided now, and not in a scheduled round or never."""
        if self._is_closed or self._splitter.error:
            return False
        self._feed(chunk)
        if self._is_decide_scheduled:
            self._update_backpressure()
            return False
        return True

    def _feed(self, chunk: bytes) -> None:
        """Splits received bytes into frames."""
        self._unread_bytes += len(chunk)
        frames = self._splitter.feed(chunk)
        self._has_partial_frame = self._splitter.has_partial
        self._frames += frames
        if len(frames) == 1:
            self.client.consecutive_singles += 1
        elif frames:
            self.client.saw_pipelining()

    def _schedule_decide(self) -> None:
        self._is_decide_scheduled = True
        self._host.schedule_decide(self._on_decide)

    def _on_decide(self, at: Instant) -> None:
        self._is_decide_scheduled = False
        if not self._is_closed:
            self._decide_frames([], at)

    def _decide_now(self, pieces: list[bytes]) -> None:
        """Decides outside of an event round. If one is scheduled for this connection, the frames wait for it."""
        at = self._host.now()
        if not self._is_decide_scheduled:
            self._decide_frames(pieces, at)
        else:
            self.last_active = at.now
            self._queue_response(pieces, size_of(pieces))
            self._update_backpressure()
        self._host.drain_parked()

    def _decide_frames(self, pieces: list[bytes], at: Instant) -> None:
        """Decides received frames until none is left, one is parked, or the round's limit is reached.

        The given pieces are sent before the responses.
        """
        self.last_active = at.now
        frames, requests, size = self._frames, 0, size_of(pieces)
        while frames and self.ticket is None and not self._is_write_paused and not self._is_closed:
            if requests == _MAX_ROUND_REQUESTS or size > _MAX_ROUND_BYTES:
                self._schedule_decide()
                break
            frame = frames.popleft()
            requests += 1
            self._unread_bytes -= LENGTH_BYTES + len(frame)
            try:
                outcome = self._host.decide(self, frame, at)
            except Exception as error:
                outcome = self._fault(error)
            if type(outcome) is Answer:
                for piece in outcome.pieces:
                    pieces.append(piece)
                    size += len(piece)
            elif type(outcome) is Park:
                self.ticket = outcome.ticket
                self._parked_bytes = len(frame) + outcome.held_bytes
                self._host.park(self, outcome)
            else:
                assert type(outcome) is HangUp
                if not self._is_gone:
                    self._outgoing += pieces
                pieces, size = [], 0
                self.refuse(outcome.reason, closing=outcome.closing)
        if pieces:
            self._queue_response(pieces, size)
        if frames or self._has_partial_frame or self.held_bytes or self._is_write_paused:
            self._update_backpressure()
        elif self.ticket is not None:
            self._adjust_held(self._parked_bytes)
        if self._has_ended:
            self._end_if_done()

    def _end_if_done(self) -> None:
        """Closes the connection of a client that sent EOF, once none of its requests is left to be decided."""
        if self._is_closed or self._has_more():
            return
        self._host.flush()
        self._send()
        self._close_transport()

    def _has_more(self) -> bool:
        """Whether something is left to be decided: whole requests, or the rest of one that is decided in slices."""
        return bool(self._frames) or self._host.is_in_slices(self.ticket)

    def _close_transport(self) -> None:
        """Close it when what was written is sent."""
        self._is_closed = True
        assert self._transport is not None
        if self._is_gone:
            self._let_go()
        else:
            self._transport.close()

    def _let_go(self) -> None:
        """Nothing more is to be done for this client."""
        self._is_closed = True
        self._frames.clear()
        self._outgoing.clear()
        self._unread_bytes = self._parked_bytes = 0
        self._adjust_held(-self.held_bytes)
        self._host.on_closed(self)

    def _update_backpressure(self) -> None:
        """Updates the held bytes, pauses or resumes reading, and ends a broken stream once its frames are done."""
        if self._splitter.error and not self._frames and self.ticket is None:
            self.refuse(str(self._splitter.error), closing=CloseReason.MALFORMED)
        self._adjust_held(self._bytes_in_flight() - self.held_bytes)
        if self._frames or self._is_read_paused:
            self._pause_or_resume()

    def _bytes_in_flight(self) -> int:
        """Returns the bytes held for this client: pending requests, a partial one, and responses that it does not
        read."""
        held = self._parked_bytes + self._unread_bytes
        if self._is_write_paused:
            assert self._transport is not None
            held += self._transport.get_write_buffer_size()
        return held

    def _fault(self, error: Exception) -> HangUp:
        """Returns how to hang up after a request that could not be decided."""
        if isinstance(error, CorruptMessage):
            return HangUp(reason=f"a malformed request: {error}", closing=CloseReason.MALFORMED)
        if isinstance(error, UnsupportedRequest):
            return HangUp(reason=str(error), closing=CloseReason.UNSERVED)
        log.error("bug peer=%s node=%s: a request could not be answered", self.peer, self.node_id, exc_info=error)
        return HangUp(reason="a fault of the server", closing=CloseReason.FAULT)

    def _refuse_fault(self, error: Exception) -> None:
        fault = self._fault(error)
        self.refuse(fault.reason, closing=fault.closing)

    def _queue_response(self, pieces: list[bytes], size: int) -> None:
        """Queues responses for the end of the round; large ones are sent at once, together with those before them."""
        if self._is_gone:
            return
        is_first = not self._outgoing
        if is_first:
            self._outgoing = pieces
        else:
            self._outgoing += pieces
        if size > LARGE_BYTES:
            self._host.flush()
            self._send()
        elif is_first:
            self._host.schedule_send(self._send)

    def _send(self) -> None:
        outgoing = self._outgoing
        if outgoing and not self._is_closed:
            assert self._transport is not None
            self._outgoing = []
            self._transport.writelines(outgoing)

    def _adjust_held(self, change: int) -> None:
        self.held_bytes += change
        if change:
            self._host.adjust_held(change)

    def _pause_or_resume(self) -> None:
        if self._is_closed or self._has_ended:
            return
        assert self._transport is not None
        is_behind = bool(self._frames) and self.held_bytes > _READ_AHEAD_BYTES
        if is_behind and not self._is_read_paused:
            self._transport.pause_reading()
        elif self._is_read_paused and not is_behind:
            self._transport.resume_reading()
        self._is_read_paused = is_behind


def size_of(pieces: list[bytes]) -> int:
    """Returns the sum of the sizes of these pieces of a frame, in bytes."""
    if not pieces:
        return 0
    return len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
