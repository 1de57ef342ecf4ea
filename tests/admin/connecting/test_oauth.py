"""Tokens of an authorization server (a small one over real HTTP), of a file, and made here."""

import json
import threading
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kcoord.admin.connecting.oauth import ClientCredentials, Token, TokenSource, from_file, from_server, unsecured
from kcoord.client.connect_errors import LoginFailed
from kcoord.client.secret import Secret
from kcoord.testing.node import free_ports


class _Endpoint(BaseHTTPRequestHandler):
    seen: list[tuple[str, str]]
    answer: tuple[int, bytes]
    location: str | None = None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        type(self).seen.append((b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode(), body))
        status, content = type(self).answer
        self.send_response(status)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing, so that stderr stays empty."""


@pytest.fixture
def endpoint() -> Iterator[tuple[type[_Endpoint], ClientCredentials]]:
    class Endpoint(_Endpoint):
        seen = []  # noqa: RUF012 - of this server only
        answer = (200, b'{"access_token": "a.b.c", "expires_in": 600}')

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/token"
        try:
            yield Endpoint, ClientCredentials(endpoint=url, client_id="me", client_secret=Secret("hush"), scope="s t")
        finally:
            server.shutdown()
            thread.join()


def test_the_server_is_asked_by_client_credentials(endpoint: tuple[type[_Endpoint], ClientCredentials]) -> None:
    server, grant = endpoint
    assert from_server(grant) == Token(secret=Secret("a.b.c"), lifetime=600.0)
    assert server.seen == [("me:hush", "grant_type=client_credentials&scope=s+t")]


def test_a_token_is_fetched_once_as_long_as_it_is_good(endpoint: tuple[type[_Endpoint], ClientCredentials]) -> None:
    server, grant = endpoint
    source = TokenSource(lambda: from_server(grant))
    assert [source().reveal() for _ in range(3)] == ["a.b.c"] * 3
    assert len(server.seen) == 1
    server.answer = (200, b'{"access_token": "a.b.c", "expires_in": 0}')
    short = TokenSource(lambda: from_server(grant))
    assert [short().reveal() for _ in range(2)] == ["a.b.c"] * 2
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            b'{"error": "invalid_client", "error_description": "no\\u001b"}',
            "gave client me no token: 401 (invalid_client: no\\x1b)",
        ),
        (500, b"<html>", "gave client me no token: 500"),
        (200, b"{}", "answered without an access_token"),
        (200, b"[]", "answered without an access_token"),
        (200, b"\xff", "answered without an access_token"),
    ],
)
def test_a_server_that_gives_no_token_is_told_without_the_secret(
    endpoint: tuple[type[_Endpoint], ClientCredentials], status: int, body: bytes, message: str
) -> None:
    server, grant = endpoint
    server.answer = (status, body)
    with pytest.raises(LoginFailed) as caught:
        from_server(grant)
    assert str(caught.value) == f"the authorization server {grant.endpoint} {message}"
    assert "hush" not in str(caught.value)


def test_a_server_that_is_not_there_is_told() -> None:
    (port,) = free_ports(1)
    grant = ClientCredentials(endpoint=f"http://127.0.0.1:{port}/", client_id="me", client_secret=Secret("hush"))
    with pytest.raises(LoginFailed, match="cannot ask the authorization server"):
        from_server(grant)
    with pytest.raises(LoginFailed, match="cannot ask the authorization server"):
        from_server(replace(grant, endpoint=f"https://127.0.0.1:{port}/"))


def test_a_server_that_says_to_ask_another_is_not_obeyed(
    endpoint: tuple[type[_Endpoint], ClientCredentials],
) -> None:
    server, grant = endpoint
    server.answer = (302, b"")
    server.location = grant.endpoint
    with pytest.raises(LoginFailed, match="gave client me no token: 302"):
        from_server(grant)
    assert len(server.seen) == 1


@pytest.mark.parametrize("url", ["http://", "http://h:port/", "https://[::1"])
def test_an_endpoint_that_is_none_is_told(url: str) -> None:
    with pytest.raises(LoginFailed, match="cannot ask the authorization server"):
        from_server(ClientCredentials(endpoint=url, client_id="me", client_secret=Secret("hush")))


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    source = TokenSource(lambda: from_file(path))
    for text in ("first", "second"):
        path.write_text(f"{text}\n")
        assert source().reveal() == text
    path.write_text("\n")
    with pytest.raises(LoginFailed, match="is empty"):
        source()
    path.unlink()
    with pytest.raises(LoginFailed, match="No such file"):
        source()


def test_an_unsecured_token_has_its_claims_and_no_signature() -> None:
    header, body, signature = unsecured({"sub": "carol"}, 60, now=1000.0).secret.reveal().split(".")
    decoded = [json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, body)]
    assert decoded == [{"alg": "none"}, {"sub": "carol", "iat": 1000.0, "exp": 1060.0}]
    assert signature == ""


@pytest.mark.parametrize(
    "lifetime", ["NaN", "Infinity", "-Infinity", "1" + "0" * 400, "1e999", "-5", "0", '"soon"', "[]", "null"]
)
def test_a_lifetime_that_is_none_means_that_the_token_is_fetched_anew(
    endpoint: tuple[type[_Endpoint], ClientCredentials], lifetime: str
) -> None:
    server, grant = endpoint
    server.answer = (200, b'{"access_token": "a.b.c", "expires_in": %s}' % lifetime.encode())
    assert from_server(grant).lifetime is None
    source = TokenSource(lambda: from_server(grant))
    assert [source().reveal() for _ in range(2)] == ["a.b.c"] * 2
    assert len(server.seen) == 3


@pytest.mark.parametrize("ends_at", ["NaN", "1" + "0" * 400, "1e999", "12"])
def test_a_claim_of_no_end_is_no_lifetime(endpoint: tuple[type[_Endpoint], ClientCredentials], ends_at: str) -> None:
    server, grant = endpoint
    claims = urlsafe_b64encode(b'{"exp": %s}' % ends_at.encode()).decode().rstrip("=")
    server.answer = (200, json.dumps({"access_token": f"e30.{claims}.s"}).encode())
    assert from_server(grant).lifetime is None


def test_what_is_nested_too_deeply_is_no_token(endpoint: tuple[type[_Endpoint], ClientCredentials]) -> None:
    server, grant = endpoint
    server.answer = (200, b"[" * 100_000)
    with pytest.raises(LoginFailed, match="answered without an access_token"):
        from_server(grant)


def test_a_login_in_the_url_is_not_sent_and_not_shown(endpoint: tuple[type[_Endpoint], ClientCredentials]) -> None:
    server, grant = endpoint
    bare = grant.endpoint
    grant = replace(grant, endpoint=bare.replace("://", "://me:se@cret@") + "?key=secret")
    assert from_server(grant).secret == Secret("a.b.c")
    server.answer = (401, b"")
    with pytest.raises(LoginFailed) as caught:
        from_server(grant)
    assert str(caught.value) == f"the authorization server {bare} gave client me no token: 401"


@pytest.mark.parametrize("url", ["http://me:secret@h:port/t", "http://me:se/secret@h/t", "https://me:secret@[::1/t"])
def test_a_url_that_cannot_be_asked_shows_no_login(url: str) -> None:
    with pytest.raises(LoginFailed, match="cannot ask the authorization server") as caught:
        from_server(ClientCredentials(endpoint=url, client_id="me", client_secret=Secret("hush")))
    assert "se" not in str(caught.value).replace("server", "")
