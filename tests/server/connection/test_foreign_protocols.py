"""The log lines about clients that speak HTTP, or that use protocols that are not served."""

import logging
import socket
from collections.abc import Iterator

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.security.listener import Listener, Sasl
from kcoord.security.users import Users
from tests.server.conftest import Serve, Server
from tests.server.test_pre_auth_connection import tls

HTTP = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
GROUP, TRANSACTION = 0, 1
NOBODY = Sasl(mechanisms=("PLAIN",), users=Users.nobody)


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("listener", [None, Listener(sasl=NOBODY), "TLS"])
def test_an_http_request_is_named_as_such(
    serve: Serve, caplog: pytest.LogCaptureFixture, listener: Listener | str | None
) -> None:
    server = serve(listener=Listener(tls=tls()) if isinstance(listener, str) else listener)
    node = server.runtime.cluster.controller
    with socket.create_connection((node.host, node.port), timeout=60) as connection:
        connection.sendall(HTTP)
        while connection.recv(1 << 12):
            pass
    [line] = lines(caplog, "HTTP")
    assert "peer=127.0.0.1:" in line


def ask_for_transactions(server: Server, transactional_id: str) -> None:
    with server.client() as client:
        asked = {"key_type": TRANSACTION, "coordinator_keys": [transactional_id]}
        [line] = client.ask(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
        assert line.error_code is ErrorCode.transactional_id_authorization_failed
        answer = client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=transactional_id)
        assert answer.error_code is ErrorCode.transactional_id_authorization_failed


def test_a_refused_transaction_leaves_one_warning_however_often_it_is_tried(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve()
    for _ in range(50):
        ask_for_transactions(server, "payments-1")
    [line] = lines(caplog, "transaction")
    assert "transactional_id=payments-1" in line
    assert "peer=127.0.0.1 client=kcoord" in line
    assert "not served" in line


def test_each_transactional_id_is_told_but_not_without_end(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve()
    ask_for_transactions(server, "one")
    ask_for_transactions(server, "two words\n")
    assert len(lines(caplog, "transactional_id=")) == 2
    assert lines(caplog, r"transactional_id='two words\n'")
    for number in range(100):
        ask_for_transactions(server, f"made-up-{number}")
    assert len(lines(caplog, "transactional_id=")) <= 20


def test_a_producer_without_transactions_leaves_no_warning(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    with serve().client() as client:
        assert client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None).error_code is ErrorCode.none
        asked = {"key_type": GROUP, "coordinator_keys": ["g"]}
        assert client.ask(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators[0].error_code is ErrorCode.none
    assert not caplog.records
