"""How a client authenticates itself, and how it authenticates the server: TLS, a login, both or none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kcoord.client.secret import Secret

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The TLS settings of a client: trusted authorities, client certificate and key, as PEM text."""

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
    """The settings of a SASL login with PLAIN."""

    username: str
    password: Secret

    mechanism: str = field(default="PLAIN", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram:
    """The settings of a SASL login with SCRAM."""

    mechanism: str
    """SCRAM-SHA-256 or SCRAM-SHA-512."""
    username: str
    password: Secret
    is_delegation_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearer:
    """The settings of a SASL login with OAUTHBEARER. `token` returns a bearer token that is valid now; it is called for
    every connection.
    """

    token: Callable[[], Secret]
    """Returns a token that is valid now; called for every connection."""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    mechanism: str = field(default="OAUTHBEARER", init=False)


Sasl = Plain | Scram | OAuthBearer


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security settings of a client for all brokers of a cluster: TLS, a SASL login, both or none."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """The combination as Kafka's security.protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        if self.sasl:
            return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"
        return "SSL" if self.tls else "PLAINTEXT"
