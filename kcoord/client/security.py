"""How a client authenticates itself, and how it authenticates the server: TLS, a login, both or none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kcoord.client.secret import Secret

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates and keys as PEM text, whatever kind of store they came from."""

    authorities: str | None = None
    """The trusted certificates; None means the system's."""
    certificate_chain: str | None = None
    """The client's certificate, for a server that requests one (mutual TLS)."""
    key: Secret | None = None
    key_password: Secret | None = None
    checks_certificate: bool = True
    checks_host_name: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    username: str
    password: Secret

    mechanism: str = field(default="PLAIN", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram:
    mechanism: str
    """SCRAM-SHA-256 or SCRAM-SHA-512."""
    username: str
    password: Secret
    is_delegation_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearer:
    token: Callable[[], Secret]
    """Returns a token that is valid now; called for every connection."""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    mechanism: str = field(default="OAUTHBEARER", init=False)


Sasl = Plain | Scram | OAuthBearer


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security settings for all brokers of a cluster. Kafka's security.protocol names the combination
    in one word.
    """

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        if self.sasl:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"
