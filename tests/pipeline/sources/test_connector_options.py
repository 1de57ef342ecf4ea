"""A connection as options of Spark's Kafka connector: by the names of Java's client, or one line why it cannot be
converted."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from kcoord.admin.connecting.connection import Connection, ConnectionOptions, resolve_connection
from kcoord.admin.connecting.jaas import login_module
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Sasl, Scram, Security, Tls
from kcoord.pipeline.sources.connector_options import NotForConnector, kafka_options
from tests.support.certificates import Identity, authority, signed

WORD = 'hunter2 "quoted" \\ = #;\n'


@pytest.fixture(scope="module")
def identity() -> Identity:
    return signed(authority("tests"), "client")


def options(security: Security | None = None, **facts: float) -> dict[str, str]:
    given = Connection(bootstrap=("a:1", "b:2"), security=security or Security(), client_id="me", **facts)  # type: ignore[arg-type]
    return kafka_options(given)


def test_only_what_is_committed_is_asked_for_and_all_brokers_are_named() -> None:
    assert options() == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.client.id": "me",
        "kafka.request.timeout.ms": "30000",
        "kafka.default.api.timeout.ms": "60000",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_java_wants_no_request_to_be_waited_for_longer_than_a_whole_call() -> None:
    long = options(request_timeout=90.0)
    assert (long["kafka.request.timeout.ms"], long["kafka.default.api.timeout.ms"]) == ("90000", "90000")


@pytest.mark.parametrize(
    ("sasl", "module", "more"),
    [
        (Plain(username="bob", password=Secret(WORD)), "PlainLoginModule", {}),
        (Scram(mechanism="SCRAM-SHA-512", username="bob", password=Secret(WORD)), "ScramLoginModule", {}),
        (
            Scram(mechanism="SCRAM-SHA-256", username="bob", password=Secret(WORD), is_delegation_token=True),
            "ScramLoginModule",
            {"tokenauth": "true"},
        ),
    ],
    ids=str,
)
def test_a_login_is_a_line_of_jaas_whatever_is_in_the_password(sasl: Sasl, module: str, more: dict[str, str]) -> None:
    settings = options(Security(sasl=sasl))
    assert settings["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert settings["kafka.sasl.mechanism"] == sasl.mechanism
    read = login_module(settings["kafka.sasl.jaas.config"])
    assert read.name == module
    assert {name: read.option(name) for name in read.options} == {"username": "bob", "password": WORD, **more}


def test_certificates_and_keys_go_as_text_so_that_workers_need_no_files(identity: Identity) -> None:
    tls = Tls(authorities="CA", certificate_chain="CHAIN", key=Secret(identity.key_pem()), versions=("TLSv1.3",))
    settings = options(Security(tls=tls))
    assert {name.removeprefix("kafka."): value for name, value in settings.items() if "ssl" in name} == {
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.keystore.key": identity.key_pem(),
    }
    assert settings["kafka.security.protocol"] == "SSL"


def test_whom_java_trusts_by_itself_is_trusted_if_nobody_is_named() -> None:
    settings = options(Security(tls=Tls(checks_host_name=False)))
    assert not any("store" in name for name in settings)
    assert settings["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_a_key_that_java_could_not_read_is_rewritten_as_one_that_it_can(identity: Identity) -> None:
    old = identity.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    assert "EC PRIVATE KEY" in old
    for key, password in ((old, None), (identity.key_pem(WORD), Secret(WORD))):
        tls = Tls(certificate_chain="CHAIN", key=Secret(key), key_password=password)
        rewritten = options(Security(tls=tls))["kafka.ssl.keystore.key"]
        assert rewritten.startswith("-----BEGIN PRIVATE KEY-----")
        found = load_pem_private_key(rewritten.encode(), None)
        assert found.public_key() == identity.key.public_key()


def test_a_wrong_password_of_a_key_is_said_and_neither_is_shown(identity: Identity) -> None:
    tls = Tls(certificate_chain="CHAIN", key=Secret(identity.key_pem("right")), key_password=Secret("hunter2"))
    with pytest.raises(
        NotForConnector, match=r"with this private key, which cannot be read \(is ssl.key.password"
    ) as at:
        options(Security(tls=tls))
    assert "hunter2" not in str(at.value)
    assert "BEGIN" not in str(at.value)


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        (
            (("security.protocol", "SSL"), ("enable.ssl.certificate.verification", "false")),
            "--connector spark-sql-kafka cannot connect without checking certificates "
            "(enable.ssl.certificate.verification=false): say --connector python",
        ),
        (
            (
                ("security.protocol", "SASL_PLAINTEXT"),
                ("sasl.mechanism", "OAUTHBEARER"),
                ("sasl.oauthbearer.config", "principal=carol"),
            ),
            "--connector spark-sql-kafka cannot connect with OAUTHBEARER: say --connector python",
        ),
    ],
    ids=["unchecked", "oauth"],
)
def test_what_java_cannot_do_is_one_line(pairs: tuple[tuple[str, str], ...], line: str) -> None:
    with pytest.raises(NotForConnector) as at:
        kafka_options(
            resolve_connection(ConnectionOptions(bootstrap="a:1", pairs=pairs), {"KCOORD_CONFIG": "/nowhere"})
        )
    assert str(at.value) == line


def test_a_file_of_javas_gives_java_its_own_settings_back(tmp_path: Path, identity: Identity) -> None:
    identity.write_pem(tmp_path / "client.pem")
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'a.PlainLoginModule required username="bob" password="bob-secret";',
        "ssl.truststore.location": str(tmp_path / "client.pem"),
        "ssl.keystore.location": str(tmp_path / "client.pem"),
    }
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    settings = kafka_options(resolve_connection(ConnectionOptions(command_config=tmp_path / "client.properties"), {}))
    assert settings["kafka.security.protocol"] == "SASL_SSL"
    assert login_module(settings["kafka.sasl.jaas.config"]).option("password") == "bob-secret"
    assert settings["kafka.ssl.truststore.certificates"].strip() == identity.certificate_pem.strip()
    assert settings["kafka.ssl.keystore.certificate.chain"].strip() == identity.certificate_pem.strip()
    assert "kafka.ssl.truststore.location" not in settings
