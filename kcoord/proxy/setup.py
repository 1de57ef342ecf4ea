"""The settings that a proxy starts with."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcoord.client.security import Security
from kcoord.exceptions import LocalFailure
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.settings import Settings

if TYPE_CHECKING:
    from kcoord.security.listener import Listener


class CannotProxy(LocalFailure, RuntimeError):
    """Raised when the proxy cannot start: a port is taken, or no upstream broker answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySetup:
    """The settings that a proxy starts with: the upstream cluster, its own listeners, security towards both sides."""

    upstream: tuple[Endpoint, ...]
    """The bootstrap brokers."""
    security: Security = field(default_factory=Security)
    """TLS and login towards the brokers. With a login here, the proxy logs in for its clients, and they cannot."""
    client_id: str = "kcoord-proxy"
    host: str = "127.0.0.1"
    port: int = 0
    """The bootstrap port; 0 takes any free one."""
    port_base: int = 0
    """The port of broker 0; broker N gets `port_base` + N. 0 takes any free ports."""
    broker_ids: tuple[int, ...] = ()
    """Brokers whose ports are opened at the start, before any answer has named them."""
    sni_domain: str | None = None
    """The domain below which every broker has a server name (b0, b1, …); all of them then share one port."""
    advertised_host: str | None = None
    listener: "Listener | None" = None
    """The TLS and login that clients need; None admits everybody."""
    settings: Settings = field(default_factory=Settings)
    """Settings of listeners and connections; the proxy ignores all others."""
    connect_timeout: float = 10.0
    refresh_interval: float = 5.0
    """Seconds between two metadata refreshes of the proxy's own."""
    waits_for_upstream: bool = False
    """Whether the proxy waits for an upstream that is unreachable at the start, instead of failing."""

    @property
    def ends_logins(self) -> bool:
        """Whether clients' SASL logins are not forwarded to brokers: they end at the proxy, or clients need none."""
        return bool(self.security.sasl or (self.listener and self.listener.sasl))
