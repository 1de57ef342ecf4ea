"""The connection to a broker on behalf of one client: answers are forwarded in the order of the client's requests.

What a received chunk leaves unfinished is one of these:

    _stream     the answer that is being forwarded while it arrives
    _buffered   the beginning of an answer that must be whole
"""

import asyncio
import logging
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from kcoord.api_keys import ApiKey
from kcoord.protocol.frames import CorruptMessage, framed
from kcoord.proxy.connection_host import BrokerDirectory
from kcoord.proxy.forwarding.backpressure import MAX_UNSENT_BYTES
from kcoord.proxy.forwarding.in_flight import InFlightRequests, PendingRequest
from kcoord.proxy.forwarding.interceptor_chain import notify_observers
from kcoord.proxy.forwarding.routes import AnswerRoute
from kcoord.proxy.forwarding.streamed_answer import StreamedAnswer
from kcoord.proxy.rewriting import api_versions, node_endpoints
from kcoord.proxy.rewriting.broker_addresses import find_addresses, may_have_addresses, names_all_brokers
from kcoord.proxy.rewriting.fetch_scanner import FetchScanner
from kcoord.proxy.setup import CannotProxy

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection

log = logging.getLogger("kcoord.proxy")

_START: Final = Struct(">ii")  # length, correlation id
_MAX_BUFFERED_FETCH_BYTES: Final = 1 << 16
"""A Fetch answer up to this size is buffered and forwarded in one piece; longer ones are streamed. Brokers write an
answer in three parts in quick succession, and one write costs less than three."""
_MAX_WHOLE_BYTES: Final = 1 << 28
"""The largest answer that is buffered whole."""
_CLOSE_TIMEOUT: Final = 30.0
"""Seconds that a broker has to read what a client sent before it disconnected."""


class UpstreamConnection(asyncio.Protocol):
    """The connection to a broker that the proxy makes for one client (asyncio.Protocol): it forwards the broker's
    responses to the client.
    """

    def __init__(self, client: "DownstreamConnection", directory: BrokerDirectory) -> None:
        self.forwarded_bytes = 0
        self._client = client
        self._directory = directory
        self._pending: InFlightRequests = client.pending
        self._send = client.transport.write
        self._stream: StreamedAnswer | None = None
        self._buffered = bytearray()
        self._bytes_needed = 0
        self._is_mid_frame = False
        self._is_closed = False
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """The transport to the broker; the connection must have been made."""
        assert self._transport is not None
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)

    def data_received(self, chunk: bytes) -> None:
        """Forwards the bytes of responses to the client, rewritten where they name brokers."""
        self.forwarded_bytes += len(chunk)
        self._client.idle_sweeps = 0
        if self._is_closed or (not self._is_mid_frame and self._forward_if_whole(chunk)):
            return
        try:
            self._on_chunk(chunk)
        except (CorruptMessage, CannotProxy) as reason:
            self._abort(str(reason))
        except Exception:
            log.exception("bug peer=%s node=%s: an answer could not be passed", self._client.peer, self._client.node_id)
            self._abort("a fault of the proxy")

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the client's connection, because its broker has closed the other one."""
        self._is_closed = True
        self._client.on_upstream_closed()

    def pause_writing(self) -> None:
        """Stops reading from the client: the broker does not read its requests (backpressure)."""
        self._client.on_upstream_full()

    def resume_writing(self) -> None:
        """Goes on reading from the client."""
        self._client.on_upstream_writable()

    def pause_reading(self) -> None:
        """Stops reading responses: the client does not read them (backpressure)."""
        if not self._is_closed:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Goes on reading responses."""
        if not self._is_closed:
            self.transport.resume_reading()

    def answer_to(self, transport: asyncio.Transport) -> None:
        """Forwards responses to this transport from now on."""
        self._send = transport.write

    @property
    def held_bytes(self) -> int:
        """The bytes of an incomplete response that are buffered."""
        return len(self._buffered)

    def drop_buffers(self) -> None:
        """Drops the buffered bytes."""
        self._buffered.clear()

    def close(self) -> None:
        """Closes the connection once pending output has been sent, or after a timeout if the broker does not
        read it.
        """
        self._is_closed = True
        self.drop_buffers()
        self.transport.close()
        if self.transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT, self.transport.abort)

    # Answers.

    def _forward_if_whole(self, chunk: bytes) -> bool:
        """Forwards a chunk that is exactly one answer with nothing to change: the common case, and the fast path."""
        if len(chunk) < _START.size or not self._pending:
            return False
        length, correlation_id = _START.unpack_from(chunk)
        head = self._pending[0]
        if length != len(chunk) - 4 or correlation_id != head.correlation_id:
            return False
        route = head.route
        if route.answer_passes or (route.needs_no_rewrite is not None and route.needs_no_rewrite(chunk)):
            self._answer_began(head)
        elif route.answer_is_only_observed and head.transform is None:
            self._answer_began(head)
            notify_observers(self._client, route, head.request, chunk[4:])
        else:
            return False
        self._send(chunk)
        self._answer_finished()
        return True

    def _on_chunk(self, chunk: bytes) -> None:
        if self._buffered:
            self._buffer(chunk)
            if len(self._buffered) < self._bytes_needed:
                return
            chunk = bytes(self._buffered)
            self._buffered.clear()
            self._client.held_bytes_changed()
            if self._forward_if_whole(chunk):
                self._is_mid_frame = False
                return
        start = position = self._bytes_needed = 0
        end = len(chunk)
        while position < end:
            if self._stream is None:
                close = self._begin_answer(chunk, position, end)
                if close is None:
                    break
                if close > position:  # it is whole
                    if self._pending[0].route.answer_passes:
                        start, position = self._pass_answer(chunk, start, close)
                        continue
                    self._forward(chunk, start, position)
                    self._on_whole_answer(chunk[position + 4 : close])
                    start = position = close
                    continue
            start, position = self._continue_answer(chunk, start, position)
        self._forward(chunk, start, position)
        self._buffer(memoryview(chunk)[position:])
        self._is_mid_frame = self._stream is not None or bool(self._buffered)

    def _begin_answer(self, chunk: bytes, position: int, end: int) -> int | None:
        """Begins an answer. Returns its end if it is whole, its start if it streams, None if more bytes are needed."""
        if end - position < _START.size:
            self._bytes_needed = _START.size
            return None
        length, correlation_id = _START.unpack_from(chunk, position)
        head = self._pending[0] if self._pending else None
        if head is None or length < 4:
            raise CorruptMessage(
                f"an answer of {length} bytes that nobody asked for" if length >= 4 else "a broken answer"
            )
        if correlation_id != head.correlation_id:
            raise CorruptMessage(f"an answer to request {correlation_id}, where that to {head.correlation_id} was due")
        match head.route.answer:
            case AnswerRoute.WHOLE:
                if length > _MAX_WHOLE_BYTES:
                    raise CorruptMessage(f"an answer of {length} bytes")
                if end - position < 4 + length:
                    self._bytes_needed = 4 + length
                    return None
                return int(position + 4 + length)
            case AnswerRoute.SCANNED:
                if end - position < 4 + length <= _MAX_BUFFERED_FETCH_BYTES:
                    self._bytes_needed = 4 + length
                    return None
                self._stream = StreamedAnswer(length, FetchScanner())
            case AnswerRoute.PASSES:
                if end - position >= 4 + length:
                    return int(position + 4 + length)
                self._stream = StreamedAnswer(length)
        self._answer_began(head)
        return position

    def _pass_answer(self, chunk: bytes, start: int, close: int) -> tuple[int, int]:
        """Passes an answer that is whole; returns the start and end of the bytes that may be sent."""
        if self._pending.needs_flush:  # a local answer may be due, which must come after these bytes
            self._forward(chunk, start, close)
            start = close
        self._answer_began(self._pending[0])
        self._answer_finished()
        return start, close

    def _continue_answer(self, chunk: bytes, start: int, position: int) -> tuple[int, int]:
        """Takes the next part of a streamed answer; returns the start and end of the bytes that may be sent."""
        stream = self._stream
        assert stream is not None
        forwarded_end, close = stream.take(chunk, position)
        is_finished = stream.remaining == 0
        if stream.holds_tail or (is_finished and self._pending.needs_flush):
            self._forward(chunk, start, forwarded_end)
            start = close
        if is_finished:
            self._stream = None
            self._end_answer(stream)
        return start, close

    def _end_answer(self, stream: StreamedAnswer) -> None:
        tail = stream.finish()
        if tail is not None:
            self._directory.on_brokers(node_endpoints.brokers_in(tail), is_all=False)
            self._send(node_endpoints.rewrite_same_length(tail, self._directory.endpoint_of))
        self._answer_finished()

    def _on_whole_answer(self, frame: bytes) -> None:
        head = self._pending[0]
        self._answer_began(head)
        notify_observers(self._client, head.route, head.request, frame)
        if head.transform:
            frame = head.transform(frame)
        self._send(framed([self._rewritten(head, frame)]))
        self._answer_finished()

    def _rewritten(self, head: PendingRequest, frame: bytes) -> bytes:
        api_key, api_version = head.route.api_key, head.route.api_version
        if api_key == ApiKey.API_VERSIONS:
            return api_versions.intersect_versions(frame, api_version, self._directory.limits)
        if not may_have_addresses(api_key, api_version):
            return frame
        found = find_addresses(frame, api_key, api_version)
        if found is None:
            return frame
        self._directory.on_brokers(found.brokers, is_all=names_all_brokers(api_key))
        return found.rewritten(self._directory.endpoint_of)

    def _answer_began(self, head: PendingRequest) -> None:
        self._directory.metrics.answered(head.route.api_key, head.route.api_version, perf_counter() - head.started)

    def _answer_finished(self) -> None:
        self._pending.popleft()
        if self._pending.needs_flush:
            self._client.flush_local_answers()

    def _buffer(self, part: bytes | memoryview) -> None:
        if part:
            self._buffered += part
            self._client.held_bytes_changed()

    def _forward(self, chunk: bytes, start: int, end: int) -> None:
        if start == 0 and end == len(chunk):
            self._send(chunk)
        elif end > start:
            self._send(memoryview(chunk)[start:end])

    def _abort(self, reason: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.transport.abort()
            self._client.hang_up(f"upstream: {reason}")
