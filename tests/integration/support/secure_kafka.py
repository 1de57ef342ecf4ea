"""One real broker with a listener for every kind of security, and a client.properties for each: Java's and kcoord's.

| properties | listener       | how                                                                       |
|------------|----------------|---------------------------------------------------------------------------|
| plaintext  | CLIENT         | nothing; user ANONYMOUS, who may do anything                              |
| ssl        | TLS            | PEM truststore                                                            |
| ssl-p12    | TLS            | PKCS12 truststore                                                         |
| ssl-jks    | TLS            | JKS truststore                                                            |
| mtls       | MUTUAL         | PEM stores; user CN=client                                                |
| mtls-p12   | MUTUAL         | PKCS12 stores                                                             |
| mtls-jks   | MUTUAL         | JKS stores, the key with a password of its own                            |
| scram      | SECURE         | SASL_SSL with SCRAM-SHA-512; user alice                                   |
| scram256   | SECURE         | SASL_SSL with SCRAM-SHA-256; user alice                                   |
| plain      | SECURE         | SASL_SSL with PLAIN; user bob                                             |
| oauth      | SECURE         | SASL_SSL with OAUTHBEARER, unsecured token; user carol                    |
| unencrypted| SASL           | SASL_PLAINTEXT with SCRAM-SHA-512; user alice                             |
| expired    | EXPIRED        | TLS with a certificate that has expired                                   |
| elsewhere  | ELSEWHERE      | TLS with a certificate for another host                                   |

No request is refused until a test adds ACLs: StandardAuthorizer allows everything without one.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kcoord.testing.jvm.java import find_java
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.properties import to_text
from tests.support.certificates import authority, signed

STORE_PASSWORD: Final = "store-secret"
KEY_PASSWORD: Final = "key-secret"
PASSWORDS: Final = {"alice": 'al"ice=\\s #1', "bob": "bob-secret"}
"""Alice's password is full of characters that must be quoted; kafka-storage accepts anything but a comma."""

_LISTENERS: Final = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SECURE": "SASL_SSL",
    "SASL": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}
KINDS: Final = (
    *("plaintext", "ssl", "ssl-p12", "ssl-jks", "mtls", "mtls-p12", "mtls-jks"),
    *("scram", "scram256", "plain", "oauth", "unencrypted", "expired", "elsewhere"),
)
"""The kinds that properties() accepts."""
_MODULES: Final = "org.apache.kafka.common.security"


def jaas(module: str, **options: str) -> str:
    """Formats a line of sasl.jaas.config, its values quoted as Java requires it."""
    quoted = [f'{name}="{value}"' for name, value in ((n, _escaped(v)) for n, v in options.items())]
    return f"{_MODULES}.{module} required {' '.join(quoted)};"


class SecureKafka:
    """The broker and its files, as a context manager."""

    def __init__(self, folder: Path, *, properties: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.authority = authority("kcoord tests")
        self.stranger = authority("a stranger")
        self._write_stores()
        self.kafka = KafkaCluster(
            listeners=_LISTENERS,
            scram_users=[f"SCRAM-SHA-{bits}=[name=alice,password={PASSWORDS['alice']}]" for bits in (256, 512)],
            properties=self._server_properties() | dict(properties or {}),
        )

    def __enter__(self) -> Self:
        self.kafka.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kafka.stop()

    def bootstrap(self, listener: str) -> str:
        return self.kafka.bootstrap if listener == "CLIENT" else self.kafka.bootstrap_of(listener)

    def properties(self, kind: str) -> Path:
        """Writes a client.properties for Java and for kcoord, with bootstrap.servers in it."""
        listener, settings = self._clients()[kind]
        return self.write(kind, {"bootstrap.servers": self.bootstrap(listener), **settings})

    def write(self, name: str, properties: Mapping[str, str]) -> Path:
        path = self.folder / f"{name}.properties"
        path.write_text(to_text(properties), encoding="latin-1")
        return path

    def settings(self, kind: str) -> dict[str, str]:
        """Returns these settings without bootstrap.servers."""
        return dict(self._clients()[kind][1])

    def _clients(self) -> dict[str, tuple[str, dict[str, str]]]:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "authority.pem")}
        ssl = {"security.protocol": "SSL", **trust}
        sasl_ssl = {"security.protocol": "SASL_SSL", **trust}
        alice = {"sasl.jaas.config": jaas("scram.ScramLoginModule", username="alice", password=PASSWORDS["alice"])}
        scram512 = {"sasl.mechanism": "SCRAM-SHA-512", **alice}
        bob = {"sasl.jaas.config": jaas("plain.PlainLoginModule", username="bob", password=PASSWORDS["bob"])}
        carol = {"sasl.jaas.config": jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="carol")}
        client_pem = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.folder / "client.pem"),
        }
        return {
            "plaintext": ("CLIENT", {}),
            "ssl": ("TLS", ssl),
            "ssl-p12": ("TLS", {"security.protocol": "SSL", **self._store("truststore", "p12")}),
            "ssl-jks": ("TLS", {"security.protocol": "SSL", **self._store("truststore", "jks")}),
            "mtls": ("MUTUAL", ssl | client_pem),
            "mtls-p12": ("MUTUAL", ssl | self._store("keystore", "p12")),
            "mtls-jks": ("MUTUAL", ssl | self._store("keystore", "jks") | {"ssl.key.password": KEY_PASSWORD}),
            "scram": ("SECURE", sasl_ssl | scram512),
            "scram256": ("SECURE", sasl_ssl | alice | {"sasl.mechanism": "SCRAM-SHA-256"}),
            "plain": ("SECURE", sasl_ssl | bob | {"sasl.mechanism": "PLAIN"}),
            "oauth": ("SECURE", sasl_ssl | carol | {"sasl.mechanism": "OAUTHBEARER"}),
            "unencrypted": ("SASL", {"security.protocol": "SASL_PLAINTEXT", **scram512}),
            "expired": ("EXPIRED", ssl),
            "elsewhere": ("ELSEWHERE", ssl),
        }

    def _store(self, kind: str, suffix: str) -> dict[str, str]:
        """Returns the store settings. Kafka needs no type for JKS: it is the default."""
        return {
            f"ssl.{kind}.location": str(self.folder / f"{kind}.{suffix}"),
            f"ssl.{kind}.password": STORE_PASSWORD,
        } | ({f"ssl.{kind}.type": "PKCS12"} if suffix == "p12" else {})

    def _write_stores(self) -> None:
        (self.folder / "authority.pem").write_text(self.authority.certificate_pem)
        (self.folder / "stranger.pem").write_text(self.stranger.certificate_pem)
        signed(self.authority, "server").write_pem(self.folder / "server.pem")
        signed(self.authority, "expired", days=-1).write_pem(self.folder / "expired.pem")
        signed(self.authority, "elsewhere", hosts=("elsewhere.example",)).write_pem(self.folder / "elsewhere.pem")
        client = signed(self.authority, "client")
        # Not encrypted: Java 17 reads only keys with encryptions that others no longer support.
        client.write_pem(self.folder / "client.pem")
        client.write_pkcs12(self.folder / "keystore.p12", STORE_PASSWORD)
        # Written by Java's keytool, so that our code reads what Java writes.
        password = ["-storepass", STORE_PASSWORD]
        for suffix, kind in (("p12", "PKCS12"), ("jks", "JKS")):
            store = ["-keystore", f"truststore.{suffix}", "-storetype", kind, *password]
            self._keytool("-importcert", "-noprompt", "-alias", "authority", "-file", "authority.pem", *store)
        source = ["-srckeystore", "keystore.p12", "-srcstorepass", STORE_PASSWORD, "-srcalias", "client"]
        target = ["-destkeystore", "keystore.jks", "-deststoretype", "JKS", "-deststorepass", STORE_PASSWORD]
        self._keytool("-importkeystore", *source, *target, "-destkeypass", KEY_PASSWORD)

    def _keytool(self, *arguments: str) -> None:
        keytool = find_java().path.resolve().parent / "keytool"
        subprocess.run([keytool, *arguments], cwd=self.folder, capture_output=True, check=True, timeout=120)

    def _server_properties(self) -> dict[str, str]:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "authority.pem")}
        properties = {
            **trust,
            "ssl.keystore.type": "PEM",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "listener.name.mutual.ssl.client.auth": "required",
        }
        for listener in ("tls", "mutual", "secure", "expired", "elsewhere"):
            store = listener if listener in ("expired", "elsewhere") else "server"
            properties[f"listener.name.{listener}.ssl.keystore.location"] = str(self.folder / f"{store}.pem")
        scram = jaas("scram.ScramLoginModule")
        modules = {
            "scram-sha-256": scram,
            "scram-sha-512": scram,
            "plain": jaas("plain.PlainLoginModule", user_bob=PASSWORDS["bob"]),
            "oauthbearer": jaas("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="broker"),
        }
        for listener, mechanisms in {"secure": list(modules), "sasl": ["scram-sha-512"]}.items():
            enabled = ",".join(mechanism.upper() for mechanism in mechanisms)
            properties[f"listener.name.{listener}.sasl.enabled.mechanisms"] = enabled
            for mechanism in mechanisms:
                properties[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = modules[mechanism]
        return properties


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
