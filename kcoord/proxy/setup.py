"""What a proxy starts with."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcoord.client.security import Security
from kcoord.proxy.forwarding.endpoints import Place
from kcoord.settings import Settings

if TYPE_CHECKING:
    from kcoord.security.listener import Listener


class CannotProxy(RuntimeError):
    """The proxy cannot start: a port that is taken, or nobody upstream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySetup:
    upstream: tuple[Place, ...]
    """Brokers to begin with."""
    security: Security = field(default_factory=Security)
    """Towards them. A login that is given here is ours: clients have none of their own."""
    client_id: str = "kcoord-proxy"
    host: str = "127.0.0.1"
    port: int = 0
    """Where clients begin; 0 is any free one."""
    port_base: int = 0
    """The port of broker 0, from which on they are numbered by their ids; 0: any free ones."""
    broker_ids: tuple[int, ...] = ()
    """Of brokers whose ports are there from the start, also if nobody has told of them yet."""
    sni_domain: str | None = None
    """Below it every broker has a name, and all of them one port."""
    advertised_host: str | None = None
    listener: "Listener | None" = None
    """What is asked of clients: TLS, a login."""
    settings: Settings = field(default_factory=Settings)
    """Of listeners and connections; all others mean nothing here."""
    connect_timeout: float = 10.0
    look_interval: float = 5.0
    """How often we look at the brokers ourselves."""
    waits: bool = False
    """For an upstream that cannot be reached at the start."""

    @property
    def ends_logins(self) -> bool:
        """Whether clients' logins do not go to the brokers: they end here, or there are none."""
        return bool(self.security.sasl or (self.listener and self.listener.sasl))
