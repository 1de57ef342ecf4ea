"""`kcoord serve` behind TLS and logins, and what its clients need: certificates, users, client.properties.

| kind      | cluster | how                                                                                    |
|-----------|---------|----------------------------------------------------------------------------------------|
| scram256  | logins  | SASL_SSL, user alice                                                                   |
| scram512  | logins  | SASL_SSL, user alice                                                                   |
| plain     | logins  | SASL_SSL, user bob                                                                     |
| mutual    | mutual  | SSL with a certificate, user CN=client                                                 |
| wrong     | logins  | scram512 with another password                                                         |
| unknown   | logins  | scram512 of a user who is not there                                                    |
| expired   | mutual  | SSL with a certificate that has expired                                                |
| foreign   | mutual  | SSL with a certificate that a stranger signed                                          |
| bare      | mutual  | SSL without a certificate                                                              |
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kcoord.client.secret import Secret
from kcoord.security.users import editing_users
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.properties import to_text
from tests.integration.support.secure_kafka import jaas
from tests.support.certificates import authority, signed

PASSWORDS: Final = {"alice": 'al"ice=\\s #1', "bob": "bob's, secret"}
WRONG: Final = "not-hers-at-all"
LET_IN: Final = ("scram256", "scram512", "plain", "mutual")
REFUSED: Final = {"wrong": "credentials", "unknown": "credentials", "bare": "no-certificate"} | {
    "expired": "expired-certificate",
    "foreign": "untrusted-certificate",
}
"""The kinds that are refused, and why."""


class SecureServe:
    """Two clusters: one requires a login, the other a certificate."""

    def __init__(self, folder: Path, logins: EmbeddedCluster, mutual: EmbeddedCluster) -> None:
        self.folder = folder
        self.logins = logins
        self.mutual = mutual

    def cluster(self, kind: str) -> EmbeddedCluster:
        return self.mutual if kind in ("mutual", "bare", "expired", "foreign") else self.logins

    def properties(self, kind: str, more: Mapping[str, str] | None = None) -> Path:
        """Writes a client.properties for Java and for kcoord."""
        path = self.folder / f"{kind}.properties"
        settings = {"bootstrap.servers": self.cluster(kind).bootstrap, **self._java(kind)}
        path.write_text(to_text({**settings, **(more or {})}))
        return path

    def librdkafka(self, kind: str) -> dict[str, Any]:
        """Returns librdkafka's configuration of this kind."""
        java, folder = self._java(kind), self.folder
        settings: dict[str, Any] = {
            "bootstrap.servers": self.cluster(kind).bootstrap,
            "security.protocol": java["security.protocol"],
            "ssl.ca.location": str(folder / "authority.pem"),
        }
        if "sasl.mechanism" in java:
            name, password = self._user(kind)
            settings |= {"sasl.mechanisms": java["sasl.mechanism"], "sasl.username": name, "sasl.password": password}
        if "ssl.keystore.location" in java:
            store = java["ssl.keystore.location"]
            settings |= {"ssl.certificate.location": store, "ssl.key.location": store}
        return settings

    def refusals(self, cluster: EmbeddedCluster) -> list[str]:
        """Returns the reasons of refusals from the log, in its order."""
        lines = [line for line in cluster.log().splitlines() if " refused " in line]
        return [line.partition("why=")[2].partition(" ")[0] for line in lines]

    def _java(self, kind: str) -> dict[str, str]:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / "authority.pem")}
        if self.cluster(kind) is self.mutual:
            store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / f"{kind}.pem")}
            return {"security.protocol": "SSL", **trust, **({} if kind == "bare" else store)}
        name, password = self._user(kind)
        module = "plain.PlainLoginModule" if kind == "plain" else "scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            **trust,
            "sasl.mechanism": {"plain": "PLAIN", "scram256": "SCRAM-SHA-256"}.get(kind, "SCRAM-SHA-512"),
            "sasl.jaas.config": jaas(module, username=name, password=password),
        }

    def _user(self, kind: str) -> tuple[str, str]:
        name = {"plain": "bob", "unknown": "mallory"}.get(kind, "alice")
        return name, WRONG if kind in ("wrong", "unknown") else PASSWORDS[name]


@contextmanager
def secure_serve(folder: Path, topics: Mapping[str, int]) -> Iterator[SecureServe]:
    _write_files(folder)
    tls = ["--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key")]
    users = ["--sasl", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "--users", str(folder / "users.json"), "--verbose"]
    clients = ["--tls-client-ca", str(folder / "authority.pem"), "--verbose"]
    with (
        EmbeddedCluster(topics=topics, options=[*tls, *users]) as logins,
        EmbeddedCluster(topics=topics, options=[*tls, *clients]) as mutual,
    ):
        yield SecureServe(folder, logins, mutual)


def _write_files(folder: Path) -> None:
    trusted, stranger = authority("kcoord tests"), authority("a stranger")
    (folder / "authority.pem").write_text(trusted.certificate_pem)
    server = signed(trusted, "server")
    (folder / "server.pem").write_text(server.certificate_pem)
    (folder / "server.key").write_text(server.key_pem())
    signed(trusted, "client").write_pem(folder / "mutual.pem")
    signed(trusted, "late", days=-1).write_pem(folder / "expired.pem")
    signed(stranger, "client").write_pem(folder / "foreign.pem")
    with editing_users(folder / "users.json") as users:
        for name, password in PASSWORDS.items():
            users[0] = users[0].with_user(name, Secret(password))
