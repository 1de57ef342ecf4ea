"""A client's connection: forwards its requests to a broker as they arrive, except those that interceptors must see.

The unfinished part of a received chunk is one of these:

    _bytes_remaining  how many bytes are still to come of a frame that is being forwarded
    _buffered         buffered bytes: the beginning of a frame that must be seen whole, or everything received after a
                      request that is being handled here, which nothing may overtake

Backpressure: the client is not read from while `_pause_reasons` has any bit set.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, assert_never, cast

from kcoord.protocol.frames import about_length, framed
from kcoord.protocol.varint import BadVarint
from kcoord.proxy.brokers.broker_connections import keep_alive
from kcoord.proxy.connection_host import Owner
from kcoord.proxy.forwarding.client_gone import ClientGone
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.proxy.forwarding.interceptor_chain import Unanswerable, amended_pieces, begin, judge, show_response
from kcoord.proxy.forwarding.interceptors import Answer, Pass, Request, Take
from kcoord.proxy.forwarding.routes import START, Awaited, Route, asks_for_answer
from kcoord.proxy.forwarding.upstream_connection import UpstreamSide
from kcoord.server.log_text import node_word

log = logging.getLogger("kcoord.proxy")

UNSENT_BYTES: Final = 1 << 19
"""How many bytes may wait to be sent to one side before reading from the other side is paused."""
_SHORTEST: Final = 8
_MORE: Final = 1 << 10
_MOST_AWAITED: Final = 10_000
_MALFORMED_PRODUCE: Final = "a malformed Produce request"

_FULL, _CONNECTING, _TAKEN, _UNREAD, _AHEAD = 1, 2, 4, 8, 16


class ClientSide(asyncio.Protocol):
    """The downstream half of one client; an `interceptors.ClientInfo`."""

    def __init__(self, owner: Owner, node_id: int | None) -> None:
        self.node_id = node_id
        self.peer = self.host = ""
        self.principal: str | None = None
        self.first_choice: Place | None = None  # which broker to try first if the client means any
        self.idle_sweeps = 0
        self.is_waiting = False  # when an answer has been sent: local answers or the paused client wait for it
        self.awaited: deque[Awaited] = deque()
        self.upstream: UpstreamSide | None = None
        self.passed_bytes = 0
        self._owner = owner
        self._routes = owner.routes
        self._write: Callable[[bytes | memoryview], None] = self._wait_for_broker
        self._waiting: list[bytes | memoryview] = []
        self._waiting_bytes = 0
        self._left = 0
        self._rest = bytearray()
        self._needed = 0
        self._last_seen = b""
        self._is_amidst = False
        self._is_working = False
        self._is_taken = False
        self._has_ended = False  # the client sends no more; the connection stays until its requests are decided
        self._is_served_here = False  # an interceptor has handled at least one request
        self._ours = 0  # how many pending requests are answered here and not yet begun
        self.is_closed = False
        self._holds = 0
        self._is_paused = False
        self._transport: asyncio.Transport | None = None

    @property
    def client_id(self) -> str:
        """The client id in the last request that was seen whole."""
        length = int.from_bytes(self._last_seen[8:10], signed=True)
        return self._last_seen[10 : 10 + max(length, 0)].decode(errors="replace")

    @property
    def held_bytes(self) -> int:
        return len(self._rest) + self._waiting_bytes + (self.upstream.held_bytes if self.upstream else 0)

    @property
    def is_idle(self) -> bool:
        """Whether the connection may be closed as idle: no answer is pending, or reading from it is paused because the
        broker does not keep up, so that a disconnect would go unnoticed."""
        return self.is_closed or not self.awaited or bool(self._holds & (_FULL | _AHEAD))

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES)
        keep_alive(transport)
        peername = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        if reason := self._owner.admit(self):
            self.refuse(reason)

    def data_received(self, chunk: bytes) -> None:
        self.idle_sweeps = 0
        size = len(chunk)
        self.passed_bytes += size
        if not self._is_amidst and size >= START.size:
            length, kind, correlation_id = START.unpack_from(chunk)
            if (  # exactly one frame, the common case
                length == size - 4 and length <= self._owner.max_frame_bytes and len(self.awaited) <= _MOST_AWAITED
            ):
                route = self._routes[kind]
                if route.passes:
                    self.awaited.append(Awaited(correlation_id, route, perf_counter()))
                    self._write(chunk)
                    return
                if route.is_plain_produce and self._expect(route, correlation_id, chunk, START.size, size):
                    self._write(chunk)
                    return
                if route.is_only_watched:
                    request = self._seen(route, correlation_id, chunk[4:])
                    self.awaited.append(Awaited(correlation_id, route, perf_counter(), request))
                    self._write(chunk)
                    return
                screen = route.screen
                if (
                    screen is not None
                    and not screen(chunk)
                    and self._expect(route, correlation_id, chunk, START.size, size)
                ):
                    self._write(chunk)
                    return
        if not self.is_closed:
            self._receive(chunk)

    def eof_received(self) -> bool:
        """Keeps the connection open, as a broker does, until the requests behind a handled one are decided.

        The broker's remaining answers to other requests are dropped: nobody would receive them. Over TLS a transport
        closes in any case, and `connection_lost` is called.
        """
        is_plain = self.transport.get_extra_info("ssl_object") is None
        self._has_ended = is_plain and not self.is_closed and self._has_more()
        return self._has_ended

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_closed or self._holds & _UNREAD or not self._has_more():
            self._let_go()
            return
        self._has_ended = True
        self._transport = ClientGone(self._let_go)
        if self.upstream:
            self.upstream.answer_to(self._transport)

    def _has_more(self) -> bool:
        """Returns whether a handled request has not begun, or bytes have come behind it."""
        return self._is_taken and (self._ours > 0 or len(self._rest) > 0)

    def _let_go(self) -> None:
        """Still sends what the client sent, even if the broker is not connected yet: it may want no answers."""
        self.is_closed = True
        self._rest.clear()
        self.awaited.clear()
        if self.upstream:
            self.upstream.close()
        self._owner.held(self)
        self._owner.gone(self)

    def pause_writing(self) -> None:
        """Stops reading from both sides: the client does not read its answers."""
        self._hold(_UNREAD)
        if self.upstream:
            self.upstream.pause()

    def resume_writing(self) -> None:
        if self.upstream:
            self.upstream.resume()
        self._release(_UNREAD)

    # Called by the upstream connection.

    def connected(self, upstream: UpstreamSide) -> None:
        """Attaches the connection to a broker and sends what was buffered for it."""
        if self.upstream:
            upstream.passed_bytes = self.upstream.passed_bytes
        self.upstream = upstream
        upstream.answer_to(self.transport)
        self._write = upstream.transport.write
        if self._waiting:
            upstream.transport.writelines(self._waiting)
            self._waiting, self._waiting_bytes = [], 0
            self._owner.held(self)
        if self.is_closed:
            upstream.close()
            return
        if self._holds & _UNREAD:
            upstream.pause()
        self._release(_CONNECTING)

    def upstream_is_gone(self) -> None:
        """Closes the client, except one whose requests are handled here and that awaits nothing from the broker.

        Brokers close connections after connections.max.idle.ms, and a member of a locally coordinated group may not use
        its upstream connection for longer than that. A new one is made with the next request that needs it.
        """
        is_awaited = len(self.awaited) > self._is_taken or self._left > 0
        if self.is_closed or is_awaited or not self._is_served_here:
            self.close()
        else:
            self._write = self._wait_for_broker

    def upstream_is_full(self) -> None:
        self._hold(_FULL)

    def upstream_is_free(self) -> None:
        self._release(_FULL)

    def settle(self) -> None:
        """Sends local answers, and begins the request to be handled, once all requests before them have answers."""
        while self.awaited and self.awaited[0].is_ours:
            head = self.awaited[0]
            self._ours -= 1
            if head.take:
                self.awaited[0] = head._replace(take=None, is_ours=False)  # so that it begins only once
                try:
                    begin(self, head.take)
                except Unanswerable as reason:
                    self.hang_up(str(reason))
                break
            self.awaited.popleft()
            if head.pieces:
                self.transport.writelines(head.pieces)
        if self._holds & _AHEAD and len(self.awaited) < _MOST_AWAITED:
            self._release(_AHEAD)
        self.is_waiting = self._ours > 0 or bool(self._holds & _AHEAD)

    def held(self) -> None:
        """Called when the upstream connection buffers another number of bytes."""
        self._owner.held(self)

    # interceptors.ClientInfo

    def answer(self, pieces: list[bytes]) -> None:
        if self.is_closed:
            return
        assert self._is_taken, "nothing was taken"
        taken = self.awaited.popleft()
        assert not self.awaited, "nothing overtakes what was taken"
        self._owner.meter.answered(taken.route.api_key, taken.route.api_version, perf_counter() - taken.started)
        if pieces and taken.route.watchers:
            show_response(self, taken.route, taken.request, b"".join(pieces)[4:])
        if pieces:
            self.transport.writelines(amended_pieces(taken.amended, pieces))
        self._is_taken = False
        self._release(_TAKEN)  # reading was paused, unless this answer came at once
        if self._has_ended and not self._is_taken and not self._is_working:
            self.transport.close()

    def refuse(self, reason: str) -> None:
        """Aborts the connection of a client that is not admitted, and logs the reason in one line."""
        self.is_closed = True
        log.warning("refused peer=%s node=%s why=%r", self.peer, node_word(self.node_id), reason)
        self.transport.abort()

    def hang_up(self, reason: str) -> None:
        """Closes the connection once pending output has been sent, and logs the reason in one line."""
        if self.is_closed:
            return
        self.is_closed = True
        self._owner.meter.broken(reason)
        log.warning("closed peer=%s node=%s why=%r", self.peer, node_word(self.node_id), reason)
        self.transport.close()

    def close(self) -> None:
        """Closes the connection because the upstream side has closed; logs nothing."""
        self.is_closed = True
        self.drop()
        self.transport.close()

    def drop(self) -> None:
        """Discards buffered bytes: unforwarded requests and the beginning of a buffered answer."""
        self._rest.clear()
        if self.upstream:
            self.upstream.drop()
        self._waiting, self._waiting_bytes = [], 0
        self._owner.held(self)

    def abort(self) -> None:
        self.is_closed = True
        self.transport.abort()

    # Requests.

    def _receive(self, chunk: bytes) -> None:
        if self._rest or self._is_taken:
            self._rest += chunk
            self._owner.held(self)
        else:
            self._work(chunk)
            return
        if not self._is_taken and len(self._rest) >= self._needed:
            self._work_on_rest()

    def _work_on_rest(self) -> None:
        chunk = bytes(self._rest)
        self._rest.clear()
        self._work(chunk)
        self._owner.held(self)

    def _work(self, chunk: bytes) -> None:
        """Processes the frames of a chunk: runs of forwarded frames are written together, others one by one."""
        self._is_working = True
        start, position, end = 0, self._left, len(chunk)
        self._left = self._needed = 0
        while position < end and not self._is_taken and not self.is_closed:
            if end - position < START.size:
                self._needed = START.size
                break
            length, kind, correlation_id = START.unpack_from(chunk, position)
            route = self._routes[kind]
            if reason := self._why_not(length, route):
                self.hang_up(reason)
                break
            close = position + 4 + length
            if route.is_seen_whole:
                if close > end:
                    self._needed = 4 + length
                    break
                frame = chunk[position + 4 : close]
                passing = self._show(route, correlation_id, frame)
                if passing is not frame:
                    self._pass(chunk, start, position)
                    start = close
                    if passing is not None:
                        self._write(framed([passing]))
            elif not self._expect(route, correlation_id, chunk, position + START.size, min(close, end)):
                self._want_more(end - position, of=4 + length)
                break
            position = close
        self._is_working = False
        self._pass(chunk, start, min(position, end))
        if position > end:
            self._left = position - end
        elif position < end and not self.is_closed:
            self._rest += memoryview(chunk)[position:]
        self._is_amidst = self._left > 0 or position < end or self._is_taken
        if len(self.awaited) > _MOST_AWAITED:
            self.is_waiting = True
            self._hold(_AHEAD)

    def _why_not(self, length: int, route: Route) -> str | None:
        if not _SHORTEST <= length <= self._owner.max_frame_bytes:
            return about_length(length, _SHORTEST, self._owner.max_frame_bytes)
        if route.is_refused:
            return f"version {route.api_version} of API key {route.api_key} is not passed on"
        return None

    def _expect(self, route: Route, correlation_id: int, buffer: bytes, position: int, end: int) -> bool:
        """Records that a forwarded request awaits an answer; False if more bytes are needed to know whether it does."""
        if route.is_produce:
            is_answered = self._is_answered(route, buffer, position, end)
            if not is_answered:
                if is_answered is not None:
                    self._owner.meter.answered(route.api_key, route.api_version, 0.0)
                return is_answered is not None
        self.awaited.append(Awaited(correlation_id, route, perf_counter()))
        return True

    def _is_answered(self, route: Route, buffer: bytes, position: int, end: int) -> bool | None:
        """Returns `routes.wants_answer`; for an unreadable request it hangs up and returns None."""
        try:
            return asks_for_answer(buffer, position, end, route.api_version)
        except BadVarint:
            self.hang_up(_MALFORMED_PRODUCE)
            return None

    def _want_more(self, come: int, *, of: int) -> None:
        """Waits for more of a Produce request: the bytes received do not show yet whether it wants an answer."""
        if come >= of:
            self.hang_up(_MALFORMED_PRODUCE)
        self._needed = min(of, 2 * come + _MORE)

    def _show(self, route: Route, correlation_id: int, frame: bytes) -> bytes | None:
        """Runs the interceptors; returns the frame to forward (the request, or its replacement), or None."""
        request = self._seen(route, correlation_id, frame)
        started = perf_counter()
        try:
            decision, request, amended = judge(self, route, request)
        except Unanswerable as reason:
            self.hang_up(str(reason))
            return None
        awaited = Awaited(
            correlation_id, route.with_whole_answer() if amended else route, started, request, amended=amended
        )
        match decision:
            case Answer(pieces):
                self._owner.meter.refused(route.api_key, route.api_version)
                self._answer_here(awaited._replace(is_ours=True, pieces=amended_pieces(amended, pieces)))
                return None
            case Take():
                self._is_taken = self._is_served_here = True
                self._answer_here(awaited._replace(is_ours=True, take=decision))
                if self._is_taken:
                    self._hold(_TAKEN)
                return None
            case Pass():
                if route.is_produce and not self._is_answered(route, frame, START.size - 4, len(frame)):
                    self._owner.meter.answered(route.api_key, route.api_version, 0.0)
                else:
                    self.awaited.append(awaited)
                return None if self.is_closed else request.frame
            case _:
                assert_never(decision)

    def _seen(self, route: Route, correlation_id: int, frame: bytes) -> Request:
        self._last_seen = frame
        return Request(frame=frame, api_key=route.api_key, api_version=route.api_version, correlation_id=correlation_id)

    def _answer_here(self, awaited: Awaited) -> None:
        self.awaited.append(awaited)
        self._ours += 1
        self.is_waiting = True
        if len(self.awaited) == 1:
            self.settle()

    def _pass(self, chunk: bytes, start: int, end: int) -> None:
        if start == 0 and end == len(chunk):
            self._write(chunk)
        elif end > start:
            self._write(memoryview(chunk)[start:end])

    def _wait_for_broker(self, chunk: bytes | memoryview) -> None:
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        self._owner.held(self)
        if self._waiting_bytes > UNSENT_BYTES:
            self._hold(_CONNECTING)
        if len(self._waiting) == 1:
            self._owner.connect(self)

    # Backpressure

    def _hold(self, reason: int) -> None:
        self._holds |= reason
        if not self._is_paused and not self.is_closed and not self._has_ended:
            self._is_paused = True
            self.transport.pause_reading()

    def _release(self, reason: int) -> None:
        if not self._holds & reason:
            return
        self._holds &= ~reason
        if self.is_closed:
            return
        if not self._is_taken and not self._is_working and self._rest and len(self._rest) >= self._needed:
            self._work_on_rest()
        if not self._holds and self._is_paused and not self._has_ended:
            self._is_paused = False
            self.transport.resume_reading()
