"""Options, files, contexts and environment variables are merged into one connection."""

import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from kcoord.admin.connecting.client_settings import BadConnection
from kcoord.admin.connecting.connection import (
    Connection,
    ConnectionOptions,
    NoCluster,
    host_and_port,
    librdkafka_configuration,
    resolve_connection,
)
from kcoord.admin.connecting.contexts import Context, Contexts, save
from kcoord.client.secret import Secret
from kcoord.client.security import OAuthBearer, Plain, Scram, Security
from tests.support.certificates import authority, signed

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
FILE = f"""# of an operator
bootstrap.servers=file:1
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={PLAIN.format("from-file", "hush")}
request.timeout.ms=5000
client.id=ops
key.deserializer=org.example.Whatever
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose contexts are in a folder of the test."""
    return {"KCOORD_CONFIG_DIR": str(tmp_path / "config")}


def save_contexts(environment: dict[str, str], current: str | None = None, **contexts: Context) -> None:
    save(Path(environment["KCOORD_CONFIG_DIR"], "contexts.toml"), Contexts(by_name=contexts, current=current))


def given(*pairs: tuple[str, str], **values: Any) -> ConnectionOptions:
    return ConnectionOptions(pairs=pairs, **values)


def refusal(wanted: ConnectionOptions, environment: dict[str, str]) -> str:
    with pytest.raises(BadConnection) as caught:
        resolve_connection(wanted, environment)
    assert "hush" not in str(caught.value)
    return str(caught.value)


def user(connection: Connection) -> str:
    assert isinstance(connection.security.sasl, Plain | Scram)
    return connection.security.sasl.username


# Bootstrap servers


def test_b_alone_is_a_cluster_without_security(environment: dict[str, str]) -> None:
    found = resolve_connection(given(bootstrap="a:1, b:2,"), environment)
    assert found.bootstrap == ("a:1", "b:2")
    assert found.security == Security()
    assert (found.client_id, found.request_timeout, found.source) == ("kcoord", 30.0, "-b")
    assert found.needs_librdkafka is None
    assert found.warnings == ()


def test_nothing_at_all_says_the_three_ways(environment: dict[str, str]) -> None:
    with pytest.raises(NoCluster, match=r"Say -b HOST:PORT, --command-config FILE .* or kcoord context add"):
        resolve_connection(given(), environment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", ("h", 1)),
        ("[::1]:9092", ("::1", 9092)),
        ("SASL_SSL://h:9092", ("h", 9092)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_addresses_are_read_as_java_reads_them(text: str, expected: tuple[str, int]) -> None:
    assert host_and_port(text) == expected


@pytest.mark.parametrize("text", ["h", "h:", ":1", "h:x", "h:0", "h:65536", "::1", "::1:9092", "h:²"])
def test_an_address_that_is_none_is_told_with_who_gave_it(text: str, environment: dict[str, str]) -> None:
    assert refusal(given(bootstrap=text), environment).startswith(f"-b: {text!r}")


def test_no_address_at_all_is_told(environment: dict[str, str]) -> None:
    assert refusal(given(bootstrap=" , "), environment) == "-b: no address is given: HOST:PORT is expected"


# Precedence


def test_a_file_gives_everything(config: Path, environment: dict[str, str]) -> None:
    found = resolve_connection(given(command_config=config), environment)
    assert found.bootstrap == ("file:1",)
    assert found.source == f"{config}:2"
    assert found.security == Security(sasl=Plain(username="from-file", password=Secret("hush")))
    assert (found.client_id, found.request_timeout) == ("ops", 5.0)
    assert found.ignored == (f"key.deserializer ({config}:8)",)


def test_x_wins_over_the_file_one_key_at_a_time(config: Path, environment: dict[str, str]) -> None:
    found = resolve_connection(
        given(("sasl.username", "me"), ("sasl.username", "myself"), command_config=config), environment
    )
    assert found.security == Security(sasl=Plain(username="myself", password=Secret("hush")))


def test_b_wins_over_all_and_the_option_over_the_timeout_of_the_file(config: Path, environment: dict[str, str]) -> None:
    wanted = given(("bootstrap.servers", "x:1"), bootstrap="b:1", command_config=config, request_timeout=7.0)
    found = resolve_connection(wanted, environment)
    assert (found.bootstrap, found.request_timeout, user(found)) == (("b:1",), 7.0, "from-file")


def test_the_environment_is_below_the_command_line(config: Path, environment: dict[str, str]) -> None:
    environment |= {"KCOORD_COMMAND_CONFIG": str(config), "KCOORD_BOOTSTRAP_SERVER": "env:1"}
    assert resolve_connection(given(), environment).bootstrap == ("env:1",)
    assert resolve_connection(given(), environment).source == "KCOORD_BOOTSTRAP_SERVER"
    assert user(resolve_connection(given(bootstrap="b:1"), environment)) == "from-file"
    assert user(resolve_connection(given(("sasl.username", "me")), environment)) == "me"


def test_the_current_context_counts_where_nothing_else_says_where(config: Path, environment: dict[str, str]) -> None:
    save_contexts(
        environment,
        current="prod",
        prod=Context(bootstrap="prod:1", command_config=config),
        test=Context(bootstrap="t:1"),
    )
    found = resolve_connection(given(), environment)
    assert (found.bootstrap, found.source, user(found)) == (("prod:1",), "context prod", "from-file")
    assert resolve_connection(given(("sasl.username", "me")), environment).security.sasl == Plain(
        username="me", password=Secret("hush")
    )
    assert resolve_connection(given(), environment | {"KCOORD_CONTEXT": "test"}).bootstrap == ("t:1",)
    assert resolve_connection(given(context="test"), environment | {"KCOORD_CONTEXT": "prod"}).bootstrap == ("t:1",)


@pytest.mark.parametrize("variable", ["KCOORD_CONTEXT", "UNRELATED"])
def test_credentials_of_a_context_are_not_shown_to_another_cluster(
    config: Path, environment: dict[str, str], variable: str
) -> None:
    save_contexts(environment, current="prod", prod=Context(bootstrap="prod:1", command_config=config))
    environment[variable] = "prod"
    assert resolve_connection(given(bootstrap="b:1"), environment).security == Security()
    assert resolve_connection(given(), environment | {"KCOORD_BOOTSTRAP_SERVER": "env:1"}).security == Security()


def test_a_context_that_is_named_on_the_line_goes_with_b_and_not_with_the_environment(
    config: Path, environment: dict[str, str]
) -> None:
    save_contexts(environment, prod=Context(bootstrap="prod:1", command_config=config))
    environment["KCOORD_BOOTSTRAP_SERVER"] = "env:1"
    assert resolve_connection(given(context="prod"), environment).bootstrap == ("prod:1",)
    found = resolve_connection(given(context="prod", bootstrap="b:1"), environment)
    assert (found.bootstrap, user(found)) == (("b:1",), "from-file")


def test_a_context_is_not_even_read_where_it_does_not_count(environment: dict[str, str]) -> None:
    folder = Path(environment["KCOORD_CONFIG_DIR"])
    folder.mkdir()
    (folder / "contexts.toml").write_text("broken")
    assert resolve_connection(given(bootstrap="b:1"), environment).bootstrap == ("b:1",)


def test_others_who_may_read_the_contexts_are_warned_about(environment: dict[str, str]) -> None:
    save_contexts(environment, current="prod", prod=Context(bootstrap="prod:1"))
    Path(environment["KCOORD_CONFIG_DIR"], "contexts.toml").chmod(0o640)
    (warning,) = resolve_connection(given(), environment).warnings
    assert "can be read by others (mode 640)" in warning


# Errors


def test_a_file_that_is_not_there_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    missing = tmp_path / "missing.properties"
    message = f"cannot read {missing}: No such file or directory"
    assert refusal(given(command_config=missing), environment) == f"--command-config: {message}"
    environment["KCOORD_COMMAND_CONFIG"] = str(missing)
    assert refusal(given(), environment) == f"KCOORD_COMMAND_CONFIG: {message}"
    save_contexts(environment, prod=Context(command_config=missing))
    assert refusal(given(context="prod"), environment) == f"context prod: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("security.protocol=SSSL", "security.protocol: 'SSSL' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            'sasl.jaas.config=x.PlainLoginModule required password="hush',
            "sasl.jaas.config: a quote that is never closed",
        ),
        ("sasl.jaas.config=env:NO_SUCH", "sasl.jaas.config: the environment variable NO_SUCH is not set"),
        ("client.id=\\u00", "\\u must be followed by four hexadecimal digits"),
        ("request.timeout.ms=soon", "request.timeout.ms: 'soon' is no number of milliseconds"),
        ("bootstrap.servers=h", "'h' is not HOST:PORT"),
    ],
)
def test_a_broken_line_of_a_file_is_told_with_file_and_line(
    line: str, message: str, config: Path, environment: dict[str, str]
) -> None:
    config.write_text(f"{FILE}{line}\n")
    assert refusal(given(command_config=config), environment).startswith(f"{config}:9: {message}")


SASL = ("security.protocol", "SASL_PLAINTEXT")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([SASL, ("sasl.username", "a")], "-X: sasl.username: sasl.mechanism is missing"),
        ([SASL, ("sasl.mechanisms", "PLAIN")], "sasl.username is missing: sasl.mechanism=PLAIN needs it"),
        ([SASL, ("sasl.mechanisms", "SCRAM-SHA-256"), ("sasl.username", "a")], "sasl.password is missing"),
        ([SASL, ("sasl.mechanisms", "OAUTHBEARER")], "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        (
            [SASL, ("sasl.mechanisms", "OAUTHBEARER"), ("sasl.oauthbearer.token.endpoint.url", "ftp://x")],
            "-X: sasl.oauthbearer.token.endpoint.url: it must begin with https:, http: or file:",
        ),
        (
            [SASL, ("sasl.mechanisms", "OAUTHBEARER"), ("sasl.oauthbearer.token.endpoint.url", "https://x")],
            "sasl.oauthbearer.client.secret is missing",
        ),
        ([("security.protocol", "ssl"), ("ssl.ca.location", "/no/such")], "-X: ssl.ca.location: cannot read /no/such"),
        (
            [("security.protocol", "ssl"), ("ssl.key.location", "/no/such")],
            "-X: ssl.key.location: cannot read /no/such",
        ),
        (
            [("security.protocol", "ssl"), ("ssl.keystore.location", "/no")],
            "-X: ssl.keystore.location: cannot read /no",
        ),
        (
            [("security.protocol", "ssl"), ("enable.ssl.certificate.verification", "maybe")],
            "'maybe' is neither true nor false",
        ),
        ([("security.protocol", "ssl"), ("ssl.endpoint.identification.algorithm", "x")], "is neither https nor empty"),
        ([("security.protocol", "ssl"), ("ssl.enabled.protocols", "TLSv1.1")], "none of TLSv1.2, TLSv1.3 is in it"),
    ],
)
def test_settings_that_make_no_connection_are_told(
    pairs: list[tuple[str, str]], message: str, environment: dict[str, str]
) -> None:
    assert message in refusal(given(*pairs, bootstrap="h:1"), environment)


def test_a_login_without_a_protocol_for_it_is_warned_about_as_java_ignores_it(environment: dict[str, str]) -> None:
    found = resolve_connection(given(("sasl.username", "a"), bootstrap="h:1"), environment)
    assert found.warnings == ("sasl.username has no effect with security.protocol=PLAINTEXT (-X)",)


# TLS


def test_a_pem_of_x_takes_the_place_of_the_stores_of_the_file(tmp_path: Path, environment: dict[str, str]) -> None:
    mine, theirs = authority("mine"), authority("theirs")
    client = signed(mine, "client")
    (tmp_path / "theirs.pem").write_text(theirs.certificate_pem)
    (tmp_path / "mine.pem").write_text(mine.certificate_pem)
    client.write_pem(tmp_path / "client.pem", "key-hush")
    config = tmp_path / "ssl.properties"
    config.write_text(
        f"bootstrap.servers=h:1\nsecurity.protocol=SSL\nssl.truststore.location={tmp_path}/theirs.pem\n"
        f"ssl.truststore.type=PEM\nssl.keystore.location={tmp_path}/client.pem\nssl.key.password=key-hush\n"
        "ssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.3,TLSv1.1\n"
    )
    tls = resolve_connection(
        given(("ssl.ca.location", f"{tmp_path}/mine.pem"), command_config=config), environment
    ).security.tls
    assert tls is not None
    assert tls.authorities == mine.certificate_pem
    assert tls.certificate_chain == client.certificate_pem
    assert tls.key_password == Secret("key-hush")
    assert (tls.checks_host_name, tls.checks_certificate, tls.versions) == (False, True, ("TLSv1.3",))


def test_a_store_that_cannot_be_read_is_told_by_the_name_that_the_file_has_for_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    config = tmp_path / "ssl.properties"
    config.write_text("security.protocol=SSL\nssl.truststore.location=/no/such.jks\nbootstrap.servers=h:1\n")
    assert refusal(given(command_config=config), environment) == (
        f"{config}:2: ssl.truststore.location: cannot read /no/such.jks: No such file or directory"
    )


def test_certificates_may_stand_in_the_file_itself(tmp_path: Path, environment: dict[str, str]) -> None:
    mine = authority("mine")
    client = signed(mine, "client")
    config = tmp_path / "ssl.properties"

    def one_line(pem: str) -> str:
        return pem.replace("\n", "\\n")

    config.write_text(
        f"bootstrap.servers=h:1\nsecurity.protocol=SSL\nssl.truststore.type=PEM\nssl.keystore.type=PEM\n"
        f"ssl.truststore.certificates={one_line(mine.certificate_pem)}\n"
        f"ssl.keystore.certificate.chain={one_line(client.certificate_pem)}\nssl.keystore.key={one_line(client.key_pem())}\n"
    )
    tls = resolve_connection(given(command_config=config), environment).security.tls
    assert tls is not None
    assert (tls.authorities, tls.certificate_chain) == (mine.certificate_pem, client.certificate_pem)
    assert tls.key == Secret(client.key_pem().strip())


# librdkafka


def test_the_same_is_said_to_librdkafka(config: Path, environment: dict[str, str]) -> None:
    found = resolve_connection(given(command_config=config), environment)
    assert found.librdkafka == {
        "bootstrap.servers": "file:1",
        "client.id": "ops",
        "security.protocol": "SASL_PLAINTEXT",
        "socket.timeout.ms": "5000",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "from-file",
        "sasl.password": Secret("hush"),
    }
    assert "hush" not in repr(found)
    assert librdkafka_configuration(found)["sasl.password"] == "hush"


def test_a_setting_that_only_librdkafka_knows_needs_librdkafka(environment: dict[str, str]) -> None:
    found = resolve_connection(given(("broker.address.family", "v4"), bootstrap="h:1"), environment)
    assert found.needs_librdkafka == "broker.address.family: only librdkafka knows that setting"
    assert found.librdkafka["broker.address.family"] == "v4"


def test_kerberos_needs_librdkafka(tmp_path: Path, environment: dict[str, str]) -> None:
    config = tmp_path / "kerberos.properties"
    config.write_text(
        "bootstrap.servers=h:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.kerberos.service.name=kafka\n"
        'sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required keyTab="/k" principal="me@R";\n'
    )
    found = resolve_connection(given(command_config=config), environment)
    assert found.needs_librdkafka == "sasl.mechanism=GSSAPI"
    assert found.librdkafka["sasl.mechanisms"] == "GSSAPI"
    kerberos = {key: value for key, value in found.librdkafka.items() if key.startswith("sasl.kerberos")}
    assert kerberos == {
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "me@R",
    }


@pytest.mark.parametrize("url", ["file:{}", "file://{}"])
def test_a_token_of_a_file_is_given_to_both_clients(url: str, tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "my token"
    path.write_text("a.b.c\n")
    pairs = [
        SASL,
        ("sasl.mechanism", "OAUTHBEARER"),
        ("sasl.oauthbearer.token.endpoint.url", url.format(str(path).replace(" ", "%20"))),
    ]
    found = resolve_connection(given(*pairs, bootstrap="h:1"), environment)
    assert isinstance(found.security.sasl, OAuthBearer)
    assert found.security.sasl.token().reveal() == "a.b.c"
    assert librdkafka_configuration(found)["oauth_cb"]("")[0] == "a.b.c"


def test_an_authorization_server_is_trusted_apart_from_the_brokers(tmp_path: Path, environment: dict[str, str]) -> None:
    """Java does the same: the truststore of the brokers, mostly a private one, does not apply to the token endpoint."""
    signer = authority("of the login")
    identity = signed(signer, "login")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(identity.write_pem(tmp_path / "login.pem"))
    (tmp_path / "brokers.pem").write_text(authority("of the brokers").certificate_pem)
    (tmp_path / "signer.pem").write_text(signer.certificate_pem)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/token"
        pairs = [
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", f"{tmp_path}/brokers.pem"),
            ("sasl.mechanism", "OAUTHBEARER"),
            ("sasl.oauthbearer.token.endpoint.url", url),
            ("sasl.oauthbearer.client.id", "me"),
            ("sasl.oauthbearer.client.secret", "hush"),
        ]
        trusting = resolve_connection(
            given(*pairs, ("https.ca.location", f"{tmp_path}/signer.pem"), bootstrap="h:1"), environment
        )
        thread = threading.Thread(target=_give_a_token, args=(listening, server))
        thread.start()
        assert isinstance(trusting.security.sasl, OAuthBearer)
        try:
            assert trusting.security.sasl.token().reveal() == "a.b.c"
        finally:
            thread.join()


def _give_a_token(listening: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listening.accept()
    with context.wrap_socket(connection, server_side=True) as encrypted:
        request = b""
        while b"client_credentials" not in request:  # the body may arrive separately, and must be read before closing
            request += encrypted.recv(10_000)
        body = b'{"access_token": "a.b.c"}'
        encrypted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def test_references_are_followed_in_x_and_in_files(config: Path, environment: dict[str, str]) -> None:
    config.write_text(FILE.replace("hush", "env:FROM_FILE"))
    environment |= {"FROM_FILE": "one", "FROM_X": "two"}
    assert resolve_connection(given(command_config=config), environment).librdkafka["sasl.password"] == Secret("one")
    changed = resolve_connection(given(("sasl.password", "env:FROM_X"), command_config=config), environment)
    assert changed.librdkafka["sasl.password"] == Secret("two")
    assert os.environ.get("FROM_X") is None


@pytest.mark.parametrize(
    "line", ["sasl.password=command:touch {}", "sasl.jaas.config=" + PLAIN.format("me", "command:touch {}")]
)
@pytest.mark.parametrize("way", ["option", "environment", "context"])
def test_a_file_runs_no_command_whoever_names_it(
    line: str, way: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    trace, path = tmp_path / "trace", tmp_path / "from-somewhere.properties"
    path.write_text(f"bootstrap.servers=b:1\n{line.format(trace)}\n")
    wanted = given(command_config=path if way == "option" else None)
    if way == "environment":
        environment["KCOORD_COMMAND_CONFIG"] = str(path)
    if way == "context":
        save_contexts(environment, "theirs", theirs=Context(command_config=path))
    message = refusal(wanted, environment)
    assert message.startswith(f"{path}:2: sasl.")
    assert "command: runs a program, which no file may ask for" in message
    assert not trace.exists()


def test_commands_are_run_of_x_and_of_contexts_but_not_of_what_they_refer_to(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    jaas = PLAIN.format("me", "command:echo hush")
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    assert resolve_connection(given(*sasl.items(), bootstrap="b:1"), environment).librdkafka["sasl.password"] == Secret(
        "hush"
    )
    save_contexts(environment, "mine", mine=Context(bootstrap="b:1", settings=sasl))
    assert resolve_connection(given(), environment).librdkafka["sasl.password"] == Secret("hush")
    fetched = tmp_path / "jaas"
    fetched.write_text(jaas)
    message = refusal(given(*(sasl | {"sasl.jaas.config": f"file:{fetched}"}).items(), bootstrap="b:1"), environment)
    assert "no file may ask for" in message
