"""The protocols by which a client's two connections call the proxy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kcoord.proxy.forwarding.api_versions import Limits
from kcoord.proxy.forwarding.endpoints import Endpoint
from kcoord.proxy.forwarding.interceptors import MetricsSink
from kcoord.proxy.forwarding.routes import Routes

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection


class ConnectionHost(Protocol):
    """What a downstream connection needs of the proxy."""

    routes: Routes
    metrics: MetricsSink
    max_frame_bytes: int

    def admit(self, client: "DownstreamConnection") -> str | None:
        """Returns why the client is refused, or None if it is admitted."""

    def connect(self, client: "DownstreamConnection") -> None:
        """Connects to the broker that the client means, then calls `on_upstream_connected`; otherwise hangs up."""

    def held_bytes_changed(self, client: "DownstreamConnection") -> None:
        """Called when the number of bytes buffered for the client has changed."""

    def on_closed(self, client: "DownstreamConnection") -> None: ...


class BrokerDirectory(Protocol):
    """What an upstream connection needs of the proxy: the brokers that are known."""

    metrics: MetricsSink

    @property
    def limits(self) -> Limits: ...

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Returns the endpoint here at which clients reach a broker that was passed to `on_brokers`."""

    def on_brokers(self, named: Mapping[int, Endpoint], *, is_all: bool) -> None:
        """Opens listeners for the brokers that an answer names, so that clients can connect to them."""
