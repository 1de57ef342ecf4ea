"""A client's connection from its admission to its end; request_forwarder decides about the requests that it receives.

A client has two connections, this one and the one to its broker, and these parts between them:

    client ─► data_received ─► RequestForwarder ─► UpstreamWriter, which buffers until a broker is connected ─► broker
                               FrameScanner        where requests begin in the bytes received
                               InFlightRequests    which requests wait for answers, and which of these are given here
    client ◄───────────────────────────────────── UpstreamConnection ◄───────────────────────────────────────── broker

Only `Backpressure` pauses and resumes reading from the two connections. This connection reports full write buffers to
it, and the forwarder reports requests that must wait.

A connection ends in one of these ways. After each of them `is_closed` is set, no request is decided any more, and
`connection_lost` comes once:

    refuse      it was never admitted: it is aborted, and one line is logged
    hang_up     the client sent something that cannot be forwarded, or holds too much memory: one line is logged
    close       the broker's connection has closed, or there is none
    abort       it has been idle for too long, or the proxy ends
    _let_go     the client has disconnected

There is one exception. A client may have sent requests behind one that is handled here, and then have sent its end or
disconnected. A broker would still decide them, so the connection stays until they are decided (`_is_ended`). If the
client has disconnected, ClientGone takes the place of its transport and drops the answers.
"""

import asyncio
import logging
from typing import Final, cast

from kcoord.proxy.brokers.broker_connections import keep_alive
from kcoord.proxy.connection_host import ConnectionHost
from kcoord.proxy.forwarding.backpressure import (
    CLIENT_FULL,
    CONNECTING,
    MAX_UNSENT_BYTES,
    TOO_MANY_IN_FLIGHT,
    UPSTREAM_FULL,
    Backpressure,
)
from kcoord.proxy.forwarding.client_gone import ClientGone
from kcoord.proxy.forwarding.request_forwarder import RequestForwarder
from kcoord.proxy.forwarding.upstream_connection import UpstreamConnection
from kcoord.proxy.forwarding.upstream_writer import UpstreamWriter
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.server.log_text import format_node

log = logging.getLogger("kcoord.proxy")

_BROKER_IS_SLOW: Final = UPSTREAM_FULL | TOO_MANY_IN_FLIGHT


class DownstreamConnection(asyncio.Protocol):
    """The downstream half of one client; an `interceptors.ClientInfo`."""

    def __init__(self, proxy: ConnectionHost, node_id: int | None) -> None:
        self.node_id = node_id
        self.peer = self.host = ""
        self.principal: str | None = None
        self.preferred_endpoint: Endpoint | None = None  # which broker to try first if the client means any
        self.idle_sweeps = 0
        self.upstream: UpstreamConnection | None = None
        self.forwarded_bytes = 0
        self.is_closed = False
        self._is_ended = False  # the client sends no more; the connection stays until its requests are decided
        self._proxy = proxy
        self._backpressure = Backpressure()
        self._writer = UpstreamWriter(self._on_buffered)
        self._forwarder = RequestForwarder(self, proxy, self._writer, self._backpressure)
        self.pending = self._forwarder.pending
        self._transport: asyncio.Transport | None = None

    @property
    def held_bytes(self) -> int:
        upstream = self.upstream.held_bytes if self.upstream else 0
        return self._forwarder.scanner.held_bytes + self._writer.unsent_bytes + upstream

    @property
    def is_idle(self) -> bool:
        """Whether the connection may be closed as idle: no answer is pending, or reading from it is paused because the
        broker does not keep up, so that a disconnect would go unnoticed."""
        return self.is_closed or not self.pending or self._backpressure.is_paused_for(_BROKER_IS_SLOW)

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=MAX_UNSENT_BYTES)
        self._backpressure.attach_client(self._transport)
        keep_alive(transport)
        peername = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = str(peername[0]), f"{peername[0]}:{peername[1]}"
        if reason := self._proxy.admit(self):
            self.refuse(reason)

    def data_received(self, chunk: bytes) -> None:
        self.idle_sweeps = 0
        self.forwarded_bytes += len(chunk)
        self._forwarder.forward(chunk)

    def eof_received(self) -> bool:
        """Keeps the connection open, as a broker does, until the requests behind a handled one are decided.

        The broker's remaining answers to other requests are dropped: nobody would receive them. Over TLS a transport
        closes in any case, and `connection_lost` is called.
        """
        is_plain = self.transport.get_extra_info("ssl_object") is None
        if is_plain and not self.is_closed and self._forwarder.has_undecided:
            self._end()
        return self._is_ended

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_closed or self._backpressure.is_paused_for(CLIENT_FULL) or not self._forwarder.has_undecided:
            self._let_go()
            return
        self._end()
        self._transport = ClientGone(self._let_go)
        if self.upstream:
            self.upstream.answer_to(self._transport)

    def pause_writing(self) -> None:
        self._backpressure.pause_for(CLIENT_FULL)

    def resume_writing(self) -> None:
        self._backpressure.resume_after(CLIENT_FULL)

    # Called by the upstream connection.

    def on_upstream_connected(self, upstream: UpstreamConnection) -> None:
        """Attaches the connection to a broker and sends what was buffered for it."""
        if self.upstream:
            upstream.forwarded_bytes = self.upstream.forwarded_bytes
        self.upstream = upstream
        upstream.answer_to(self.transport)
        if self._writer.connect(upstream.transport):
            self._proxy.held_bytes_changed(self)
        if self.is_closed:
            upstream.close()
            return
        self._backpressure.attach_upstream(upstream)
        self._backpressure.resume_after(CONNECTING)

    def on_upstream_closed(self) -> None:
        """Closes the client, except one whose requests are handled here and that awaits nothing from the broker.

        Brokers close connections after connections.max.idle.ms, and a member of a locally coordinated group may not use
        its upstream connection for longer than that. A new one is made with the next request that needs it.
        """
        if self.is_closed or self._forwarder.awaits_broker or not self._forwarder.was_handled_here:
            self.close()
        else:
            self._writer.disconnect()

    def on_upstream_full(self) -> None:
        self._backpressure.pause_for(UPSTREAM_FULL)

    def on_upstream_writable(self) -> None:
        self._backpressure.resume_after(UPSTREAM_FULL)

    def flush_local_answers(self) -> None:
        self._forwarder.flush_local_answers()

    def held_bytes_changed(self) -> None:
        """Called when the upstream connection buffers another number of bytes."""
        self._proxy.held_bytes_changed(self)

    # interceptors.ClientInfo

    @property
    def client_id(self) -> str:
        return self._forwarder.client_id

    def answer(self, pieces: list[bytes]) -> None:
        if self.is_closed:
            return
        self._forwarder.answer(pieces)
        if self._is_ended and not self._forwarder.is_busy:
            self.transport.close()

    def hang_up(self, reason: str) -> None:
        """Closes the connection once pending output has been sent, and logs the reason in one line."""
        if self.is_closed:
            return
        self._mark_closed()
        self._proxy.metrics.hung_up(reason)
        log.warning("closed peer=%s node=%s why=%r", self.peer, format_node(self.node_id), reason)
        self.transport.close()

    # The end of the connection.

    def refuse(self, reason: str) -> None:
        """Aborts the connection of a client that is not admitted, and logs the reason in one line."""
        self._mark_closed()
        log.warning("refused peer=%s node=%s why=%r", self.peer, format_node(self.node_id), reason)
        self.transport.abort()

    def close(self) -> None:
        """Closes the connection because the upstream side has closed; logs nothing."""
        self._mark_closed()
        self.drop_buffers()
        self.transport.close()

    def abort(self) -> None:
        self._mark_closed()
        self.transport.abort()

    def drop_buffers(self) -> None:
        """Discards buffered bytes: unforwarded requests and the beginning of a buffered answer."""
        if self.upstream:
            self.upstream.drop_buffers()
        self._writer.drop()
        self._proxy.held_bytes_changed(self)

    def _mark_closed(self) -> None:
        self.is_closed = True
        self._forwarder.scanner.close()
        self._backpressure.detach_client()

    def _end(self) -> None:
        self._is_ended = True
        self._backpressure.detach_client()

    def _let_go(self) -> None:
        """Still sends what the client sent, even if the broker is not connected yet: it may want no answers."""
        self._mark_closed()
        self.pending.clear()
        if self.upstream:
            self.upstream.close()
        self._proxy.held_bytes_changed(self)
        self._proxy.on_closed(self)

    def _on_buffered(self) -> None:
        self._proxy.held_bytes_changed(self)
        if self._writer.is_full:
            self._backpressure.pause_for(CONNECTING)
        if self._writer.needs_broker:
            self._proxy.connect(self)
