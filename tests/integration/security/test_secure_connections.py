"""Every kind of security against a real broker: which connections succeed, and the error of the others."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kcoord.admin.connecting.connection import (
    Connection,
    ConnectionOptions,
    host_and_port,
    librdkafka_configuration,
    resolve_connection,
)
from kcoord.admin.connecting.oauth import unsecured
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from tests.integration.security.java_settings import connected_by_java
from tests.integration.support.secure_kafka import KINDS, PASSWORDS, SecureKafka

METADATA = (ApiKey.METADATA, 12)
ACCEPTED = [kind for kind in KINDS if kind not in ("expired", "elsewhere")]
main: Any = import_module("kcoord.commands.main").main


def connection(
    secure_kafka: SecureKafka, kind: str | None, *pairs: tuple[str, str], to: str | None = None
) -> Connection:
    """Returns the connection of the file of this kind, to its own listener or another."""
    config = secure_kafka.properties(kind) if kind else None
    return resolve_connection(
        ConnectionOptions(command_config=config, pairs=pairs, bootstrap=secure_kafka.bootstrap(to) if to else None), {}
    )


def cluster_id(wanted: Connection) -> str:
    """Connects as a command does: requests versions first, then metadata."""
    host, port = host_and_port(wanted.bootstrap[0])
    with Client(host, port, security=wanted.security, timeout=wanted.request_timeout) as client:
        client.ask(ApiKey.API_VERSIONS, 3, client_software_name="kcoord", client_software_version="0")
        return str(client.ask(*METADATA, topics=()).cluster_id)


def refusal(wanted: Connection) -> str:
    """Returns the one line of the error, without the address."""
    with pytest.raises(ConnectionError) as caught:
        cluster_id(wanted)
    message = str(caught.value)
    assert "\n" not in message
    assert not any(secret in message for secret in PASSWORDS.values())
    return message.replace(wanted.bootstrap[0], "BROKER")


@pytest.mark.parametrize("kind", ACCEPTED)
def test_a_clients_own_file_lets_kcoord_in(secure_kafka: SecureKafka, kind: str) -> None:
    assert cluster_id(connection(secure_kafka, kind)) == secure_kafka.kafka.cluster_id


@pytest.mark.parametrize("kind", ACCEPTED)
def test_the_same_file_lets_librdkafka_in(secure_kafka: SecureKafka, kind: str) -> None:
    found = connection(secure_kafka, kind)
    assert found.needs_librdkafka is None
    admin = AdminClient(librdkafka_configuration(found))
    admin.poll(0)  # this requests a token
    assert admin.list_topics(timeout=60).cluster_id == secure_kafka.kafka.cluster_id


def test_the_same_files_let_java_in(secure_kafka: SecureKafka) -> None:
    files = [secure_kafka.properties(kind) for kind in ACCEPTED]
    assert dict(zip(ACCEPTED, connected_by_java(files), strict=True)) == dict.fromkeys(
        ACCEPTED, secure_kafka.kafka.cluster_id
    )


def test_the_names_of_librdkafka_do_the_same_without_a_file(secure_kafka: SecureKafka) -> None:
    pairs = [
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanisms", "SCRAM-SHA-256"),
        ("sasl.username", "alice"),
        ("sasl.password", PASSWORDS["alice"]),
        ("ssl.ca.location", str(secure_kafka.folder / "authority.pem")),
    ]
    assert cluster_id(connection(secure_kafka, None, *pairs, to="SECURE")) == secure_kafka.kafka.cluster_id


def test_a_token_of_a_file_lets_in(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    import time

    token = tmp_path / "token"
    token.write_text(unsecured({"sub": "carol"}, 600, time.time()).secret.reveal())
    endpoint = ("sasl.oauthbearer.token.endpoint.url", f"file://{token}")
    assert cluster_id(connection(secure_kafka, "oauth", endpoint)) == secure_kafka.kafka.cluster_id


def test_a_token_that_has_expired_does_not(secure_kafka: SecureKafka, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(unsecured({"sub": "carol"}, 600, 1_000_000_000).secret.reveal())
    endpoint = ("sasl.oauthbearer.token.endpoint.url", f"file://{token}")
    assert refusal(connection(secure_kafka, "oauth", endpoint)) == (
        "authentication failed for the token's user with OAUTHBEARER at BROKER: invalid_token"
    )


UNTRUSTED = (
    "the certificate of BROKER is not accepted: "
    "its authority is not trusted here; set ssl.truststore.location (-X ssl.ca.location)"
)
LOGINS = "OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"


@pytest.mark.parametrize(
    ("kind", "pair", "message"),
    [
        ("scram", ("sasl.password", "x"), "authentication failed for user alice with SCRAM-SHA-512 at BROKER"),
        ("scram256", ("sasl.password", "x"), "authentication failed for user alice with SCRAM-SHA-256 at BROKER"),
        ("scram", ("sasl.username", "mallory"), "authentication failed for user mallory with SCRAM-SHA-512 at BROKER"),
        ("plain", ("sasl.password", "x"), "authentication failed for user bob with PLAIN at BROKER"),
        (
            "unencrypted",
            ("sasl.mechanism", "PLAIN"),
            "BROKER does not offer PLAIN (sasl.mechanism); it offers SCRAM-SHA-512",
        ),
        ("ssl", ("ssl.ca.location", "stranger.pem"), UNTRUSTED),
        ("scram", ("ssl.ca.location", "stranger.pem"), UNTRUSTED),
    ],
)
def test_a_setting_that_is_wrong_is_told_in_one_line(
    secure_kafka: SecureKafka, kind: str, pair: tuple[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(secure_kafka.folder)
    assert refusal(connection(secure_kafka, kind, pair)) == message


def test_an_expired_certificate_is_told(secure_kafka: SecureKafka) -> None:
    assert refusal(connection(secure_kafka, "expired")) == (
        "the certificate of BROKER is not accepted: it has expired (or another of its chain has)"
    )


def test_a_certificate_for_another_host_is_told_and_may_be_left_unchecked(secure_kafka: SecureKafka) -> None:
    assert refusal(connection(secure_kafka, "elsewhere")) == (
        "the certificate of BROKER is not accepted: it is for another host name; connect by a name that it holds, "
        "or set ssl.endpoint.identification.algorithm= (empty) to leave the name unchecked"
    )
    unchecked = ("ssl.endpoint.identification.algorithm", "")
    assert cluster_id(connection(secure_kafka, "elsewhere", unchecked)) == secure_kafka.kafka.cluster_id


@pytest.mark.parametrize(
    ("kind", "listener", "message"),
    [
        ("plaintext", "TLS", "BROKER closed the connection: it speaks TLS: use security.protocol=SSL"),
        (
            "plaintext",
            "SECURE",
            f"BROKER closed the connection: it speaks TLS and it wants a login ({LOGINS}): "
            "use security.protocol=SASL_SSL",
        ),
        (
            "plaintext",
            "SASL",
            "BROKER closed the connection: it wants a login (SCRAM-SHA-512): use security.protocol=SASL_PLAINTEXT",
        ),
        ("ssl", "CLIENT", "BROKER closed the connection: it does not speak TLS: use security.protocol=PLAINTEXT"),
        (
            "ssl",
            "SECURE",
            f"BROKER closed the connection: it wants a login ({LOGINS}): use security.protocol=SASL_SSL",
        ),
        (
            "ssl",
            "SASL",
            "BROKER closed the connection: it does not speak TLS and it wants a login (SCRAM-SHA-512): "
            "use security.protocol=SASL_PLAINTEXT",
        ),
        ("ssl", "MUTUAL", "BROKER wants a client certificate, and none was given: set ssl.keystore.location"),
        ("unencrypted", "SECURE", "BROKER closed the connection: it speaks TLS: use security.protocol=SASL_SSL"),
        ("unencrypted", "CLIENT", "BROKER wants no login: use security.protocol=PLAINTEXT"),
        ("scram", "SASL", "BROKER closed the connection: it does not speak TLS: use security.protocol=SASL_PLAINTEXT"),
        ("scram", "TLS", "BROKER wants no login: use security.protocol=SSL"),
        (
            "scram",
            "CLIENT",
            "BROKER closed the connection: it does not speak TLS and it wants no login: "
            "use security.protocol=PLAINTEXT",
        ),
    ],
)
def test_a_wrong_security_protocol_is_told_with_the_right_one(
    secure_kafka: SecureKafka, kind: str, listener: str, message: str
) -> None:
    assert refusal(connection(secure_kafka, kind, to=listener)) == message


def test_a_command_says_it_in_one_line_and_exits_1(
    secure_kafka: SecureKafka, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_PASSWORD", "hush")
    arguments = [
        "groups",
        "list",
        "--command-config",
        str(secure_kafka.properties("scram")),
        "-X",
        "sasl.password=env:WRONG_PASSWORD",
    ]
    for debug in ([], ["--debug"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, *debug])
        captured = capfd.readouterr()
        assert ended.value.code == 1
        assert captured.out == ""
        assert captured.err.splitlines()[-1].startswith(
            "kcoord: authentication failed for user alice with SCRAM-SHA-512 at 127.0.0.1:"
        )
        assert len(captured.err.splitlines()) == 1 or debug
        assert "hush" not in captured.err


def test_a_command_works_through_every_door_with_its_options_anywhere(
    secure_kafka: SecureKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    config = ["--command-config", str(secure_kafka.properties("scram"))]
    for arguments in (["groups", "list", *config], [*config, "groups", "list"], ["groups", *config, "list"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "-o", "json"])
        captured = capfd.readouterr()
        assert (ended.value.code, captured.err) == (0, "")
        assert json.loads(captured.out)["kcoord"] == "groups-list/v1"
