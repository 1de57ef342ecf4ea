"""The connection to a broker on behalf of one client: answers are forwarded in the order of the client's requests.

The unfinished part of a received chunk is one of these:

    _bytes_remaining  how many bytes are still to come of an answer that is being forwarded; they go through `_scanner`
                      if there is one, and are collected in `_tail` once that exists
    _buffered         the beginning of an answer that must be whole
"""

import asyncio
import logging
from collections import deque
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from kcoord.protocol.frames import BadBody, framed
from kcoord.proxy.connection_host import Directory
from kcoord.proxy.forwarding import api_versions, node_endpoints
from kcoord.proxy.forwarding.fetch_scanner import FetchWalk
from kcoord.proxy.forwarding.interceptor_chain import show_response
from kcoord.proxy.forwarding.rewriting import addressed, bears_addresses, tells_of_all_brokers
from kcoord.proxy.forwarding.routes import AnswerRoute, Awaited
from kcoord.proxy.setup import CannotProxy

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import ClientSide

log = logging.getLogger("kcoord.proxy")

_START: Final = Struct(">ii")  # length, correlation id
_UNSENT_BYTES: Final = 1 << 19
_SHORT_BYTES: Final = 1 << 16
"""A Fetch answer up to this size is buffered and forwarded in one piece; longer ones are streamed. Brokers write an
answer in three parts in quick succession, and one write costs less than three."""
_MOST_BYTES: Final = 1 << 28
"""The largest answer that is buffered whole."""
_FAREWELL: Final = 30.0
"""Seconds that a broker has to read what a client sent before it disconnected."""


class UpstreamSide(asyncio.Protocol):
    """The upstream half of one client."""

    def __init__(self, client: "ClientSide", directory: Directory) -> None:
        self.passed_bytes = 0
        self._client = client
        self._directory = directory
        self._awaited: deque[Awaited] = client.awaited
        self._send = client.transport.write
        self._left = 0
        self._walk: FetchWalk | None = None
        self._tail: bytearray | None = None
        self._rest = bytearray()
        self._needed = 0
        self._is_amidst = False
        self._is_closed = False
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNSENT_BYTES)

    def data_received(self, chunk: bytes) -> None:
        self.passed_bytes += len(chunk)
        self._client.idle_sweeps = 0
        if self._is_closed or (not self._is_amidst and self._passes_at_once(chunk)):
            return
        try:
            self._receive(chunk)
        except (BadBody, CannotProxy) as reason:
            self._break_off(str(reason))
        except Exception:
            log.exception("bug peer=%s node=%s: an answer could not be passed", self._client.peer, self._client.node_id)
            self._break_off("a fault of the proxy")

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        self._client.upstream_is_gone()

    def pause_writing(self) -> None:
        self._client.upstream_is_full()

    def resume_writing(self) -> None:
        self._client.upstream_is_free()

    def pause(self) -> None:
        if not self._is_closed:
            self.transport.pause_reading()

    def resume(self) -> None:
        if not self._is_closed:
            self.transport.resume_reading()

    def answer_to(self, transport: asyncio.Transport) -> None:
        """Pass answers on to this transport from now on."""
        self._send = transport.write

    @property
    def held_bytes(self) -> int:
        return len(self._rest)

    def drop(self) -> None:
        self._rest.clear()

    def close(self) -> None:
        """Closes once pending output has been sent, or after a timeout if the broker does not read it."""
        self._is_closed = True
        self.drop()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_FAREWELL, self.transport.abort)

    # Answers.

    def _passes_at_once(self, chunk: bytes) -> bool:
        """Forwards a chunk that is exactly one answer with nothing to change: the common case, and the fast path."""
        if len(chunk) < _START.size or not self._awaited:
            return False
        length, correlation_id = _START.unpack_from(chunk)
        head = self._awaited[0]
        if length != len(chunk) - 4 or correlation_id != head.correlation_id:
            return False
        route = head.route
        if route.answer_passes or (route.is_plain is not None and route.is_plain(chunk)):
            self._begun(head)
        elif route.answer_is_only_watched and head.amended is None:
            self._begun(head)
            show_response(self._client, route, head.request, chunk[4:])
        else:
            return False
        self._send(chunk)
        self._finished()
        return True

    def _receive(self, chunk: bytes) -> None:
        if self._rest:
            self._keep(chunk)
            if len(self._rest) < self._needed:
                return
            chunk = bytes(self._rest)
            self._rest.clear()
            self._client.held()
            if self._passes_at_once(chunk):
                self._is_amidst = False
                return
        start = position = self._needed = 0
        end = len(chunk)
        while position < end:
            if not self._left:
                close = self._next(chunk, position, end)
                if close is None:
                    break
                if close > position:  # it is whole
                    self._pass(chunk, start, position)
                    self._whole(chunk[position + 4 : close])
                    start = position = close
                    continue
                if self._walk:
                    self._left -= 4
                    position += 4
                    continue
            start, position = self._go_on(chunk, start, position, min(position + self._left, end))
        self._pass(chunk, start, position)
        self._keep(memoryview(chunk)[position:])
        self._is_amidst = bool(self._left or self._rest)

    def _next(self, chunk: bytes, position: int, end: int) -> int | None:
        """Begins an answer. Returns its end if it is whole, its start if it streams, None if more bytes are needed."""
        if end - position < _START.size:
            self._needed = _START.size
            return None
        length, correlation_id = _START.unpack_from(chunk, position)
        head = self._awaited[0] if self._awaited else None
        if head is None or length < 4:
            raise BadBody(f"an answer of {length} bytes that nobody asked for" if length >= 4 else "a broken answer")
        if correlation_id != head.correlation_id:
            raise BadBody(f"an answer to request {correlation_id}, where that to {head.correlation_id} was due")
        match head.route.answer:
            case AnswerRoute.WHOLE:
                if length > _MOST_BYTES:
                    raise BadBody(f"an answer of {length} bytes")
                if end - position < 4 + length:
                    self._needed = 4 + length
                    return None
                return int(position + 4 + length)
            case AnswerRoute.WALKED:
                if end - position < 4 + length <= _SHORT_BYTES:
                    self._needed = 4 + length
                    return None
                self._walk = FetchWalk()
            case AnswerRoute.PASSES:
                pass
        self._begun(head)
        self._left = 4 + length
        return position

    def _go_on(self, chunk: bytes, start: int, position: int, close: int) -> tuple[int, int]:
        """Takes the next part of a streamed answer; returns the start and end of the bytes that may be sent."""
        if self._tail is not None:
            self._tail += memoryview(chunk)[position:close]
            start = close
        elif self._walk:
            close = self._walk.feed(chunk, position, close)
        self._left -= close - position
        if self._walk and self._walk.is_at_tail:
            self._walk = None
            if self._left != 1:  # a last byte alone is the tag count 0: there are no tagged fields
                self._pass(chunk, start, close)
                start = close
                self._tail = bytearray()
        if not self._left:
            if self._client.is_waiting:  # `_end_answer` may send local answers, which must come after these bytes
                self._pass(chunk, start, close)
                start = close
            self._end()
        return start, close

    def _end(self) -> None:
        if self._walk:
            raise BadBody("a Fetch answer that ends too early")
        if self._tail is not None:
            tail, self._tail = bytes(self._tail), None
            self._directory.saw(node_endpoints.brokers_in(tail), is_all=False)
            self._send(node_endpoints.moved_in_place(tail, self._directory.place_of))
        self._finished()

    def _whole(self, frame: bytes) -> None:
        head = self._awaited[0]
        self._begun(head)
        show_response(self._client, head.route, head.request, frame)
        if head.amended:
            frame = head.amended(frame)
        self._send(framed([self._rewritten(head, frame)]))
        self._finished()

    def _rewritten(self, head: Awaited, frame: bytes) -> bytes:
        api_key, api_version = head.route.api_key, head.route.api_version
        if api_key == api_versions.API_VERSIONS:
            return api_versions.cut(frame, api_version, self._directory.limits)
        if not bears_addresses(api_key, api_version):
            return frame
        found = addressed(frame, api_key, api_version)
        if found is None:
            return frame
        self._directory.saw(found.brokers, is_all=tells_of_all_brokers(api_key))
        return found.moved(self._directory.place_of)

    def _begun(self, head: Awaited) -> None:
        self._directory.meter.answered(head.route.api_key, head.route.api_version, perf_counter() - head.started)

    def _finished(self) -> None:
        self._awaited.popleft()
        if self._client.is_waiting:
            self._client.settle()

    def _keep(self, part: bytes | memoryview) -> None:
        if part:
            self._rest += part
            self._client.held()

    def _pass(self, chunk: bytes, start: int, end: int) -> None:
        if start == 0 and end == len(chunk):
            self._send(chunk)
        elif end > start:
            self._send(memoryview(chunk)[start:end])

    def _break_off(self, reason: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.transport.abort()
            self._client.hang_up(f"upstream: {reason}")
