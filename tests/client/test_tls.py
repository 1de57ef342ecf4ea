"""TLS of the client against servers with all kinds of certificates. Tests with real brokers are in integration/."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.connect_errors import CannotConnect, TlsFailed
from kcoord.client.secret import Secret
from kcoord.client.security import Security, Tls
from kcoord.client.tls import BadTlsMaterial, context_of, start_tls
from tests.support.certificates import Identity, authority, signed

AUTHORITY = authority("the authority")
SERVER = signed(AUTHORITY, "server")
CLIENT = signed(AUTHORITY, "client")
TRUSTING = Tls(authorities=AUTHORITY.certificate_pem)


@contextmanager
def serving(
    identity: Identity, folder: Path, *, host: str = "127.0.0.1", wants_client: bool = False, version: str = "TLSv1_3"
) -> Iterator[int]:
    """Yields the port of a server that sends one greeting to each client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.write_pem(folder / f"{identity.name}.pem"))
    context.maximum_version = ssl.TLSVersion[version]
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=AUTHORITY.certificate_pem)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        thread = threading.Thread(target=_greet, args=(listening, context))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _greet(listening: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as encrypted:
                    encrypted.recv(1)
            except OSError:
                continue


def refusal(port: int, tls: Tls, host: str = "127.0.0.1") -> str:
    with pytest.raises(ConnectionError) as caught, Client(host, port, security=Security(tls=tls)) as client:
        client.ask(ApiKey.API_VERSIONS, 0)
    return str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_of_a_trusted_authority_is_accepted_by_name_and_by_address(host: str, tmp_path: Path) -> None:
    with serving(SERVER, tmp_path) as port, Client(host, port, security=Security(tls=TRUSTING)) as client:
        assert client.where == f"{host}:{port}"


def test_an_ipv6_address_is_connected_to_and_shown_in_brackets(tmp_path: Path) -> None:
    identity = signed(AUTHORITY, "six", hosts=("::1",))
    with (
        serving(identity, tmp_path, host="::1") as port,
        Client("::1", port, security=Security(tls=TRUSTING)) as client,
    ):
        assert client.where == f"[::1]:{port}"


def test_an_expired_certificate_is_called_so(tmp_path: Path) -> None:
    with serving(signed(AUTHORITY, "expired", days=-1), tmp_path) as port:
        assert refusal(port, TRUSTING) == (
            f"the certificate of 127.0.0.1:{port} is not accepted: it has expired (or another of its chain has)"
        )


def test_an_authority_that_is_not_trusted_is_told_with_what_to_set(tmp_path: Path) -> None:
    stranger = Tls(authorities=authority("a stranger").certificate_pem)
    with serving(SERVER, tmp_path) as port:
        assert refusal(port, stranger) == (
            f"the certificate of 127.0.0.1:{port} is not accepted: "
            "its authority is not trusted here; set ssl.truststore.location (-X ssl.ca.location)"
        )


@pytest.mark.parametrize("trusted", ["intermediate", "leaf"])
def test_whatever_is_trusted_ends_the_chain_as_in_java(trusted: str, tmp_path: Path) -> None:
    intermediate = authority("an intermediate", by=AUTHORITY)
    leaf = signed(intermediate, "server")
    pem = {"intermediate": intermediate, "leaf": leaf}[trusted].certificate_pem
    with serving(leaf, tmp_path) as port:
        Client("127.0.0.1", port, security=Security(tls=Tls(authorities=pem))).close()
        assert "its authority is not trusted here" in refusal(port, TRUSTING)


@pytest.mark.parametrize("host", [".broker", "", "a" * 70])
def test_a_host_that_no_certificate_can_name_is_told(host: str) -> None:
    near, far = socket.socketpair()
    with near, far, pytest.raises(TlsFailed) as caught:
        start_tls(near, host, TRUSTING, where=f"{host}:9093")
    assert str(caught.value) == f"no certificate can be for {host}:9093: it is no name of a host"


def test_whom_the_system_trusts_counts_where_no_authority_is_given(tmp_path: Path) -> None:
    with serving(SERVER, tmp_path) as port:
        assert "its authority is not trusted here" in refusal(port, Tls())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_for_another_host_is_refused_unless_names_are_not_checked(host: str, tmp_path: Path) -> None:
    with serving(signed(AUTHORITY, "elsewhere", hosts=("elsewhere.example",)), tmp_path) as port:
        assert "it is for another host name" in refusal(port, TRUSTING, host)
        blind = Tls(authorities=AUTHORITY.certificate_pem, checks_host_name=False)
        Client(host, port, security=Security(tls=blind)).close()


def test_nothing_is_checked_where_that_was_asked_for(tmp_path: Path) -> None:
    with serving(signed(AUTHORITY, "expired", days=-1, hosts=("elsewhere.example",)), tmp_path) as port:
        Client("127.0.0.1", port, security=Security(tls=Tls(checks_certificate=False))).close()


def test_a_server_that_is_too_old_is_told_with_the_versions_that_are_allowed(tmp_path: Path) -> None:
    newest_only = Tls(authorities=AUTHORITY.certificate_pem, versions=("TLSv1.3",))
    with serving(SERVER, tmp_path, version="TLSv1_2") as port:
        assert refusal(port, newest_only) == f"127.0.0.1:{port} speaks no TLS version that is allowed here (TLSv1.3)"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_server_that_wants_a_client_certificate_and_gets_none_says_so(version: str, tmp_path: Path) -> None:
    with serving(SERVER, tmp_path, wants_client=True, version=version) as port:
        assert refusal(port, TRUSTING) == (
            f"127.0.0.1:{port} wants a client certificate, and none was given: set ssl.keystore.location"
        )


def test_a_client_certificate_of_a_stranger_is_refused_by_the_server(tmp_path: Path) -> None:
    foreign = signed(authority("a stranger"), "client")
    tls = Tls(
        authorities=AUTHORITY.certificate_pem,
        certificate_chain=foreign.certificate_pem,
        key=Secret(foreign.key_pem()),
    )
    with serving(SERVER, tmp_path, wants_client=True) as port:
        message = refusal(port, tls)
    assert message.startswith(f"127.0.0.1:{port} does not accept our client certificate (unknown ca)")


@pytest.mark.parametrize("password", [None, "key password"])
def test_a_client_certificate_is_shown_with_its_key_encrypted_or_not(password: str | None, tmp_path: Path) -> None:
    context = context_of(
        Tls(
            certificate_chain=CLIENT.certificate_pem,
            key=Secret(CLIENT.key_pem(password)),
            key_password=Secret(password) if password else None,
        )
    )
    assert isinstance(context, ssl.SSLContext)


def test_the_context_is_made_once_for_all_brokers() -> None:
    def made() -> ssl.SSLContext:
        return context_of(Tls(authorities=AUTHORITY.certificate_pem))

    assert made() is made()


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_wrong_key_password_is_one_line_without_it(password: str | None) -> None:
    tls = Tls(
        certificate_chain=CLIENT.certificate_pem,
        key=Secret(CLIENT.key_pem("right")),
        key_password=Secret(password) if password else None,
    )
    with pytest.raises(BadTlsMaterial) as caught:
        context_of(tls)
    assert str(caught.value) == "the client's certificate or private key cannot be read; is ssl.key.password right?"


def test_a_key_of_another_certificate_is_told() -> None:
    tls = Tls(certificate_chain=CLIENT.certificate_pem, key=Secret(SERVER.key_pem()))
    with pytest.raises(BadTlsMaterial, match="does not belong to its certificate"):
        context_of(tls)


def test_authorities_that_are_none_are_told() -> None:
    with pytest.raises(BadTlsMaterial, match="the trusted certificates cannot be read"):
        context_of(Tls(authorities="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))


def test_a_server_that_hangs_up_amid_the_handshake_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=_hang_up_on_everyone, args=(listening,))
        thread.start()
        try:
            message = refusal(port, TRUSTING)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert message in (
        f"127.0.0.1:{port} closed the connection during the TLS handshake",
        # A reset, if the server closed before it had read what the client sent.
        f"127.0.0.1:{port} closed the connection without an answer; is it a Kafka broker?",
    )


def _hang_up_on_everyone(listening: socket.socket) -> None:
    while True:
        try:
            listening.accept()[0].close()
        except OSError:
            return


def test_no_key_is_in_what_tls_shows_of_itself() -> None:
    tls = Tls(certificate_chain=CLIENT.certificate_pem, key=Secret(CLIENT.key_pem()), key_password=Secret("hush"))
    assert "PRIVATE KEY" not in repr(tls)
    assert "hush" not in repr(tls)
    assert issubclass(TlsFailed, CannotConnect)
