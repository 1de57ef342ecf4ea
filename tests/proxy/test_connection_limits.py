"""Clients beyond a proxy's connection limits are refused, and counted only as refused."""

import socket
from contextlib import closing

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Disconnected
from kcoord.proxy.metrics import ProxyCounters
from kcoord.security.listener import Listener, Sasl
from kcoord.security.refusals import Refusal
from kcoord.security.users import Users
from kcoord.settings import Settings
from tests.proxy.brokers.test_following import Scene, proxying, until
from tests.proxy.fake_cluster import FakeCluster


def connected(scene: Scene) -> socket.socket:
    host, _, port = scene.proxy.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_a_client_beyond_the_limit_is_refused_and_was_never_open(setting: str) -> None:
    settings = Settings.from_properties({setting: "1"})
    with FakeCluster() as cluster, proxying(cluster.start(1), settings=settings) as scene:
        meter = scene.proxy.metrics = ProxyCounters()
        with scene.client() as one:
            assert one.ask(ApiKey.METADATA, 12, topics=()).brokers
            with pytest.raises(Disconnected), scene.client() as beyond:
                beyond.ask(ApiKey.METADATA, 12, topics=())
            until(lambda: scene.proxy.refused == {Refusal.LIMIT: 1}, "the refusal")
            assert one.ask(ApiKey.METADATA, 12, topics=()).brokers
        until(lambda: not scene.proxy.clients, "the end")
        assert (meter.clients_opened, meter.clients_closed, meter.clients_broken) == (1, 1, 0)
        with scene.client() as another:
            assert another.ask(ApiKey.METADATA, 12, topics=()).brokers


def test_who_has_not_logged_in_yet_counts() -> None:
    listener = Listener(sasl=Sasl(mechanisms=("PLAIN",), users=Users.nobody))
    settings = Settings.from_properties({"max.connections": "1"})
    with (
        FakeCluster() as cluster,
        proxying(cluster.start(1), settings=settings, listener=listener) as scene,
        closing(connected(scene)),
        closing(connected(scene)) as beyond,
    ):
        assert beyond.recv(1) == b""
        assert scene.proxy.refused == {Refusal.LIMIT: 1}
