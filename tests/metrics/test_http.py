"""Metrics over HTTP, from a source that the test controls."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from kcoord.metrics import catalogue
from kcoord.metrics.catalogue import Sample
from kcoord.metrics.counts import Histogram
from kcoord.metrics.http import MetricsServer
from kcoord.metrics.http_connection import MAX_CONNECTIONS
from kcoord.metrics.listening import CannotListen, Endpoint, endpoint_of, listen_on
from tests.support.scrapes import OPEN_METRICS, Scrape, ask


class Some:
    """A source with one family of each kind, and one without samples."""

    families = (catalogue.OPENED, catalogue.GROUPS, catalogue.DURATIONS, catalogue.REBALANCES)

    def __init__(self) -> None:
        self.missing: str | None = None

    def why_not_ready(self) -> str | None:
        return self.missing

    def samples(self) -> Iterator[Sample]:
        durations = Histogram()
        durations.add(0.004, times=3)
        durations.add(100)
        yield Sample(catalogue.OPENED, 7)
        yield Sample(catalogue.GROUPS, 2, ("Stable",))
        yield Sample(catalogue.DURATIONS, durations, ("Fetch",))


@contextmanager
def metrics_url(source: Some, *, request_timeout: float = 10.0) -> Iterator[str]:
    """Serves the source; yields the server's URL without a path."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = MetricsServer(
        listen_on(Endpoint(host="127.0.0.1", port=0)), source, role="serve", request_timeout=request_timeout
    )
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(60)
        yield f"http://{endpoint_of(server.listening)}"
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def source() -> Some:
    return Some()


@pytest.fixture(scope="module")
def url(source: Some) -> Iterator[str]:
    with metrics_url(source) as at:
        yield at


@pytest.mark.parametrize("accept", ["*/*", "text/plain;version=0.0.4", OPEN_METRICS])
def test_what_a_source_says_is_told_in_the_format_that_is_asked_for(url: str, accept: str) -> None:
    assert ("openmetrics" in ask(f"{url}/metrics", accept).content_type) is (accept == OPEN_METRICS)
    scrape = Scrape(f"{url}/metrics", accept)
    assert scrape("kcoord_connections_opened_total") == 7
    assert scrape("kcoord_groups", state="Stable") == 2
    name = "kcoord_request_duration_seconds"
    assert scrape(f"{name}_bucket", api="Fetch", le="0.0025") == 0
    assert scrape(f"{name}_bucket", api="Fetch", le="0.005") == 3
    assert scrape(f"{name}_bucket", api="Fetch", le="30.0") == 3
    assert scrape(f"{name}_bucket", api="Fetch", le="+Inf") == 4
    assert scrape(f"{name}_count", api="Fetch") == 4
    assert scrape(f"{name}_sum", api="Fetch") == pytest.approx(100.012)


def test_a_family_is_there_before_anything_is_known_of_it(url: str) -> None:
    scrape = Scrape(f"{url}/metrics", OPEN_METRICS)
    assert scrape.families["kcoord_rebalances"].samples == []
    assert scrape.families["kcoord_rebalances"].documentation == catalogue.REBALANCES.about


def test_the_process_and_the_build_are_told_too(url: str) -> None:
    scrape = Scrape(f"{url}/metrics")
    (build,) = scrape.families["kcoord_build_info"].samples
    assert build.labels["role"] == "serve"
    assert scrape("process_resident_memory_bytes") > 1_000_000
    assert scrape("kcoord_uptime_seconds") > 0


def test_who_is_alive_says_so(url: str) -> None:
    assert (ask(f"{url}/healthz").status, ask(f"{url}/healthz").text) == (200, "alive\n")


def test_who_is_not_ready_says_why(url: str, source: Some) -> None:
    assert ask(f"{url}/readyz").status == 200
    source.missing = "groups are being read"
    try:
        refused = ask(f"{url}/readyz")
        assert (refused.status, refused.text) == (503, "groups are being read\n")
        assert Scrape(f"{url}/metrics")("kcoord_ready") == 0
        assert ask(f"{url}/healthz").status == 200
    finally:
        source.missing = None
    assert Scrape(f"{url}/metrics")("kcoord_ready") == 1


def test_there_is_nothing_else(url: str) -> None:
    assert ask(f"{url}/").status == 404


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text;version=abc",
        "application/openmetrics-text;version=1.x.0",
        "application/openmetrics-text;version=99.0.0",
        "text/plain;version=x",
        "text/plain;version=1.0.0;escaping=nothing",
        "application/openmetrics-text;version=\xb2.0.0",
        ";;;,=,version=,",
        "a" * 4000,
    ],
)
def test_whatever_a_client_accepts_it_is_answered_without_a_traceback(
    url: str, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(f"{url}/metrics", accept)
    assert answer.status == 200
    assert "kcoord_connections_opened_total 7.0" in answer.text
    assert not [record for record in caplog.records if record.exc_info]


def _connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nHost:"])
def test_a_request_that_is_never_complete_is_ended(sent: bytes) -> None:
    with metrics_url(Some(), request_timeout=0.2) as url, _connect(url) as half:
        half.sendall(sent)
        assert _is_closed(half)


def test_a_connection_that_was_answered_may_ask_again() -> None:
    with metrics_url(Some(), request_timeout=60) as url, _connect(url) as connection:
        for _ in range(3):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
            answer = b""
            while not answer.endswith(b"alive\n"):
                more = connection.recv(4096)
                assert more
                answer += more


def test_half_requests_beyond_the_bound_close_the_oldest_and_others_are_answered() -> None:
    with metrics_url(Some(), request_timeout=600) as url, ExitStack() as stack:
        halves = [stack.enter_context(_connect(url)) for _ in range(MAX_CONNECTIONS + 20)]
        for half in halves:
            with suppress(OSError):  # the first ones are closed already
                half.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert ask(f"{url}/healthz").status == 200
        assert all(_is_closed(half) for half in halves[:20])


GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", b"400"),
        (GET + b"X: " + b"a" * 20_000 + b"\r\n\r\n", b"431"),
        (GET + b"X: " + b"a" * 20_000, b"431"),
        (GET + b"".join(b"h%d: x\r\n" % number for number in range(1000)) + b"\r\n", b"400"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/9.9\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 100000000000\r\n\r\n", b"413"),
        (GET + b"content-length : 5\r\n\r\nhello", b"413"),
        (GET + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", b"413"),
        (b"PUT /metrics HTTP/1.1\r\nHost: here\r\n\r\n", b"405"),
    ],
)
def test_a_bad_request_is_refused_without_a_traceback(
    url: str, request_bytes: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with _connect(url) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(4096).split(b" ")[1] == status
    assert not caplog.records
    assert ask(f"{url}/healthz").status == 200


def test_requests_in_a_row_are_answered_one_after_the_other(url: str) -> None:
    with _connect(url) as connection:
        connection.sendall(4 * (GET + b"\r\n") + GET + b"Connection: close\r\n\r\n")
        answers = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answers.count(b"HTTP/1.1 200 OK") == answers.count(b"alive\n") == 5


@pytest.mark.parametrize("more", [100_000 * (GET + b"\r\n"), 10_000_000 * b"a"])
def test_more_in_a_row_than_a_client_may_have_open_ends_its_connection(url: str, more: bytes) -> None:
    with _connect(url) as connection:
        with suppress(OSError):
            connection.sendall(GET + b"\r\n" + more)
        assert _is_ended(connection)
    assert ask(f"{url}/healthz").status == 200


def test_half_a_request_behind_a_whole_one_is_ended() -> None:
    with metrics_url(Some(), request_timeout=0.5) as url, _connect(url) as connection:
        connection.sendall(GET + b"\r\n" + GET)
        assert _is_ended(connection)


def _is_ended(connection: socket.socket) -> bool:
    """Reads until the connection is closed; a timeout fails the test."""
    while not _is_closed(connection):
        pass
    return True


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(65536) == b""
    except ConnectionResetError:
        return True


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = endpoint_of(taken)
        with pytest.raises(CannotListen, match=rf"cannot listen on {at} for --metrics: Address already in use"):
            listen_on(at)
