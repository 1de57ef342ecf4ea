"""The protocols by which a client's two connections call the proxy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kcoord.proxy.forwarding.api_versions import Limits
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.proxy.forwarding.interceptors import Meter
from kcoord.proxy.forwarding.routes import Routes

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import ClientSide


class Owner(Protocol):
    """What a downstream connection needs of the proxy."""

    routes: Routes
    meter: Meter
    max_frame_bytes: int

    def admit(self, client: "ClientSide") -> str | None:
        """Returns why the client is refused, or None if it is admitted."""

    def connect(self, client: "ClientSide") -> None:
        """Connects to the broker that the client means, then calls `on_upstream_connected`; otherwise hangs up."""

    def held(self, client: "ClientSide") -> None:
        """Called when the number of bytes buffered for the client has changed."""

    def gone(self, client: "ClientSide") -> None: ...


class Directory(Protocol):
    """What an upstream connection needs of the proxy: the brokers that are known."""

    meter: Meter

    @property
    def limits(self) -> Limits: ...

    def place_of(self, node_id: int) -> Place:
        """Returns the endpoint here at which clients reach a broker that was passed to `on_brokers`."""

    def saw(self, told: Mapping[int, Place], *, is_all: bool) -> None:
        """Opens listeners for the brokers that an answer names, so that clients can connect to them."""
