"""Metadata refreshes that fail: what is logged, how often, and what is counted."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kcoord.api_keys import ApiKey
from kcoord.proxy.brokers import metadata_refresher
from kcoord.proxy.brokers.failures import Failure, format_failures, with_advice
from kcoord.proxy.metrics import ProxyCounters
from kcoord.proxy.proxy import Proxy
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.setup import CannotProxy, ProxySetup
from kcoord.testing.node import free_ports
from tests.proxy.brokers.test_following import DEADLINE, proxying, until
from tests.proxy.fake_cluster import FakeCluster
from tests.support.certificates import authority, signed

A, B, C = Endpoint("a", 1), Endpoint("b", 2), Endpoint("c", 3)


# failures.format_failures


def test_reasons_that_differ_by_the_place_alone_are_told_once() -> None:
    failures = [
        Failure(A, "a:1 does not let us in"),
        Failure(B, "cannot connect to b:2: the host 'b' is not known"),
        Failure(C, "c:3 does not let us in"),
    ]
    assert format_failures(failures) == (
        "a:1 does not let us in (the same of c:3); cannot connect to b:2: the host 'b' is not known"
    )


def test_advice_stands_first_and_in_place_of_what_it_is_about() -> None:
    failures = [Failure(A, "no a:1"), Failure(B, "b:2 hung up"), Failure(C, "c:3 hung up")]
    assert format_failures(with_advice(failures, failures[1], "speak up")) == "b:2: speak up (the same of c:3); no a:1"


# A running proxy.


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not is_so():  # noqa: ASYNC110 - there is no event for a log line or a counter
            await asyncio.sleep(0.01)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.silent: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "upstream silent" in record.getMessage():
            self.silent.append(record.getMessage())


def _server_context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed(authority("us"), "localhost").write_pem(folder / "server.pem"))
    return context


def test_who_waits_says_each_new_reason_once_with_advice_and_counts_every_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(metadata_refresher, "_REST", 0.01)
    (port,) = free_ports(1)
    endpoint, meter, lines = Endpoint("127.0.0.1", port), ProxyCounters(), _Lines()
    proxy = Proxy(ProxySetup(upstream=(endpoint,), waits_for_upstream=True), meter)

    async def wait_in_vain() -> None:
        waiting = asyncio.create_task(proxy.__aenter__())
        await _until(lambda: meter.upstream_failures >= 5)
        assert len(lines.silent) == 1
        async with await asyncio.start_server(
            lambda _, writer: writer.close(), "127.0.0.1", port, ssl=_server_context(tmp_path)
        ):
            await _until(lambda: len(lines.silent) >= 2)
            seen = meter.upstream_failures
            await _until(lambda: meter.upstream_failures >= seen + 5)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting

    logging.getLogger("kcoord.proxy").addHandler(lines)
    try:
        asyncio.run(wait_in_vain())
    finally:
        logging.getLogger("kcoord.proxy").removeHandler(lines)
    refused, insecure = lines.silent[:2]
    assert (
        refused == f"upstream silent why='cannot connect to {endpoint}: connection refused; is a broker running there?'"
    )
    assert insecure == f"upstream silent why='{endpoint}: it speaks TLS: use security.protocol=SSL or SASL_SSL'"
    assert len([line for line in lines.silent if "TLS" in line]) == 1


def test_brokers_that_fail_alike_are_one_reason_at_the_start() -> None:
    first, second, third = (Endpoint("127.0.0.1", port) for port in free_ports(3))
    with pytest.raises(CannotProxy) as caught, proxying(first, second, third):
        pytest.fail("it has started")
    assert str(caught.value) == (
        f"cannot connect to {first}: connection refused; is a broker running there? (the same of {second}, {third})"
    )


def test_a_broker_that_hung_up_between_two_looks_and_is_there_is_not_silent(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1)) as scene:
        dialogue = scene.proxy._metadata_refresher._connection
        assert dialogue
        scene.loop.call_soon_threadsafe(dialogue.transport.abort)
        asked = cluster.asked[1, ApiKey.METADATA]
        until(lambda: cluster.asked[1, ApiKey.METADATA] > asked + 1, "looks")
    assert "silent" not in caplog.text


def test_who_begins_and_reaches_nobody_is_one_line_whoever_is_tried_first(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster() as cluster:
        endpoints = [cluster.start(node_id) for node_id in (1, 2, 3)]
        with proxying(*endpoints, refresh_interval=600) as scene:
            for endpoint in endpoints:
                cluster.stop(endpoint)
            for _ in range(4):
                with contextlib.suppress(OSError):
                    scene.port_behind()
    messages = [record.getMessage() for record in caplog.records if record.getMessage().startswith("not reached")]
    first, *others = sorted(endpoints)
    same = f"(the same of {others[0]}, {others[1]})"
    refused = f"cannot connect to {first}: connection refused; is a broker running there? {same}"
    assert messages == [f"not reached node=any why={refused!r}"]
