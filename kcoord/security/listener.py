"""What a listener asks of who comes, as data: TLS, a login, both or none."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kcoord.client.secret import Secret

if TYPE_CHECKING:
    from kcoord.security.users import Users

ANONYMOUS: Final = "User:ANONYMOUS"
"""Who has shown nothing of himself."""


class ClientAuth(StrEnum):
    """Whether a client has to show a certificate: Kafka's ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """Certificates and keys as PEM text."""

    certificate_chain: str
    """Its own certificate first."""
    key: Secret
    key_password: Secret | None = None
    client_authorities: str | None = None
    """Whose certificates of clients are trusted."""
    client_auth: ClientAuth = ClientAuth.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """Which mechanisms are offered, and who may log in. `users` is asked at every login."""

    mechanisms: tuple[str, ...]
    users: "Callable[[], Users]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    tls: ListenerTls | None = None
    sasl: Sasl | None = None

    @property
    def is_open(self) -> bool:
        """Whether whoever comes is let in as he is."""
        return self.tls is None and self.sasl is None

    @property
    def names_clients(self) -> bool:
        """Whether who comes can be anybody in particular."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth is not ClientAuth.NONE)
