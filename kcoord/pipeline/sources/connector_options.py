"""Converts a connection to options of Spark's Kafka connector: Java's client settings, each prefixed with `kafka.`.

The content of files is passed on instead of their paths, so that workers need no files:

| of a Connection            | as                                                                                    |
|----------------------------|---------------------------------------------------------------------------------------|
| trusted certificates       | PEM text; without any, Java's own trust store, which may differ from the system's     |
| a certificate and its key  | PEM text, the key as PKCS 8, since Java reads no other                                |
| PLAIN, SCRAM               | a line of JAAS                                                                        |
| OAUTHBEARER                | refused: Java fetches tokens only from URLs that a property of each JVM allows        |
| certificates not checked   | refused: Java's client always checks them                                             |

Options may hold secrets, and a plan of Spark's shows options: `SECRET_OPTIONS` matches those that must be redacted.
"""

from typing import Final

from kcoord.admin.connecting.connection import Connection
from kcoord.client.secret import Secret
from kcoord.client.security import OAuthBearer, Plain, Sasl, Scram, Tls
from kcoord.exceptions import InvalidInput

_PREFIX: Final = "kafka."
SECRET_OPTIONS: Final = r"(?i)jaas|keystore|password"  # noqa: S105
"""Matches the names of options that hold secrets."""
_LEAST_API_TIMEOUT_MS: Final = 60_000  # Java's default; it may not be below the request timeout
_MODULES: Final = "org.apache.kafka.common.security"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


class NotForConnector(InvalidInput, ValueError):
    """Raised when Spark's Kafka connector cannot connect as this connection requires."""

    def __init__(self, what: str) -> None:
        super().__init__(f"--connector spark-sql-kafka cannot connect {what}: say --connector python")


def kafka_options(connection: Connection) -> dict[str, str]:
    """Returns the options of Spark's Kafka connector for this connection, secrets included. Raises NotForConnector."""
    timeout_ms = round(connection.request_timeout * 1000)
    security = connection.security
    settings = {
        "bootstrap.servers": ",".join(connection.bootstrap),
        "client.id": connection.client_id,
        "request.timeout.ms": str(timeout_ms),
        "default.api.timeout.ms": str(max(timeout_ms, _LEAST_API_TIMEOUT_MS)),
        "isolation.level": "read_committed",
        "security.protocol": security.protocol,
        **(_tls_settings(security.tls) if security.tls else {}),
        **(_sasl_settings(security.sasl) if security.sasl else {}),
    }
    return {f"{_PREFIX}{name}": value for name, value in settings.items()}


def _tls_settings(tls: Tls) -> dict[str, str]:
    if not tls.checks_certificate:
        raise NotForConnector("without checking certificates (enable.ssl.certificate.verification=false)")
    settings = {
        "ssl.enabled.protocols": ",".join(tls.versions),
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_host_name else "",
    }
    if tls.authorities is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": tls.authorities}
    if tls.key is not None:
        assert tls.certificate_chain is not None, "a key has its certificate"
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": tls.certificate_chain,
            "ssl.keystore.key": _pkcs8(tls.key, tls.key_password).reveal(),
        }
    return settings


def _sasl_settings(sasl: Sasl) -> dict[str, str]:
    match sasl:
        case Plain():
            line = _jaas("plain.PlainLoginModule", sasl.username, sasl.password)
        case Scram():
            tokens = ' tokenauth="true"' if sasl.is_delegation_token else ""
            line = _jaas("scram.ScramLoginModule", sasl.username, sasl.password, tokens)
        case OAuthBearer():
            raise NotForConnector("with OAUTHBEARER")
    return {"sasl.mechanism": sasl.mechanism, "sasl.jaas.config": line}


def _jaas(module: str, username: str, password: Secret, more: str = "") -> str:
    return f"{_MODULES}.{module} required username={_quoted(username)} password={_quoted(password.reveal())}{more};"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def _pkcs8(key: Secret, password: Secret | None) -> Secret:
    """Returns the key decrypted: Java 17 supports only encryptions of keys that other programs have given up."""
    from cryptography.hazmat.primitives import serialization

    try:
        found = serialization.load_pem_private_key(
            key.reveal().encode(), password.reveal().encode() if password else None
        )
    except (TypeError, ValueError):
        raise NotForConnector("with this private key, which cannot be read (is ssl.key.password right?)") from None
    encoding, layout = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Secret(found.private_bytes(encoding, layout, serialization.NoEncryption()).decode())
