"""Brokers that are added, removed or moved, which clients of the proxy do not notice."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.client.secret import Secret
from kcoord.client.security import Plain, Security
from kcoord.proxy.forwarding.in_flight import PendingRequest
from kcoord.proxy.listeners import BOOTSTRAP
from kcoord.proxy.proxy import Proxy
from kcoord.proxy.rewriting.addresses import GRACE, Brokers, Changes, PortNumbering
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.proxy.setup import CannotProxy, ProxySetup
from kcoord.security.listener import Listener, Sasl
from kcoord.security.users import Users
from kcoord.server.log_text import format_node
from kcoord.settings import Settings
from kcoord.testing.node import free_ports
from tests.proxy.fake_cluster import FakeCluster

DEADLINE = 60.0
A, B, C = Endpoint("a", 1), Endpoint("b", 2), Endpoint("c", 3)


# addresses.Brokers


def test_what_an_answer_tells_is_new_moved_missing_or_nothing() -> None:
    brokers = Brokers()
    assert brokers.update_all({1: A, 2: B}, 0.0) == Changes(new=(1, 2))
    assert brokers.update_all({1: A, 2: B}, 1.0) == Changes()
    assert brokers.update_all({1: A, 2: C, 3: B}, 2.0) == Changes(new=(3,), moved=(2,))
    assert brokers.update_all({1: A}, 3.0) == Changes(missing=(2, 3))
    assert brokers.update_all({1: A}, 4.0) == Changes()
    assert brokers.live == (1,)
    assert brokers.known == (1, 2, 3)


def test_a_broker_that_was_missing_has_returned_wherever_it_is_now() -> None:
    brokers = Brokers()
    brokers.update_all({1: A, 2: B, 3: C}, 0.0)
    brokers.update_all({1: A}, 1.0)
    assert brokers.update_all({1: A, 2: B}, 2.0) == Changes(returned=(2,))
    assert brokers.update({3: A}) == Changes(returned=(3,))
    assert brokers.update_all({1: A, 2: B, 3: A}, 3.0) == Changes()


def test_an_answer_that_tells_of_some_makes_nobody_missing() -> None:
    brokers = Brokers()
    brokers.update_all({1: A, 2: B}, 0.0)
    assert brokers.update({2: C}) == Changes(moved=(2,))
    assert brokers.live == (1, 2)
    assert brokers.update_all({}, 1.0) == Changes(), "who knows nobody does not know"
    assert brokers.live == (1, 2)


def test_a_broker_that_is_missing_is_forgotten_after_a_while_unless_it_comes_back() -> None:
    brokers = Brokers()
    brokers.update_all({1: A, 2: B, 3: C}, 0.0)
    brokers.update_all({1: A}, 10.0)
    brokers.update({3: C})
    assert brokers.forget(10.0 + GRACE - 1) == ()
    assert brokers.forget(10.0 + GRACE) == (2,)
    assert brokers.known == (1, 3)
    assert brokers.endpoint(2) is None


def test_a_port_goes_by_the_id() -> None:
    assert PortNumbering(port_base=9093).port_of(7) == 9100
    assert PortNumbering(port_base=0).port_of(7) == 0
    assert PortNumbering(port_base=65_000).port_of(600) is None


# A running proxy, in a separate thread.


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    proxy: Proxy
    loop: asyncio.AbstractEventLoop

    def client(self, node_id: int | None = None) -> Client:
        if node_id is not None:
            return Client(*self.proxy.endpoint_of(node_id))
        host, _, port = self.proxy.bootstrap.rpartition(":")
        return Client(host, int(port))

    def port_behind(self, node_id: int | None = None) -> int:
        """Returns the port of the broker that a client is connected to."""
        with self.client(node_id) as client:
            throttle_time: timedelta = client.ask(ApiKey.HEARTBEAT, 4).throttle_time
        return round(throttle_time.total_seconds() * 1000)

    def metadata(self) -> dict[int, Endpoint]:
        """Returns the brokers in a Metadata answer that a client gets."""
        with self.client() as client:
            brokers = client.ask(ApiKey.METADATA, 12, topics=()).brokers
        return {each.node_id: Endpoint(each.host, each.port) for each in brokers}


@contextmanager
def proxying(*upstream: Endpoint, **changes: Any) -> Iterator[Scene]:
    proxy = Proxy(ProxySetup(upstream=upstream, **{"refresh_interval": 0.2, **changes}))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> None:
        await proxy.__aenter__()
        await proxy.serve()

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(DEADLINE)
        yield Scene(proxy=proxy, loop=loop)
        asyncio.run_coroutine_threadsafe(proxy.__aexit__(None, None, None), loop).result(DEADLINE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def until(find: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not find():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def test_a_client_is_connected_to_the_broker_that_it_means() -> None:
    with FakeCluster() as cluster:
        endpoints = {node_id: cluster.start(node_id) for node_id in (1, 5)}
        with proxying(endpoints[1]) as scene:
            assert scene.metadata() == {node_id: scene.proxy.endpoint_of(node_id) for node_id in (1, 5)}
            assert {node_id: scene.port_behind(node_id) for node_id in (1, 5)} == {
                node_id: endpoint.port for node_id, endpoint in endpoints.items()
            }


def test_a_broker_that_an_answer_tells_of_can_be_reached_when_the_answer_is_there() -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1)) as scene, scene.client() as client:
        for node_id in range(2, 8):
            new = cluster.start(node_id)
            ports = {each.node_id: each.port for each in client.ask(ApiKey.METADATA, 12, topics=()).brokers}
            with Client("127.0.0.1", ports[node_id]) as straight:
                answer = straight.ask(ApiKey.HEARTBEAT, 4)
            assert answer.throttle_time.total_seconds() * 1000 == new.port


def test_a_broker_that_moves_is_followed_without_any_client_asking() -> None:
    with FakeCluster() as cluster:
        first, old = cluster.start(1), cluster.start(2)
        with proxying(first) as scene:
            assert scene.port_behind(2) == old.port
            here = scene.proxy.endpoint_of(2)
            new = cluster.start(2)
            cluster.stop(old)
            until(lambda: scene.proxy.brokers.endpoint(2) == new, "the look that finds it")
            assert scene.port_behind(2) == new.port
            assert scene.proxy.endpoint_of(2) == here


def test_a_broker_that_is_down_is_hung_up_for_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kcoord.proxy")
    with FakeCluster() as cluster:
        first, second = cluster.start(1), cluster.start(2)
        with proxying(first) as scene:
            cluster.stop(second)
            for _ in range(5):
                with scene.client(2) as client, pytest.raises(Disconnected):
                    client.ask(ApiKey.HEARTBEAT, 4)
            assert scene.port_behind(1) == first.port
            cluster.start(2)
            until(lambda: scene.proxy.brokers.endpoint(2) == cluster.endpoints[2], "the look that finds it")
            assert scene.port_behind(2) == cluster.endpoints[2].port
    messages = [record.getMessage() for record in caplog.records]
    assert len([line for line in messages if line.startswith("not reached node=2")]) == 1
    assert [line for line in messages if line.startswith("reached again")] == ["reached again node=2"]


def test_a_broker_that_returns_is_one_line_and_is_reached_again_only_when_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kcoord.proxy")
    with FakeCluster() as cluster:
        first, second = cluster.start(1), cluster.start(2)
        with proxying(first) as scene:
            del cluster.endpoints[2]
            cluster.stop(second)
            until(lambda: scene.proxy.brokers.live == (1,), "the look that misses it")
            with pytest.raises(Disconnected):
                scene.port_behind(2)
            back = cluster.start(2)
            until(lambda: scene.proxy.brokers.live == (1, 2), "the look that finds it")
            until(lambda: "broker returned" in caplog.text, "the line")
            assert "reached again" not in caplog.text
            assert scene.port_behind(2) == back.port
    messages = [record.getMessage() for record in caplog.records if "again" in record.msg or "returned" in record.msg]
    assert messages == [f"broker returned node=2 upstream={back}", "reached again node=2"]


def test_who_means_any_broker_is_logged_so() -> None:
    assert [format_node(node_id) for node_id in (None, BOOTSTRAP, 0, 7)] == ["any", "any", "0", "7"]


def test_who_is_hung_up_on_where_clients_begin_meant_any_broker(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1)) as scene:
        host, _, port = scene.proxy.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as stranger:
            stranger.sendall(b"\xff" * 20)
            assert stranger.recv(1) == b""
    assert " node=any why='a frame length of -1, " in caplog.text


def test_who_is_refused_at_the_gate_where_clients_begin_meant_any_broker(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener(sasl=Sasl(mechanisms=("PLAIN",), users=Users.nobody))
    with FakeCluster() as cluster, proxying(cluster.start(1), listener=listener) as scene:
        host, _, port = scene.proxy.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as stranger:
            stranger.sendall(b"\xff" * 20)
            assert stranger.recv(1) == b""
    assert " node=any why=malformed " in caplog.text


def test_who_begins_is_given_any_broker_that_answers() -> None:
    with FakeCluster() as cluster:
        first, second = cluster.start(1), cluster.start(2)
        with proxying(first, second) as scene:
            assert {scene.port_behind() for _ in range(4)} == {first.port, second.port}
            cluster.stop(first)
            assert {scene.port_behind() for _ in range(4)} == {second.port}


def test_a_broker_that_is_not_told_of_keeps_its_port() -> None:
    with FakeCluster() as cluster:
        first, second = cluster.start(1), cluster.start(2)
        with proxying(first) as scene:
            del cluster.endpoints[2]
            assert scene.metadata() == {1: scene.proxy.endpoint_of(1)}
            assert scene.proxy.brokers.live == (1,)
            assert scene.port_behind(2) == second.port


def test_ports_go_by_ids_and_a_new_broker_whose_port_is_taken_gets_another(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster() as cluster:
        first = cluster.start(0)
        base = next(port for port in free_ports(100) if not {port + 1, port + 2} & {first.port})
        with proxying(first, port_base=base) as scene:
            assert scene.metadata() == {0: Endpoint("127.0.0.1", base)}
            with socket.create_server(("127.0.0.1", base + 2)):
                third = cluster.start(2)
                endpoints = scene.metadata()
            assert endpoints[2].port != base + 2
            assert scene.port_behind(2) == third.port
    assert [record.levelname for record in caplog.records if "another port node=2" in record.getMessage()] == [
        "WARNING"
    ]


def test_an_id_that_leads_beyond_the_last_port_is_said_at_the_start() -> None:
    with FakeCluster() as cluster:
        first = cluster.start(1000)
        with (
            pytest.raises(CannotProxy, match="port 65000 \\+ 1000 of broker 1000 is above 65535"),
            proxying(first, port_base=65_000),
        ):
            pytest.fail("it has started")


def test_nobody_upstream_is_said_at_the_start() -> None:
    with FakeCluster() as cluster:
        endpoint = cluster.start(1)
        cluster.stop(endpoint)
        refused = f"cannot connect to {endpoint}: connection refused"
        with pytest.raises(CannotProxy, match=refused), proxying(endpoint):
            pytest.fail("it has started")


def test_a_port_that_could_not_be_had_is_tried_again_when_its_broker_is_told_of_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1), refresh_interval=600) as scene:

        def bind(node_id: int, port: int) -> None:
            raise CannotProxy("too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(scene.proxy._listeners, "_bind", bind)
            second = cluster.start(2)
            with pytest.raises(Disconnected):
                scene.metadata()
        assert scene.metadata() == {1: scene.proxy.endpoint_of(1), 2: scene.proxy.endpoint_of(2)}
        assert scene.port_behind(2) == second.port
    assert "upstream: too many open files" in caplog.text
    assert "bug" not in caplog.text


def test_a_broker_that_hangs_up_right_after_the_login_leaves_no_client_waiting() -> None:
    sasl = Plain(username="u", password=Secret("p"))
    with FakeCluster() as cluster, proxying(cluster.start(1), security=Security(sasl=sasl)) as scene:
        assert scene.port_behind(1)
        cluster.hangs_up_after_login = True
        for _ in range(10):
            with pytest.raises(Disconnected):
                scene.port_behind(1)


def test_ids_that_nobody_has_told_of_are_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1), broker_ids=(7, 8)) as scene:
        for node_id in (7, 8):
            with pytest.raises(Disconnected):
                scene.port_behind(node_id)
        assert not scene.proxy._unreachable
    assert "not reached" not in caplog.text


def test_ports_of_named_brokers_lead_to_any_where_only_clients_can_log_in_and_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1), broker_ids=(1, 7)) as scene:
        monkeypatch.setattr(scene.proxy._metadata_refresher, "needs_login", True)
        assert scene.port_behind(7) == scene.port_behind(1)
        seventh = cluster.start(7)
        assert scene.metadata().keys() == {1, 7}
        assert scene.port_behind(7) == seventh.port


@pytest.mark.parametrize("is_full", [True, False])
def test_a_client_that_is_held_back_and_hears_nothing_is_idle(is_full: bool) -> None:
    settings = Settings.from_properties({"connections.max.idle.ms": "200"})
    with (
        FakeCluster() as cluster,
        proxying(cluster.start(1), settings=settings) as scene,
        scene.client(1) as client,
    ):
        assert client.ask(ApiKey.HEARTBEAT, 4)
        (side,) = scene.proxy.clients
        side.pending.append(PendingRequest(1, scene.proxy.routes[ApiKey.HEARTBEAT << 16 | 4], 0.0))
        if is_full:
            scene.loop.call_soon_threadsafe(side.on_upstream_full)
            until(lambda: not scene.proxy.clients, "the sweep")
        else:  # an answer comes, possibly later
            time.sleep(1)
            assert scene.proxy.clients
