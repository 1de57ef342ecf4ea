"""Pre-auth connections over sockets: clients are promoted, or refused and counted, while others go on."""

import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.connect_errors import CannotConnect, LoginFailed, TlsFailed, Unreachable
from kcoord.client.kio_codec import build_entity
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Scram, Security, Tls
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.security.listener import ClientAuth, Listener, ListenerTls, Sasl
from kcoord.security.listener_tls import BadListenerTls
from kcoord.security.refusals import Refusal
from kcoord.security.users import Users
from tests.support.certificates import Identity, authority, signed

from .conftest import Serve, Server

USERS = Users.nobody().with_user("alice", Secret("secret-1"), iterations=4096)
SASL = Sasl(mechanisms=("PLAIN", "SCRAM-SHA-256"), users=lambda: USERS)
AUTHORITY, STRANGER = authority("the authority"), authority("a stranger")
SERVER = signed(AUTHORITY, "server")
PLAINLY = Security(sasl=Plain(username="alice", password=Secret("secret-1")))


def tls(client_auth: ClientAuth = ClientAuth.NONE) -> ListenerTls:
    return ListenerTls(
        certificate_chain=SERVER.certificate_pem,
        key=Secret(SERVER.key_pem()),
        client_authorities=AUTHORITY.certificate_pem,
        client_auth=client_auth,
    )


def trusting(shown: Identity | None = None) -> Tls:
    if shown is None:
        return Tls(authorities=AUTHORITY.certificate_pem)
    key = Secret(shown.key_pem())
    return Tls(authorities=AUTHORITY.certificate_pem, certificate_chain=shown.certificate_pem, key=key)


def principals(server: Server) -> list[str]:
    return [connection.client.principal for connection in server.on_loop(lambda: list(server.runtime.connections))]


def refused(server: Server, *reasons: Refusal) -> None:
    """Waits until exactly these refusals are counted: a client may notice before the server has counted."""
    expected = {reason: reasons.count(reason) for reason in reasons}
    end = time.monotonic() + 30
    while server.on_loop(lambda: dict(server.runtime.refused)) != expected:
        assert time.monotonic() < end, server.runtime.refused
        time.sleep(0.01)


@contextmanager
def opened(server: Server) -> Iterator[socket.socket]:
    node = next(iter(server.runtime.cluster.nodes.values()))
    with socket.create_connection((node.host, node.port), timeout=30) as connection:
        yield connection


def closed_after(server: Server, content: bytes) -> bytes:
    """Sends bytes and returns everything received until the server hangs up."""
    with opened(server) as connection:
        connection.sendall(content)
        received = b""
        try:
            while chunk := connection.recv(1 << 16):
                received += chunk
        except ConnectionResetError:
            pass
        return received


def frame(api_key: int, version: int, **values: Any) -> bytes:
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=1, client_id="test")
    return encode_request(header, build_entity(request_type(api_key, version), values))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_who_logs_in_is_let_in_under_his_name(serve: Serve, mechanism: str, is_encrypted: bool) -> None:
    server = serve(listener=Listener(sasl=SASL, tls=tls() if is_encrypted else None))
    password = Secret("secret-1")
    sasl = (
        Plain(username="alice", password=password)
        if mechanism == "PLAIN"
        else Scram(mechanism=mechanism, username="alice", password=password)
    )
    with server.client(security=Security(sasl=sasl, tls=trusting() if is_encrypted else None)) as client:
        assert client.ask(ApiKey.METADATA, 12, topics=None).cluster_id == server.runtime.cluster.cluster_id
        assert principals(server) == ["User:alice"]
    refused(server)


def test_a_certificate_names_its_owner(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls(ClientAuth.REQUIRED)))
    with server.client(security=Security(tls=trusting(signed(AUTHORITY, "alice, of Delft")))) as client:
        client.ask(ApiKey.METADATA, 12, topics=None)
        assert principals(server) == ["User:CN=alice\\, of Delft"]


def test_who_may_show_a_certificate_and_does_not_is_nobody_in_particular(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls(ClientAuth.REQUESTED)))
    with server.client(security=Security(tls=trusting())) as client:
        client.ask(ApiKey.METADATA, 12, topics=None)
        assert principals(server) == ["User:ANONYMOUS"]
    with pytest.raises(TlsFailed, match="unknown ca"):
        ask_by(server, Security(tls=trusting(signed(STRANGER, "mallory"))))
    refused(server, Refusal.UNTRUSTED_CERTIFICATE)


def test_a_login_counts_more_than_a_certificate(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls(ClientAuth.REQUIRED), sasl=SASL))
    security = Security(tls=trusting(signed(AUTHORITY, "machine")), sasl=PLAINLY.sasl)
    with server.client(security=security) as client:
        client.ask(ApiKey.METADATA, 12, topics=None)
        assert principals(server) == ["User:alice"]


def ask_by(server: Server, security: Security) -> Any:
    with server.client(security=security) as client:
        return client.ask(ApiKey.METADATA, 12, topics=None)


@pytest.mark.parametrize(
    ("security", "message", "reason"),
    [
        (lambda: Security(tls=trusting()), "wants a client certificate", Refusal.NO_CERTIFICATE),
        (
            lambda: Security(tls=trusting(signed(AUTHORITY, "late", days=-1))),
            r"does not accept our client certificate \(certificate expired\)",
            Refusal.EXPIRED_CERTIFICATE,
        ),
        (
            lambda: Security(tls=trusting(signed(STRANGER, "mallory"))),
            r"does not accept our client certificate \(unknown ca\)",
            Refusal.UNTRUSTED_CERTIFICATE,
        ),
        (
            lambda: Security(tls=Tls(authorities=STRANGER.certificate_pem)),
            "its authority is not trusted here",
            Refusal.TLS,
        ),
    ],
)
def test_a_certificate_that_does_not_do_is_refused_with_the_reason_and_counted(
    serve: Serve, security: Callable[[], Security], message: str, reason: Refusal
) -> None:
    server = serve(listener=Listener(tls=tls(ClientAuth.REQUIRED)))
    with server.client(security=Security(tls=trusting(signed(AUTHORITY, "alice")))) as other:
        with pytest.raises(TlsFailed, match=message):
            ask_by(server, security())
        refused(server, reason)
        assert other.ask(ApiKey.METADATA, 12, topics=None).cluster_id


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(frame(ApiKey.API_VERSIONS, 0), id="kafka"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"\xff" * 64, id="noise"),
    ],
)
def test_what_is_no_tls_is_refused_at_a_port_that_speaks_it(serve: Serve, content: bytes) -> None:
    server = serve(listener=Listener(tls=tls()))
    with server.client(security=Security(tls=trusting())) as other:
        closed_after(server, content)
        refused(server, Refusal.NOT_TLS)
        assert other.ask(ApiKey.METADATA, 12, topics=None).cluster_id


def test_who_comes_and_goes_without_a_word_is_not_counted(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls()))
    for _ in range(3):
        with opened(server):
            pass
    assert ask_by(server, Security(tls=trusting())).cluster_id
    refused(server)


def test_tls_1_1_is_not_spoken(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with opened(server) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection)
    refused(server, Refusal.TLS)


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong-1"), ("nobody", "secret-1")])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_login_that_fails_is_counted_logged_without_its_password_and_harms_nobody(
    serve: Serve, caplog: pytest.LogCaptureFixture, mechanism: str, name: str, password: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(listener=Listener(sasl=SASL))
    sasl = (
        Plain(username=name, password=Secret(password))
        if mechanism == "PLAIN"
        else Scram(mechanism=mechanism, username=name, password=Secret(password))
    )
    with server.client(security=PLAINLY) as other:
        with pytest.raises(LoginFailed, match=f"authentication failed for user {name} with {mechanism}"):
            ask_by(server, Security(sasl=sasl))
        refused(server, Refusal.CREDENTIALS)
        assert other.ask(ApiKey.METADATA, 12, topics=None).cluster_id
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if line.startswith("refused")]) == 1
    assert f"why=credentials about=\"a wrong password or an unknown user as '{name}' by {mechanism}\"" in "\n".join(
        lines
    )
    assert not [line for line in lines if "secret-1" in line or "wrong-1" in line]


def test_a_failed_login_is_answered_only_after_a_while(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL), **{"connection.failed.authentication.delay.ms": "400"})
    with opened(server) as connection:
        connection.sendall(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
        assert connection.recv(1 << 16)
        before = time.monotonic()
        connection.sendall(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong"))
        assert connection.recv(1 << 16)
        assert time.monotonic() - before >= 0.4
        assert connection.recv(1) == b""


def test_another_request_before_the_login_ends_the_connection_unanswered(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL))
    with server.client(security=PLAINLY) as other:
        assert closed_after(server, frame(ApiKey.METADATA, 12, topics=None)) == b""
        refused(server, Refusal.BEFORE_LOGIN)
        assert other.ask(ApiKey.METADATA, 12, topics=None).cluster_id


def test_what_is_sent_behind_the_login_is_answered_once_it_is_done(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL))
    large = frame(ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": "t" * 200}] * 3000)
    assert len(large) > 524_288
    with server.client() as client:
        client.send(ApiKey.API_VERSIONS, 0)
        client.send(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        client.send(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0secret-1")
        client.send(ApiKey.METADATA, 12, topics=None)
        client.send_bytes(large)
        announced = {line.api_key for line in client.receive(ApiKey.API_VERSIONS, 0).api_keys}
        assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= announced
        assert client.receive(ApiKey.SASL_HANDSHAKE, 1).mechanisms == ("PLAIN", "SCRAM-SHA-256")
        assert client.receive(ApiKey.SASL_AUTHENTICATE, 2).error_code is ErrorCode.none
        assert client.receive(ApiKey.METADATA, 12).cluster_id == server.runtime.cluster.cluster_id
        assert client.receive_frame()
    refused(server)


def test_bytes_may_come_one_by_one(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL))
    with opened(server) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"):
            connection.sendall(bytes([byte]))
        assert len(connection.recv(1 << 16)) > 4
    refused(server)


@pytest.mark.parametrize("length", [524_289, 2**31 - 1, -1])
def test_a_frame_before_the_login_is_small(serve: Serve, length: int) -> None:
    server = serve(listener=Listener(sasl=SASL))
    assert closed_after(server, struct.pack(">i", length)) == b""
    refused(server, Refusal.MALFORMED)


def test_the_limit_of_frames_before_the_login_can_be_set(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL), **{"sasl.server.max.receive.size": "100"})
    assert closed_after(server, frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="M" * 100)) == b""
    refused(server, Refusal.MALFORMED)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_who_takes_too_long_is_not_let_in(serve: Serve, is_encrypted: bool) -> None:
    listener = Listener(tls=tls()) if is_encrypted else Listener(sasl=SASL)
    server = serve(listener=listener, **{"kcoord.login.timeout.ms": "100"})
    with opened(server) as connection:
        assert connection.recv(1) == b""
    refused(server, Refusal.TIMEOUT)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_those_at_the_gate_count_as_connections(serve: Serve, is_encrypted: bool) -> None:
    listener = Listener(tls=tls() if is_encrypted else None, sasl=SASL)
    server = serve(listener=listener, **{"max.connections": "2"})
    security = Security(tls=trusting() if is_encrypted else None, sasl=PLAINLY.sasl)
    with server.client(security=security) as client, opened(server) as waiting:
        while server.on_loop(lambda: len(server.runtime._secure_listener.pre_auth_connections)) < 1:  # type: ignore[union-attr]
            time.sleep(0.01)
        assert closed_after(server, b"") == b""
        refused(server, Refusal.LIMIT)
        waiting.close()
        assert client.ask(ApiKey.METADATA, 12, topics=None).cluster_id
    while server.on_loop(lambda: server.runtime.connections or server.runtime._secure_listener.pre_auth_connections):  # type: ignore[union-attr]
        time.sleep(0.01)
    assert ask_by(server, security).cluster_id, "all places are free again"


def eventually(server: Server, read: Callable[[], Any]) -> Any:
    """Polls `read` on the server's thread until its result is true, and returns it."""
    end = time.monotonic() + 20  # less than TLS itself gives one to go
    while not (seen := server.on_loop(read)):
        assert time.monotonic() < end
        time.sleep(0.01)
    return seen


def test_who_was_refused_and_stays_counts_as_a_connection_until_he_has_to_go(serve: Serve) -> None:
    listener = Listener(tls=tls(), sasl=SASL)
    server = serve(listener=listener, **{"connection.failed.authentication.delay.ms": "0"})
    secure_listener: Any = server.runtime._secure_listener
    context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem)
    with opened(server) as bare, context.wrap_socket(bare, server_hostname="localhost") as connection:
        connection.sendall(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
        assert connection.recv(1 << 16)
        connection.sendall(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong"))
        assert connection.recv(1 << 16)
        assert server.on_loop(lambda: len(secure_listener.pre_auth_connections)) == 1
        eventually(server, lambda: not secure_listener.pre_auth_connections)
    refused(server, Refusal.CREDENTIALS)


def test_what_is_held_for_those_at_the_gate_is_limited(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL), **{"queued.max.request.bytes": "100000"})
    secure_listener: Any = server.runtime._secure_listener
    begun = struct.pack(">i", 80_000)
    with opened(server) as one, opened(server) as other:
        one.sendall(begun + bytes(60_000))
        eventually(server, lambda: secure_listener._held_bytes > 60_000)
        other.sendall(begun + bytes(50_000))
        refused(server, Refusal.LIMIT)
        assert one.recv(1) == b""
        assert len(server.on_loop(lambda: list(secure_listener.pre_auth_connections))) == 1
    eventually(server, lambda: not secure_listener.pre_auth_connections)
    assert server.on_loop(lambda: secure_listener._held_bytes) == 0
    assert ask_by(server, PLAINLY).cluster_id


def test_who_is_slow_to_shake_hands_counts_once(serve: Serve) -> None:
    server = serve(listener=Listener(tls=tls(), sasl=SASL), **{"max.connections": "4"})
    secure_listener: Any = server.runtime._secure_listener
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(opened(server))
        eventually(server, lambda: len(secure_listener.pre_auth_connections) == 3)
        assert ask_by(server, Security(tls=trusting(), sasl=PLAINLY.sasl)).cluster_id


def test_a_password_of_one_who_has_gone_is_not_checked(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL))
    secure_listener: Any = server.runtime._secure_listener
    released = threading.Event()
    for _ in range(2):  # one per thread
        server.on_loop(lambda: secure_listener.check(released.wait, lambda _: None))
    with opened(server) as connection:
        connection.sendall(frame(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
        connection.sendall(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0secret-1"))
        checking = eventually(
            server,
            lambda: [pre_auth._checking for pre_auth in secure_listener.pre_auth_connections if pre_auth._checking],
        )[0]
    # The pre-auth connection has paused reading, so it does not notice that its client has gone: it times out.
    server.on_loop(lambda: [pre_auth._on_timeout() for pre_auth in list(secure_listener.pre_auth_connections)])
    eventually(server, checking.cancelled)  # a client is given up once what has arrived is read
    released.set()
    assert ask_by(server, PLAINLY).cluster_id


def test_a_login_is_not_repeated(serve: Serve) -> None:
    with serve(listener=Listener(sasl=SASL)).client(security=PLAINLY) as client:
        assert client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code is ErrorCode.illegal_sasl_state
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"").error_code is ErrorCode.illegal_sasl_state
        assert client.ask(ApiKey.METADATA, 12, topics=None).cluster_id


def test_where_no_login_is_wanted_one_is_told_so(serve: Serve) -> None:
    server = serve()
    with pytest.raises(LoginFailed, match=r"wants no login: use security\.protocol=PLAINTEXT"):
        ask_by(server, PLAINLY)


def test_the_right_security_protocol_is_told_to_who_comes_with_a_wrong_one(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL, tls=tls()))
    with pytest.raises(CannotConnect, match=r"it wants a login .*: use security\.protocol=SASL_SSL"):
        ask_by(server, Security(tls=trusting()))


def test_malformed_versions_are_refused(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL))
    closed_after(server, struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 3, 1, 5))
    refused(server, Refusal.MALFORMED)


def test_a_server_that_stops_hangs_up_on_those_at_its_gates(serve: Serve) -> None:
    server = serve(listener=Listener(sasl=SASL, tls=tls()))
    with opened(server) as one:
        secure_listener = server.runtime._secure_listener
        while not server.on_loop(lambda: secure_listener.pre_auth_connections):  # type: ignore[union-attr]
            time.sleep(0.01)
        stopped = server.on_loop(lambda: server.loop.create_task(server.runtime.stop_listening()))
        assert one.recv(1) == b""
        while not server.on_loop(stopped.done):
            time.sleep(0.01)
        with pytest.raises(Unreachable):
            server.client()


def test_a_key_that_is_not_the_certificates_is_told_at_the_start(serve: Serve) -> None:
    other = signed(AUTHORITY, "other")
    wrong = ListenerTls(certificate_chain=SERVER.certificate_pem, key=Secret(other.key_pem()))
    with pytest.raises(BadListenerTls, match="does not belong to its certificate"):
        serve(listener=Listener(tls=wrong))
    locked = ListenerTls(
        certificate_chain=SERVER.certificate_pem, key=Secret(SERVER.key_pem("hush")), key_password=Secret("wrong")
    )
    with pytest.raises(BadListenerTls, match="is its password right") as caught:
        serve(listener=Listener(tls=locked))
    assert "wrong" not in str(caught.value)
