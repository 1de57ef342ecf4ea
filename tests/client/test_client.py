"""The errors of a client without a server, or with a server that does not answer properly."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.connect_errors import CannotConnect, Disconnected, NoAnswer, Unreachable
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Security
from kcoord.protocol.frames import BadFrame
from kcoord.protocol.validate import CorruptMessage
from kcoord.testing.node import free_ports


@contextmanager
def listening() -> Iterator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, server.getsockname()[1]


def test_a_port_where_nobody_listens_is_refused() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unreachable) as caught:
        Client("127.0.0.1", port)
    assert str(caught.value) == (f"cannot connect to 127.0.0.1:{port}: connection refused; is a broker running there?")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".example", ".."])
def test_a_host_that_is_not_known_is_told(host: str) -> None:
    with pytest.raises(Unreachable) as caught:
        Client(host, 9092)
    assert str(caught.value) == f"cannot connect to {host}:9092: the host {host!r} is not known"


@pytest.mark.parametrize(("host", "port"), [("\0", 9092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)])
def test_an_address_that_cannot_be_is_told_in_one_line(host: str, port: int) -> None:
    with pytest.raises(Unreachable) as caught:
        Client(host, port)
    assert str(caught.value).startswith("cannot connect to ")
    assert str(caught.value).isprintable()


def test_an_answer_to_another_request_is_not_taken_for_that_to_ours() -> None:
    with listening() as (server, port), Client("127.0.0.1", port) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"\0\0\0\x0a" + (7).to_bytes(4) + bytes(6))
            with pytest.raises(CorruptMessage, match="an answer to request 7, where that to 1 was due"):
                client.ask(ApiKey.API_VERSIONS, 0)


def test_a_length_that_would_fill_the_memory_is_refused_before_it_does() -> None:
    with listening() as (server, port), Client("127.0.0.1", port) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall((1 << 30).to_bytes(4))
            with pytest.raises(BadFrame, match="a frame length of 1073741824, where 0 to 268435456 is allowed"):
                client.ask(ApiKey.API_VERSIONS, 0)


def test_a_server_that_never_answers_is_given_up() -> None:
    with (
        listening() as (_, port),
        Client("127.0.0.1", port, timeout=0.05) as client,
        pytest.raises(NoAnswer) as caught,
    ):
        client.ask(ApiKey.API_VERSIONS, 0)
    assert str(caught.value) == f"127.0.0.1:{port} did not answer within 0.05 s"


def test_a_server_that_hangs_up_is_told_by_its_address() -> None:
    with listening() as (server, port), Client("127.0.0.1", port) as client:
        server.accept()[0].close()
        with pytest.raises(Disconnected) as caught:
            client.ask(ApiKey.METADATA, 12, topics=None)
    assert str(caught.value) == f"127.0.0.1:{port} closed the connection"


LARGE = bytes(range(256)) * 4096


def test_large_answers_come_whole_however_they_are_cut_and_so_does_what_follows() -> None:
    def send(accepted: socket.socket) -> None:
        stream = b"".join(len(each).to_bytes(4) + each for each in (b"a", LARGE, b"b", LARGE, LARGE, b"c"))
        for start in range(0, len(stream), 70_001):
            accepted.sendall(stream[start : start + 70_001])

    with listening() as (server, port), Client("127.0.0.1", port) as client:
        accepted, _ = server.accept()
        sending = threading.Thread(target=send, args=(accepted,))
        sending.start()
        came = [client.receive_frame() for _ in range(6)]
        sending.join()
        accepted.close()
    assert came == [b"a", LARGE, b"b", LARGE, LARGE, b"c"]


def test_a_server_that_hangs_up_in_a_large_answer_is_told_so() -> None:
    with listening() as (server, port), Client("127.0.0.1", port) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(len(LARGE).to_bytes(4) + LARGE[:40_000])
        with pytest.raises(Disconnected, match="closed the connection"):
            client.receive_frame()


def test_a_server_that_stops_in_a_large_answer_is_given_up() -> None:
    with listening() as (server, port), Client("127.0.0.1", port, timeout=0.2) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(len(LARGE).to_bytes(4) + LARGE[:40_000])
            with pytest.raises(NoAnswer, match=r"did not answer within 0\.2 s"):
                client.receive_frame()


def test_an_alert_of_tls_is_not_taken_for_a_frame_of_350_mb() -> None:
    with listening() as (server, port), Client("127.0.0.1", port, timeout=60) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"\x15\x03\x03\x00\x02\x02\x50")  # The connection stays open.
            with pytest.raises(Disconnected):
                client.ask(ApiKey.METADATA, 12, topics=None)


def test_a_server_that_hangs_up_on_everyone_gets_no_advice() -> None:
    with listening() as (server, port):
        client = Client("127.0.0.1", port, security=Security())
        server.accept()[0].close()
        server.close()  # The probe of the listener must find nobody.
        with client, pytest.raises(Disconnected) as caught:
            client.ask(ApiKey.METADATA, 12, topics=None)
    assert str(caught.value) == f"127.0.0.1:{port} closed the connection without an answer; is it a Kafka broker?"


def test_an_http_server_that_waits_for_the_end_of_a_line_is_named() -> None:
    with (
        HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server,
        Client("127.0.0.1", server.server_port, security=Security(), timeout=0.5) as client,
    ):
        serving = threading.Thread(target=_serve_two, args=(server,))
        serving.start()
        with pytest.raises(CannotConnect, match="speaks HTTP, not Kafka's protocol"):
            client.ask(ApiKey.API_VERSIONS, 0)
        serving.join()


def _serve_two(server: HTTPServer) -> None:
    """Serves the client that sends no end of line until it hangs up, and only then the probe that sends an HTTP
    request.
    """
    for _ in range(2):
        server.handle_request()


def test_an_http_server_that_answers_is_named() -> None:
    with listening() as (server, port), Client("127.0.0.1", port, security=Security(), timeout=60) as client:
        accepted, _ = server.accept()
        with accepted:
            accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(BadFrame, match="it speaks HTTP"):
                client.ask(ApiKey.API_VERSIONS, 0)


def test_a_server_of_another_kind_is_told_when_it_answers_a_login() -> None:
    login = Security(sasl=Plain(username="alice", password=Secret("hush")))
    with listening() as (server, port):
        thread = threading.Thread(target=_answer_nonsense, args=(server,))
        thread.start()
        with pytest.raises(CannotConnect) as caught:
            Client("127.0.0.1", port, security=login)
        thread.join()
    assert str(caught.value).startswith(f"127.0.0.1:{port} does not answer as a Kafka broker does: ")
    assert "hush" not in str(caught.value)


def _answer_nonsense(server: socket.socket) -> None:
    with server.accept()[0] as accepted:
        accepted.recv(1000)
        accepted.sendall(b"\0\0\0\5hello")
