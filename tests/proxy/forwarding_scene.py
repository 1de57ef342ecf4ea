"""A downstream and an upstream connection with fake transports at both ends."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection
from kcoord.proxy.forwarding.interceptors import PASS, ClientInfo, Decision, Interceptor, MetricsSink, Request
from kcoord.proxy.forwarding.routes import Routes
from kcoord.proxy.forwarding.upstream_connection import UpstreamConnection
from kcoord.proxy.no_metrics import NoMetrics
from kcoord.proxy.rewriting.endpoints import Endpoint
from tests.proxy.answers import here


class Link(asyncio.Transport):
    """A transport that records writes and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 5)})
        self.writes: list[bytes] = []
        self.is_reading_now = True
        self.is_closed = False

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.writes.append(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None:
        assert self.is_reading_now, "paused twice"
        self.is_reading_now = False

    def resume_reading(self) -> None:
        assert not self.is_reading_now, "resumed twice"
        self.is_reading_now = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Scene:
    """A proxy with one client. With `is_slow`, the broker is connected only when the test calls `connected`."""

    def __init__(self, *interceptors: Interceptor, max_frame_bytes: int = 1 << 20, is_slow: bool = False) -> None:
        self.routes = Routes(interceptors)
        self.metrics: MetricsSink = NoMetrics()
        self.max_frame_bytes = max_frame_bytes
        self.seen: list[tuple[Mapping[int, Endpoint], bool]] = []
        self.connects = 0
        self.is_gone = False
        self.held_bytes = 0
        self._is_slow = is_slow
        self.client_link, self.broker_link = Link(), Link()
        self.client = DownstreamConnection(self, 1)
        self.client.connection_made(self.client_link)
        self.broker: UpstreamConnection | None = None

    # connection_host.ConnectionHost and BrokerDirectory

    @property
    def limits(self) -> Mapping[int, range]:
        return self.routes.limits

    def admit(self, client: DownstreamConnection) -> str | None:
        return None

    def on_closed(self, client: DownstreamConnection) -> None:
        self.is_gone = True

    def held_bytes_changed(self, client: DownstreamConnection) -> None:
        self.held_bytes = client.held_bytes

    def connect(self, client: DownstreamConnection) -> None:
        self.connects += 1
        if not self._is_slow:
            self.connected()

    def endpoint_of(self, node_id: int) -> Endpoint:
        assert any(node_id in named for named, _ in self.seen), "it has no listener yet"
        return here(node_id)

    def on_brokers(self, named: Mapping[int, Endpoint], *, is_all: bool) -> None:
        self.seen.append((named, is_all))

    def reading(self) -> tuple[bool, bool]:
        """Whether the client is being read from, and the broker."""
        return self.client_link.is_reading_now, self.broker_link.is_reading_now

    # Actions

    def connected(self) -> None:
        self.broker = UpstreamConnection(self.client, self)
        self.broker.connection_made(self.broker_link)
        self.client.on_upstream_connected(self.broker)

    def ask(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.client.data_received(chunk)

    def answer(self, *chunks: bytes) -> None:
        assert self.broker
        for chunk in chunks:
            self.broker.data_received(chunk)


class RecordingInterceptor:
    """An interceptor that records its calls and decides by a function of the test."""

    def __init__(
        self,
        decide: Callable[[Request], Decision] = lambda request: PASS,
        *,
        interests: Sequence[int] = (),
        observed: Sequence[int] = (),
        limits: Mapping[int, range] | None = None,
    ) -> None:
        self.interests = frozenset(interests)
        self.observed = frozenset(observed)
        self.limits: Mapping[int, range] = limits or {}
        self.asked: list[Request] = []
        self.answered: list[tuple[Request, bytes]] = []
        self.left: list[ClientInfo] = []
        self._decide = decide

    def request(self, client: ClientInfo, request: Request) -> Decision:
        self.asked.append(request)
        return self._decide(request)

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        self.answered.append((request, frame))

    def on_closed(self, client: ClientInfo) -> None:
        self.left.append(client)


def request(api_key: int, version: int, correlation_id: int, **values: Any) -> bytes:
    """Encodes a request with its length."""
    header = RequestHeader(api_key, version, correlation_id, "me")
    return encode_request(header, build_entity(request_type(api_key, version), values))


def heartbeat(correlation_id: int) -> bytes:
    return request(ApiKey.HEARTBEAT, 4, correlation_id, group_id="g", generation_id=1, member_id="m")


def produce(correlation_id: int, *, acks: int, version: int = 9, size: int = 50) -> bytes:
    parts = [{"index": 0, "records": bytes(size)}]
    topics = [{"name": "t", "partition_data": parts}]
    return request(ApiKey.PRODUCE, version, correlation_id, acks=acks, topic_data=topics, transactional_id="tx")


def answer(correlation_id: int, content: bytes = b"\0\0\0\0\0\0") -> bytes:
    """Encodes an answer with its length, for any API whose answers are forwarded."""
    return (4 + len(content)).to_bytes(4) + correlation_id.to_bytes(4) + content
