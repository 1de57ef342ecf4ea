"""The protocols by which a client's two connections call the proxy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kcoord.proxy.forwarding.interceptors import MetricsSink
from kcoord.proxy.forwarding.routes import Routes
from kcoord.proxy.rewriting.api_versions import Limits
from kcoord.proxy.rewriting.endpoints import Endpoint

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import DownstreamConnection


class ConnectionHost(Protocol):
    """The proxy as its clients' connections see it: it admits them and connects each to a broker."""

    routes: Routes
    metrics: MetricsSink
    max_frame_bytes: int

    def admit(self, client: "DownstreamConnection") -> str | None:
        """Registers a new client; returns the reason if it must be refused, else None."""

    def connect(self, client: "DownstreamConnection") -> None:
        """Connects the client to the broker that it means, and then calls its `on_upstream_connected`; on failure it
        closes the client's connection.
        """

    def held_bytes_changed(self, client: "DownstreamConnection") -> None:
        """Called when the number of bytes that are buffered for the client has changed."""

    def on_closed(self, client: "DownstreamConnection") -> None:
        """Called once when a client's connection has closed."""


class BrokerDirectory(Protocol):
    """The proxy as upstream connections see it: it knows the brokers, and the endpoints here by which clients reach
    them.
    """

    metrics: MetricsSink

    @property
    def limits(self) -> Limits:
        """The versions that ApiVersions responses announce to clients at most, by API key."""

    def endpoint_of(self, node_id: int) -> Endpoint:
        """Returns the endpoint of the proxy at which clients reach this broker, which was passed to `on_brokers`
        before.
        """

    def on_brokers(self, named: Mapping[int, Endpoint], *, is_all: bool) -> None:
        """Opens a listener for each broker that a response names, so that clients can connect to it. `is_all` means
        that the response names all brokers of the cluster.
        """
