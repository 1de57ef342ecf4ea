"""What the two connections of a client ask of the proxy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kcoord.proxy.forwarding.api_versions import Limits
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.proxy.forwarding.interceptors import Meter
from kcoord.proxy.forwarding.routes import Routes

if TYPE_CHECKING:
    from kcoord.proxy.forwarding.downstream_connection import ClientSide


class Owner(Protocol):
    """Asked by the connection of the client."""

    routes: Routes
    meter: Meter
    max_frame_bytes: int

    def admit(self, client: "ClientSide") -> str | None:
        """Why the client is refused; None if it is welcome."""

    def connect(self, client: "ClientSide") -> None:
        """Make the connection to the broker that the client means, and give it to `connected`, or hang up."""

    def held(self, client: "ClientSide") -> None:
        """The client makes us hold another number of bytes."""

    def gone(self, client: "ClientSide") -> None: ...


class Directory(Protocol):
    """Asked by the connection to the broker: what is known of brokers."""

    meter: Meter

    @property
    def limits(self) -> Limits: ...

    def place_of(self, node_id: int) -> Place:
        """Where clients find a broker that was seen."""

    def saw(self, told: Mapping[int, Place], *, is_all: bool) -> None:
        """An answer told of these brokers: from now on clients can connect to them."""
