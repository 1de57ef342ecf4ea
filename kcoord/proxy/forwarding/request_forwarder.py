"""Forwards one client's requests to its broker, except those that are refused, answered or handled here.

A chunk that is exactly one request is the common case; `forward` decides about it without the scanner. Other chunks go
through `_scan`, where runs of forwarded requests are written together. A request that interceptors must see has one of
these outcomes:

    Pass, Replace   it is written to the broker, alone if it was replaced
    Answer          the client gets the answer after those to all earlier requests (in_flight.InFlightRequests)
    Handle          the scanner is stopped and the client not read from until `answer`, so that nothing overtakes it
"""

from time import perf_counter
from typing import TYPE_CHECKING, Final, assert_never

from kcoord.protocol.frames import explain_bad_length, framed
from kcoord.protocol.varint import BadVarint
from kcoord.proxy.forwarding.backpressure import HANDLING, TOO_MANY_IN_FLIGHT, Backpressure
from kcoord.proxy.forwarding.frame_scanner import FrameScanner
from kcoord.proxy.forwarding.in_flight import MAX_IN_FLIGHT, InFlightRequests, PendingRequest
from kcoord.proxy.forwarding.interceptor_chain import (
    Unanswerable,
    intercept,
    notify_observers,
    start_handling,
    transformed_pieces,
)
from kcoord.proxy.forwarding.interceptors import Answer, Handle, Pass, Request
from kcoord.proxy.forwarding.routes import START, Route, wants_answer
from kcoord.proxy.forwarding.upstream_writer import UpstreamWriter

if TYPE_CHECKING:
    from kcoord.proxy.connection_host import ConnectionHost
    from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection

_MIN_FRAME_BYTES: Final = 8
_MIN_MORE_BYTES: Final = 1 << 10
_MALFORMED_PRODUCE: Final = "a malformed Produce request"


class RequestForwarder:
    """Decides about each request of one client, in order, and does what was decided."""

    def __init__(
        self,
        client: "DownstreamConnection",
        proxy: "ConnectionHost",
        writer: UpstreamWriter,
        backpressure: Backpressure,
    ) -> None:
        self.pending = InFlightRequests()
        self.scanner = FrameScanner(START.size)
        self._is_scanning = False
        self.was_handled_here = False  # an interceptor has handled at least one request
        self._client = client
        self._proxy = proxy
        self._routes = proxy.routes
        self._writer = writer
        self._backpressure = backpressure
        self._last_whole_request = b""

    @property
    def client_id(self) -> str:
        """The client id in the last request that was seen whole."""
        length = int.from_bytes(self._last_whole_request[8:10], signed=True)
        return self._last_whole_request[10 : 10 + max(length, 0)].decode(errors="replace")

    @property
    def is_busy(self) -> bool:
        """Whether a request is being handled, or others are being decided."""
        return self.scanner.is_stopped or self._is_scanning

    @property
    def awaits_broker(self) -> bool:
        """Whether the broker has to answer a request, or has only a part of one."""
        return len(self.pending) > self.scanner.is_stopped or self.scanner.remaining > 0

    @property
    def has_undecided(self) -> bool:
        """Whether a handled request has not begun, or bytes have come behind it."""
        return self.scanner.is_stopped and (self.pending.has_local or self.scanner.held_bytes > 0)

    def forward(self, chunk: bytes) -> None:
        size = len(chunk)
        if self.scanner.is_at_boundary and size >= START.size:
            length, kind, correlation_id = START.unpack_from(chunk)
            if (  # exactly one frame, the common case
                length == size - 4 and length <= self._proxy.max_frame_bytes and len(self.pending) <= MAX_IN_FLIGHT
            ):
                route = self._routes[kind]
                if route.passes:
                    self.pending.append(PendingRequest(correlation_id, route, perf_counter()))
                    self._writer.write(chunk)
                    return
                if route.is_forwarded_produce and self._expect_answer(route, correlation_id, chunk, START.size, size):
                    self._writer.write(chunk)
                    return
                if route.is_only_observed:
                    request = self._whole_request(route, correlation_id, chunk[4:])
                    self.pending.append(PendingRequest(correlation_id, route, perf_counter(), request))
                    self._writer.write(chunk)
                    return
                screen = route.prefilter
                if (
                    screen is not None
                    and not screen(chunk)
                    and self._expect_answer(route, correlation_id, chunk, START.size, size)
                ):
                    self._writer.write(chunk)
                    return
        if self.scanner.remaining and self.scanner.pass_chunk(size):
            self._writer.write(chunk)
        elif self.scanner.feed(chunk):
            self._scan()
            if self.scanner.held_bytes:
                self._proxy.held_bytes_changed(self._client)
        else:
            self._proxy.held_bytes_changed(self._client)
            if self.scanner.begin_held():
                self._scan()
                self._proxy.held_bytes_changed(self._client)

    def answer(self, pieces: list[bytes]) -> None:
        """Answers the request that is being handled, and goes on with those behind it."""
        assert self.scanner.is_stopped, "nothing was taken"
        handled = self.pending.popleft()
        assert not self.pending, "nothing overtakes what was taken"
        self._proxy.metrics.answered(handled.route.api_key, handled.route.api_version, perf_counter() - handled.started)
        if pieces and handled.route.observers:
            notify_observers(self._client, handled.route, handled.request, b"".join(pieces)[4:])
        if pieces:
            self._client.transport.writelines(transformed_pieces(handled.transform, pieces))
        if self.scanner.resume():
            self._scan()
            self._proxy.held_bytes_changed(self._client)
        if not self.is_busy:
            self._backpressure.resume_after(HANDLING)

    def flush_local_answers(self) -> None:
        """Sends local answers, and begins the request to be handled, once all requests before them have answers."""
        while (local := self.pending.take_local()) is not None:
            if local.handle:
                try:
                    start_handling(self._client, local.handle)
                except Unanswerable as reason:
                    self._client.hang_up(str(reason))
                break
            if local.pieces:
                self._client.transport.writelines(local.pieces)
        if self.pending.finish_flush():
            self._backpressure.resume_after(TOO_MANY_IN_FLIGHT)

    def _scan(self) -> None:
        scanner, max_frame_bytes = self.scanner, self._proxy.max_frame_bytes
        self._is_scanning = True
        while scanner.find_frame():
            length, kind, correlation_id = START.unpack_from(scanner.chunk, scanner.position)
            route = self._routes[kind]
            if route.is_refused or not _MIN_FRAME_BYTES <= length <= max_frame_bytes:
                self._client.hang_up(self._why_invalid(length, route))
            elif route.passes:
                self.pending.append(PendingRequest(correlation_id, route, perf_counter()))
                scanner.pass_frame(length)
            elif route.is_seen_whole:
                if (frame := scanner.take_frame(length)) is not None:
                    self._pass_whole(route, correlation_id, frame)
            else:
                position, end = scanner.position, min(scanner.position + 4 + length, len(scanner.chunk))
                if self._expect_answer(route, correlation_id, scanner.chunk, position + START.size, end):
                    scanner.pass_frame(length)
                else:
                    self._need_more(end - position, of=4 + length)
        self._is_scanning = False
        if run := scanner.finish():
            self._writer.write(run)
        if self.pending.check_limit():
            self._backpressure.pause_for(TOO_MANY_IN_FLIGHT)

    def _why_invalid(self, length: int, route: Route) -> str:
        if not _MIN_FRAME_BYTES <= length <= self._proxy.max_frame_bytes:
            return explain_bad_length(length, _MIN_FRAME_BYTES, self._proxy.max_frame_bytes)
        return f"version {route.api_version} of API key {route.api_key} is not passed on"

    def _need_more(self, received: int, *, of: int) -> None:
        """Waits for more of a Produce request: the bytes received do not show yet whether it wants an answer."""
        if received >= of:
            self._client.hang_up(_MALFORMED_PRODUCE)
        self.scanner.hold_until(min(of, 2 * received + _MIN_MORE_BYTES))

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
            self._client.hang_up(_MALFORMED_PRODUCE)
            return None

    def _pass_whole(self, route: Route, correlation_id: int, frame: bytes) -> None:
        """Passes a request through the interceptors: it leaves with its run, or is cut out of it."""
        forwarded = self._intercept(route, correlation_id, frame)
        if forwarded is not frame:
            if run := self.scanner.cut():
                self._writer.write(run)
            if forwarded is not None:
                self._writer.write(framed([forwarded]))

    def _intercept(self, route: Route, correlation_id: int, frame: bytes) -> bytes | None:
        """Runs the interceptors; returns the frame to forward (the request, or its replacement), or None."""
        request = self._whole_request(route, correlation_id, frame)
        started = perf_counter()
        try:
            decision, request, transform = intercept(self._client, route, request)
        except Unanswerable as reason:
            self._client.hang_up(str(reason))
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
                self.scanner.stop()
                self.was_handled_here = True
                self._answer_locally(pending_request._replace(is_local=True, handle=decision))
                if self.scanner.is_stopped:
                    self._backpressure.pause_for(HANDLING)
                return None
            case Pass():
                if route.is_produce and not self._wants_answer(route, frame, START.size - 4, len(frame)):
                    self._proxy.metrics.answered(route.api_key, route.api_version, 0.0)
                else:
                    self.pending.append(pending_request)
                return None if self._client.is_closed else request.frame
            case _:
                assert_never(decision)

    def _whole_request(self, route: Route, correlation_id: int, frame: bytes) -> Request:
        self._last_whole_request = frame
        return Request(frame=frame, api_key=route.api_key, api_version=route.api_version, correlation_id=correlation_id)

    def _answer_locally(self, request: PendingRequest) -> None:
        if self.pending.append_local(request):
            self.flush_local_answers()
