"""`kcoord proxy` between clients and brokers that both require authentication."""

import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.connect_errors import CannotConnect, Disconnected
from kcoord.client.kio_codec import KioCodec
from kcoord.client.secret import Secret
from kcoord.client.security import Scram, Security, Tls
from kcoord.protocol.headers import RequestHeader
from kcoord.security.users import editing_users
from kcoord.testing.properties import to_text
from kcoord.testing.proxy import ProxyProcess, proxy_command
from kcoord.testing.tools import JavaTools
from tests.integration.support.secure_kafka import PASSWORDS, SecureKafka, jaas
from tests.support.certificates import authority, signed

DEADLINE = 120.0
DOMAIN = "kafka.test"
PASSWORD = "here-she-has-another"
"""The password of alice, if logins end at the proxy."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the proxy's own authority, certificate and users, and a client's certificate."""
    folder = tmp_path_factory.mktemp("proxy")
    proxy_authority = authority("the proxy's authority")
    (folder / "authority.pem").write_text(proxy_authority.certificate_pem)
    names = ("127.0.0.1", "localhost", DOMAIN, *(f"b{node}.{DOMAIN}" for node in range(4)))
    signed(proxy_authority, "proxy", hosts=names).write_pem(folder / "proxy.pem")
    signed(proxy_authority, "client").write_pem(folder / "client.pem")
    with editing_users(folder / "users.json") as users:
        users[0] = users[0].with_user("alice", Secret(PASSWORD))
    return folder


def tls_options(folder: Path) -> list[str]:
    return ["--tls-cert", str(folder / "proxy.pem")]


def login_options(folder: Path) -> list[str]:
    return [*tls_options(folder), "--sasl", "SCRAM-SHA-512", "--users", str(folder / "users.json")]


@pytest.fixture(scope="module")
def ending(folder: Path, secure_kafka: SecureKafka) -> Iterator[ProxyProcess]:
    """A proxy at which logins of clients end; it logs in upstream as the broker's own alice, over TLS."""
    options = [*login_options(folder), "--upstream-config", str(secure_kafka.properties("scram"))]
    with ProxyProcess(secure_kafka.bootstrap("SECURE"), *options) as proxy:
        yield proxy


def of_alice(bootstrap: str, password: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": password,
        "log_level": 0,
        **more,
    }


def brokers(settings: dict[str, Any]) -> dict[int, str]:
    """Returns the brokers in librdkafka's metadata."""
    found = AdminClient(settings).list_topics(timeout=30).brokers
    return {node: f"{each.host}:{each.port}" for node, each in found.items()}


def until(find: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not find():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


# Logins that are forwarded.


@pytest.mark.parametrize(("listener", "kind"), [("SASL", None), ("SECURE", "ssl")])
def test_a_login_passes_to_the_broker(secure_kafka: SecureKafka, listener: str, kind: str | None) -> None:
    """This includes TLS between the proxy and the broker."""
    config = ["--upstream-config", str(secure_kafka.properties(kind))] if kind else []
    with ProxyProcess(secure_kafka.bootstrap(listener), *config) as proxy:
        assert "upstream wants a login" in proxy.log()
        settings = {"security.protocol": "SASL_PLAINTEXT"}
        endpoints = brokers(of_alice(proxy.bootstrap, PASSWORDS["alice"], **settings))
        assert list(endpoints) == [1]
        assert endpoints[1] != secure_kafka.bootstrap(listener)
        with pytest.raises(KafkaException):
            AdminClient(of_alice(proxy.bootstrap, "wrong", **settings)).list_topics(timeout=5)
        assert brokers(of_alice(proxy.bootstrap, PASSWORDS["alice"], **settings)) == endpoints


# Logins that end at the proxy.


def test_a_login_over_tls_ends_at_the_proxy(ending: ProxyProcess, folder: Path) -> None:
    settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(folder / "authority.pem")}
    endpoints = brokers(of_alice(ending.bootstrap, PASSWORD, **settings))
    assert list(endpoints) == [1]
    assert endpoints[1].startswith("127.0.0.1:")


def test_java_logs_in_over_tls(ending: ProxyProcess, folder: Path, java_tools: JavaTools) -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas("scram.ScramLoginModule", username="alice", password=PASSWORD),
    }
    config = folder / "java.properties"
    config.write_text(to_text(properties))
    arguments = ("--bootstrap-server", ending.bootstrap, "--command-config", config)
    made = java_tools.run("topics", *arguments, "--create", "--topic", "by-java", "--partitions", "1", timeout=DEADLINE)
    assert "Created topic by-java" in made.stdout, made.stderr


def test_who_does_not_log_in_as_he_should_is_refused_and_nobody_else_is(ending: ProxyProcess, folder: Path) -> None:
    tls = Tls(authorities=(folder / "authority.pem").read_text())

    def client(password: str) -> Client:
        login = Scram(mechanism="SCRAM-SHA-512", username="alice", password=Secret(password))
        host, _, port = ending.bootstrap.rpartition(":")
        return Client(host, int(port), security=Security(tls=tls, sasl=login))

    host, _, port = ending.bootstrap.rpartition(":")
    with client(PASSWORD) as good:
        with pytest.raises(CannotConnect, match="authentication failed"):
            client(PASSWORDS["alice"])  # the broker's, not the proxy's
        with Client(host, int(port), security=Security(tls=tls)) as early, pytest.raises((CannotConnect, Disconnected)):
            early.ask(ApiKey.METADATA, 12, topics=())
        with socket.create_connection((host, int(port)), timeout=60) as plain:
            plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")  # no TLS
            plain.recv(100)
        assert good.ask(ApiKey.DESCRIBE_CLUSTER, 1).brokers
    until(lambda: all(f"why={why}" in ending.log() for why in ("credentials", "before-login", "not-tls")), "the lines")
    assert PASSWORD not in ending.log()


def test_a_second_login_is_no_matter_of_the_brokers(ending: ProxyProcess, folder: Path) -> None:
    """It would authenticate the proxy's own connection with the client's credentials (KIP-368)."""
    login = Scram(mechanism="SCRAM-SHA-512", username="alice", password=Secret(PASSWORD))
    tls = Tls(authorities=(folder / "authority.pem").read_text())
    host, _, port = ending.bootstrap.rpartition(":")
    with Client(host, int(port), security=Security(tls=tls, sasl=login)) as client, pytest.raises(Disconnected):
        client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512")


def test_certificates_are_shown_and_asked_for_on_both_sides(folder: Path, secure_kafka: SecureKafka) -> None:
    options = [*tls_options(folder), "--tls-client-ca", str(folder / "authority.pem")]
    upstream = ["--upstream-config", str(secure_kafka.properties("mtls"))]
    with ProxyProcess(secure_kafka.bootstrap("MUTUAL"), *options, *upstream) as proxy:
        settings: dict[str, Any] = {
            "bootstrap.servers": proxy.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "authority.pem"),
            "log_level": 0,
        }
        store = str(folder / "client.pem")
        assert list(brokers({**settings, "ssl.certificate.location": store, "ssl.key.location": store})) == [1]
        with pytest.raises(KafkaException):
            AdminClient(settings).list_topics(timeout=5)
        assert "why=no-certificate" in proxy.log()


# SNI names instead of ports.


def test_with_sni_brokers_have_names_and_one_port(folder: Path, secure_kafka: SecureKafka) -> None:
    with ProxyProcess(secure_kafka.kafka.bootstrap, *tls_options(folder), "--sni", DOMAIN) as proxy:
        port = int(proxy.bootstrap.rpartition(":")[2])
        for name in (DOMAIN, f"b1.{DOMAIN}", f"B1.{DOMAIN.upper()}"):
            metadata = ask_by_name(folder, port, name)
            assert [(each.node_id, each.host, each.port) for each in metadata.brokers] == [(1, f"b1.{DOMAIN}", port)]
        with pytest.raises(ConnectionError):
            ask_by_name(folder, port, f"b3.{DOMAIN}")  # no such broker exists


def ask_by_name(folder: Path, port: int, name: str) -> Any:
    """Requests Metadata from the broker with that SNI name."""
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    asking = KioCodec(ApiKey.METADATA, 12)
    line = socket.create_connection(("127.0.0.1", port), timeout=60)
    with context.wrap_socket(line, server_hostname=name) as connection:
        connection.sendall(asking.encode_request(RequestHeader(ApiKey.METADATA, 12, 1, "me"), {"topics": ()}))
        received = b""
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4]):
            chunk = connection.recv(1 << 16)
            if not chunk:
                raise ConnectionError("closed")
            received += chunk
        return asking.decode_response(received[4:])[1]


# The proxy's trust in brokers.


@pytest.mark.parametrize(
    ("listener", "kind", "message"),
    [
        ("EXPIRED", "expired", "has expired"),
        ("ELSEWHERE", "elsewhere", "is not accepted"),
        ("SECURE", "wrong", "authentication failed for user alice with SCRAM-SHA-512"),
        ("CLIENT", "ssl", "it does not speak TLS: use security.protocol=PLAINTEXT"),
        ("TLS", "plaintext", "it speaks TLS: use security.protocol=SSL"),
    ],
)
def test_a_broker_that_is_not_trusted_or_does_not_let_us_in_is_one_line(
    secure_kafka: SecureKafka, listener: str, kind: str, message: str
) -> None:
    if kind == "wrong":
        wrong = jaas("scram.ScramLoginModule", username="alice", password="not-hers")
        config = secure_kafka.write("wrong", {**secure_kafka.settings("scram"), "sasl.jaas.config": wrong})
    else:
        config = secure_kafka.properties(kind)
    command = proxy_command(secure_kafka.bootstrap(listener), ["--upstream-config", str(config)])
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "not-hers" not in done.stderr
