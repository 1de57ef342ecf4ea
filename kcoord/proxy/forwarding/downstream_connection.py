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

from kcoord.protocol.frames import explain_bad_length, framed
from kcoord.protocol.varint import BadVarint
from kcoord.proxy.brokers.broker_connections import keep_alive
from kcoord.proxy.connection_host import ConnectionHost
from kcoord.proxy.forwarding.client_gone import ClientGone
from kcoord.proxy.forwarding.endpoints import Endpoint
from kcoord.proxy.forwarding.interceptor_chain import (
    Unanswerable,
    intercept,
    notify_observers,
    start_handling,
    transformed_pieces,
)
from kcoord.proxy.forwarding.interceptors import Answer, Handle, Pass, Request
from kcoord.proxy.forwarding.routes import START, PendingRequest, Route, wants_answer
from kcoord.proxy.forwarding.upstream_connection import UpstreamConnection
from kcoord.server.log_text import format_node

log = logging.getLogger("kcoord.proxy")

UNSENT_BYTES: Final = 1 << 19
"""How many bytes may wait to be sent to one side before reading from the other side is paused."""
_MIN_FRAME_BYTES: Final = 8
_MIN_MORE_BYTES: Final = 1 << 10
_MAX_PENDING: Final = 10_000
_MALFORMED_PRODUCE: Final = "a malformed Produce request"

_UPSTREAM_FULL, _CONNECTING, _HANDLING, _CLIENT_FULL, _TOO_MANY_PENDING = 1, 2, 4, 8, 16


class DownstreamConnection(asyncio.Protocol):
    """The downstream half of one client; an `interceptors.ClientInfo`."""

    def __init__(self, proxy: ConnectionHost, node_id: int | None) -> None:
        self.node_id = node_id
        self.peer = self.host = ""
        self.principal: str | None = None
        self.preferred_endpoint: Endpoint | None = None  # which broker to try first if the client means any
        self.idle_sweeps = 0
        self.needs_flush = False  # when an answer has been sent: local answers or the paused client wait for it
        self.pending: deque[PendingRequest] = deque()
        self.upstream: UpstreamConnection | None = None
        self.forwarded_bytes = 0
        self._proxy = proxy
        self._routes = proxy.routes
        self._write: Callable[[bytes | memoryview], None] = self._buffer_until_connected
        self._unsent: list[bytes | memoryview] = []
        self._unsent_bytes = 0
        self._bytes_remaining = 0
        self._buffered = bytearray()
        self._bytes_needed = 0
        self._last_whole_request = b""
        self._is_mid_frame = False
        self._is_processing = False
        self._is_handling = False
        self._has_ended = False  # the client sends no more; the connection stays until its requests are decided
        self._was_handled_here = False  # an interceptor has handled at least one request
        self._local_pending = 0  # how many pending requests are answered here and not yet begun
        self.is_closed = False
        self._pause_reasons = 0
        self._is_paused = False
        self._transport: asyncio.Transport | None = None

    @property
    def client_id(self) -> str:
        """The client id in the last request that was seen whole."""
        length = int.from_bytes(self._last_whole_request[8:10], signed=True)
        return self._last_whole_request[10 : 10 + max(length, 0)].decode(errors="replace")

    @property
    def held_bytes(self) -> int:
        return len(self._buffered) + self._unsent_bytes + (self.upstream.held_bytes if self.upstream else 0)

    @property
    def is_idle(self) -> bool:
        """Whether the connection may be closed as idle: no answer is pending, or reading from it is paused because the
        broker does not keep up, so that a disconnect would go unnoticed."""
        return self.is_closed or not self.pending or bool(self._pause_reasons & (_UPSTREAM_FULL | _TOO_MANY_PENDING))

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
        if reason := self._proxy.admit(self):
            self.refuse(reason)

    def data_received(self, chunk: bytes) -> None:
        self.idle_sweeps = 0
        size = len(chunk)
        self.forwarded_bytes += size
        if not self._is_mid_frame and size >= START.size:
            length, kind, correlation_id = START.unpack_from(chunk)
            if (  # exactly one frame, the common case
                length == size - 4 and length <= self._proxy.max_frame_bytes and len(self.pending) <= _MAX_PENDING
            ):
                route = self._routes[kind]
                if route.passes:
                    self.pending.append(PendingRequest(correlation_id, route, perf_counter()))
                    self._write(chunk)
                    return
                if route.is_forwarded_produce and self._expect_answer(route, correlation_id, chunk, START.size, size):
                    self._write(chunk)
                    return
                if route.is_only_observed:
                    request = self._whole_request(route, correlation_id, chunk[4:])
                    self.pending.append(PendingRequest(correlation_id, route, perf_counter(), request))
                    self._write(chunk)
                    return
                screen = route.prefilter
                if (
                    screen is not None
                    and not screen(chunk)
                    and self._expect_answer(route, correlation_id, chunk, START.size, size)
                ):
                    self._write(chunk)
                    return
        if not self.is_closed:
            self._on_chunk(chunk)

    def eof_received(self) -> bool:
        """Keeps the connection open, as a broker does, until the requests behind a handled one are decided.

        The broker's remaining answers to other requests are dropped: nobody would receive them. Over TLS a transport
        closes in any case, and `connection_lost` is called.
        """
        is_plain = self.transport.get_extra_info("ssl_object") is None
        self._has_ended = is_plain and not self.is_closed and self._has_more()
        return self._has_ended

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_closed or self._pause_reasons & _CLIENT_FULL or not self._has_more():
            self._let_go()
            return
        self._has_ended = True
        self._transport = ClientGone(self._let_go)
        if self.upstream:
            self.upstream.answer_to(self._transport)

    def _has_more(self) -> bool:
        """Returns whether a handled request has not begun, or bytes have come behind it."""
        return self._is_handling and (self._local_pending > 0 or len(self._buffered) > 0)

    def _let_go(self) -> None:
        """Still sends what the client sent, even if the broker is not connected yet: it may want no answers."""
        self.is_closed = True
        self._buffered.clear()
        self.pending.clear()
        if self.upstream:
            self.upstream.close()
        self._proxy.held_bytes_changed(self)
        self._proxy.on_closed(self)

    def pause_writing(self) -> None:
        """Stops reading from both sides: the client does not read its answers."""
        self._pause_for(_CLIENT_FULL)
        if self.upstream:
            self.upstream.pause()

    def resume_writing(self) -> None:
        if self.upstream:
            self.upstream.resume()
        self._resume_after(_CLIENT_FULL)

    # Called by the upstream connection.

    def on_upstream_connected(self, upstream: UpstreamConnection) -> None:
        """Attaches the connection to a broker and sends what was buffered for it."""
        if self.upstream:
            upstream.forwarded_bytes = self.upstream.forwarded_bytes
        self.upstream = upstream
        upstream.answer_to(self.transport)
        self._write = upstream.transport.write
        if self._unsent:
            upstream.transport.writelines(self._unsent)
            self._unsent, self._unsent_bytes = [], 0
            self._proxy.held_bytes_changed(self)
        if self.is_closed:
            upstream.close()
            return
        if self._pause_reasons & _CLIENT_FULL:
            upstream.pause()
        self._resume_after(_CONNECTING)

    def on_upstream_closed(self) -> None:
        """Closes the client, except one whose requests are handled here and that awaits nothing from the broker.

        Brokers close connections after connections.max.idle.ms, and a member of a locally coordinated group may not use
        its upstream connection for longer than that. A new one is made with the next request that needs it.
        """
        is_pending = len(self.pending) > self._is_handling or self._bytes_remaining > 0
        if self.is_closed or is_pending or not self._was_handled_here:
            self.close()
        else:
            self._write = self._buffer_until_connected

    def on_upstream_full(self) -> None:
        self._pause_for(_UPSTREAM_FULL)

    def on_upstream_writable(self) -> None:
        self._resume_after(_UPSTREAM_FULL)

    def flush_local_answers(self) -> None:
        """Sends local answers, and begins the request to be handled, once all requests before them have answers."""
        while self.pending and self.pending[0].is_local:
            head = self.pending[0]
            self._local_pending -= 1
            if head.handle:
                self.pending[0] = head._replace(handle=None, is_local=False)  # so that it begins only once
                try:
                    start_handling(self, head.handle)
                except Unanswerable as reason:
                    self.hang_up(str(reason))
                break
            self.pending.popleft()
            if head.pieces:
                self.transport.writelines(head.pieces)
        if self._pause_reasons & _TOO_MANY_PENDING and len(self.pending) < _MAX_PENDING:
            self._resume_after(_TOO_MANY_PENDING)
        self.needs_flush = self._local_pending > 0 or bool(self._pause_reasons & _TOO_MANY_PENDING)

    def held_bytes_changed(self) -> None:
        """Called when the upstream connection buffers another number of bytes."""
        self._proxy.held_bytes_changed(self)

    # interceptors.ClientInfo

    def answer(self, pieces: list[bytes]) -> None:
        if self.is_closed:
            return
        assert self._is_handling, "nothing was taken"
        handled = self.pending.popleft()
        assert not self.pending, "nothing overtakes what was taken"
        self._proxy.metrics.answered(handled.route.api_key, handled.route.api_version, perf_counter() - handled.started)
        if pieces and handled.route.observers:
            notify_observers(self, handled.route, handled.request, b"".join(pieces)[4:])
        if pieces:
            self.transport.writelines(transformed_pieces(handled.transform, pieces))
        self._is_handling = False
        self._resume_after(_HANDLING)  # reading was paused, unless this answer came at once
        if self._has_ended and not self._is_handling and not self._is_processing:
            self.transport.close()

    def refuse(self, reason: str) -> None:
        """Aborts the connection of a client that is not admitted, and logs the reason in one line."""
        self.is_closed = True
        log.warning("refused peer=%s node=%s why=%r", self.peer, format_node(self.node_id), reason)
        self.transport.abort()

    def hang_up(self, reason: str) -> None:
        """Closes the connection once pending output has been sent, and logs the reason in one line."""
        if self.is_closed:
            return
        self.is_closed = True
        self._proxy.metrics.hung_up(reason)
        log.warning("closed peer=%s node=%s why=%r", self.peer, format_node(self.node_id), reason)
        self.transport.close()

    def close(self) -> None:
        """Closes the connection because the upstream side has closed; logs nothing."""
        self.is_closed = True
        self.drop_buffers()
        self.transport.close()

    def drop_buffers(self) -> None:
        """Discards buffered bytes: unforwarded requests and the beginning of a buffered answer."""
        self._buffered.clear()
        if self.upstream:
            self.upstream.drop_buffers()
        self._unsent, self._unsent_bytes = [], 0
        self._proxy.held_bytes_changed(self)

    def abort(self) -> None:
        self.is_closed = True
        self.transport.abort()

    # Requests.

    def _on_chunk(self, chunk: bytes) -> None:
        if self._buffered or self._is_handling:
            self._buffered += chunk
            self._proxy.held_bytes_changed(self)
        else:
            self._process(chunk)
            return
        if not self._is_handling and len(self._buffered) >= self._bytes_needed:
            self._process_buffered()

    def _process_buffered(self) -> None:
        chunk = bytes(self._buffered)
        self._buffered.clear()
        self._process(chunk)
        self._proxy.held_bytes_changed(self)

    def _process(self, chunk: bytes) -> None:
        """Processes the frames of a chunk: runs of forwarded frames are written together, others one by one."""
        self._is_processing = True
        start, position, end = 0, self._bytes_remaining, len(chunk)
        self._bytes_remaining = self._bytes_needed = 0
        while position < end and not self._is_handling and not self.is_closed:
            if end - position < START.size:
                self._bytes_needed = START.size
                break
            length, kind, correlation_id = START.unpack_from(chunk, position)
            route = self._routes[kind]
            if reason := self._why_invalid(length, route):
                self.hang_up(reason)
                break
            close = position + 4 + length
            if route.is_seen_whole:
                if close > end:
                    self._bytes_needed = 4 + length
                    break
                frame = chunk[position + 4 : close]
                forwarded = self._intercept(route, correlation_id, frame)
                if forwarded is not frame:
                    self._forward(chunk, start, position)
                    start = close
                    if forwarded is not None:
                        self._write(framed([forwarded]))
            elif not self._expect_answer(route, correlation_id, chunk, position + START.size, min(close, end)):
                self._need_more(end - position, of=4 + length)
                break
            position = close
        self._is_processing = False
        self._forward(chunk, start, min(position, end))
        if position > end:
            self._bytes_remaining = position - end
        elif position < end and not self.is_closed:
            self._buffered += memoryview(chunk)[position:]
        self._is_mid_frame = self._bytes_remaining > 0 or position < end or self._is_handling
        if len(self.pending) > _MAX_PENDING:
            self.needs_flush = True
            self._pause_for(_TOO_MANY_PENDING)

    def _why_invalid(self, length: int, route: Route) -> str | None:
        if not _MIN_FRAME_BYTES <= length <= self._proxy.max_frame_bytes:
            return explain_bad_length(length, _MIN_FRAME_BYTES, self._proxy.max_frame_bytes)
        if route.is_refused:
            return f"version {route.api_version} of API key {route.api_key} is not passed on"
        return None

    def _expect_answer(self, route: Route, correlation_id: int, buffer: bytes, position: int, end: int) -> bool:
        """Records that a forwarded request awaits an answer; False if more bytes are needed to know whether it does."""
        if route.is_produce:
            wants_answer = self._wants_answer(route, buffer, position, end)
            if not wants_answer:
                if wants_answer is not None:
                    self._proxy.metrics.answered(route.api_key, route.api_version, 0.0)
                return wants_answer is not None
        self.pending.append(PendingRequest(correlation_id, route, perf_counter()))
        return True

    def _wants_answer(self, route: Route, buffer: bytes, position: int, end: int) -> bool | None:
        """Returns `routes.wants_answer`; for an unreadable request it hangs up and returns None."""
        try:
            return wants_answer(buffer, position, end, route.api_version)
        except BadVarint:
            self.hang_up(_MALFORMED_PRODUCE)
            return None

    def _need_more(self, received: int, *, of: int) -> None:
        """Waits for more of a Produce request: the bytes received do not show yet whether it wants an answer."""
        if received >= of:
            self.hang_up(_MALFORMED_PRODUCE)
        self._bytes_needed = min(of, 2 * received + _MIN_MORE_BYTES)

    def _intercept(self, route: Route, correlation_id: int, frame: bytes) -> bytes | None:
        """Runs the interceptors; returns the frame to forward (the request, or its replacement), or None."""
        request = self._whole_request(route, correlation_id, frame)
        started = perf_counter()
        try:
            decision, request, transform = intercept(self, route, request)
        except Unanswerable as reason:
            self.hang_up(str(reason))
            return None
        pending_request = PendingRequest(
            correlation_id, route.with_whole_answer() if transform else route, started, request, transform=transform
        )
        match decision:
            case Answer(pieces):
                self._proxy.metrics.refused(route.api_key, route.api_version)
                self._answer_locally(
                    pending_request._replace(is_local=True, pieces=transformed_pieces(transform, pieces))
                )
                return None
            case Handle():
                self._is_handling = self._was_handled_here = True
                self._answer_locally(pending_request._replace(is_local=True, handle=decision))
                if self._is_handling:
                    self._pause_for(_HANDLING)
                return None
            case Pass():
                if route.is_produce and not self._wants_answer(route, frame, START.size - 4, len(frame)):
                    self._proxy.metrics.answered(route.api_key, route.api_version, 0.0)
                else:
                    self.pending.append(pending_request)
                return None if self.is_closed else request.frame
            case _:
                assert_never(decision)

    def _whole_request(self, route: Route, correlation_id: int, frame: bytes) -> Request:
        self._last_whole_request = frame
        return Request(frame=frame, api_key=route.api_key, api_version=route.api_version, correlation_id=correlation_id)

    def _answer_locally(self, pending_request: PendingRequest) -> None:
        self.pending.append(pending_request)
        self._local_pending += 1
        self.needs_flush = True
        if len(self.pending) == 1:
            self.flush_local_answers()

    def _forward(self, chunk: bytes, start: int, end: int) -> None:
        if start == 0 and end == len(chunk):
            self._write(chunk)
        elif end > start:
            self._write(memoryview(chunk)[start:end])

    def _buffer_until_connected(self, chunk: bytes | memoryview) -> None:
        self._unsent.append(chunk)
        self._unsent_bytes += len(chunk)
        self._proxy.held_bytes_changed(self)
        if self._unsent_bytes > UNSENT_BYTES:
            self._pause_for(_CONNECTING)
        if len(self._unsent) == 1:
            self._proxy.connect(self)

    # Backpressure

    def _pause_for(self, reason: int) -> None:
        self._pause_reasons |= reason
        if not self._is_paused and not self.is_closed and not self._has_ended:
            self._is_paused = True
            self.transport.pause_reading()

    def _resume_after(self, reason: int) -> None:
        if not self._pause_reasons & reason:
            return
        self._pause_reasons &= ~reason
        if self.is_closed:
            return
        if (
            not self._is_handling
            and not self._is_processing
            and self._buffered
            and len(self._buffered) >= self._bytes_needed
        ):
            self._process_buffered()
        if not self._pause_reasons and self._is_paused and not self._has_ended:
            self._is_paused = False
            self.transport.resume_reading()
