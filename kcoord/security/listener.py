"""The security settings of a listener: TLS, a login, both or none."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kcoord.client.secret import Secret

if TYPE_CHECKING:
    from kcoord.security.users import Users

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""


class ClientAuth(StrEnum):
    """Whether a client has to present a TLS certificate: Kafka's ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """The TLS settings of a listener; certificates and keys are PEM text."""

    certificate_chain: str
    """The listener's own certificate comes first."""
    key: Secret
    key_password: Secret | None = None
    client_authorities: str | None = None
    """The authorities that are trusted to sign clients' certificates."""
    client_auth: ClientAuth = ClientAuth.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """The SASL settings of a listener: the offered mechanisms, and a function that returns the users and is called at
    every login.
    """

    mechanisms: tuple[str, ...]
    users: "Callable[[], Users]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The security settings of a listener of a server or a proxy: TLS, a SASL login, both or none."""

    tls: ListenerTls | None = None
    sasl: Sasl | None = None

    @property
    def is_open(self) -> bool:
        """Whether clients may connect without TLS and without a login."""
        return self.tls is None and self.sasl is None

    @property
    def names_clients(self) -> bool:
        """Whether clients can be authenticated here, so that their principal is not always ANONYMOUS."""
        return self.sasl is not None or (self.tls is not None and self.tls.client_auth is not ClientAuth.NONE)
