"""Clients that have not logged in get the versions of the broker that they mean, at next to no cost."""

import socket
import struct
from contextlib import closing

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.proxy.rewriting.endpoints import Endpoint
from kcoord.security.listener import Listener, Sasl
from kcoord.security.users import Users
from tests.proxy.brokers.test_following import Scene, proxying
from tests.proxy.fake_cluster import NODE, FakeCluster

LISTENER = Listener(sasl=Sasl(mechanisms=("PLAIN",), users=Users.nobody))


def node_named_by(client: Client, version: int = 4) -> int:
    """Returns the id of the broker whose versions the client gets."""
    (found,) = [each for each in client.ask(ApiKey.API_VERSIONS, version).api_keys if each.api_key == NODE]
    return int(found.max_version)


def socket_to(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(endpoint, timeout=60)


def test_it_is_the_broker_whose_port_it_is_that_tells() -> None:
    with FakeCluster() as cluster:
        endpoints = [cluster.start(node_id) for node_id in (1, 2, 3)]
        with proxying(*endpoints, listener=LISTENER) as scene:
            for node_id in (1, 2, 3, 3, 2, 1):
                with scene.client(node_id) as client:
                    assert node_named_by(client) == node_id


def test_each_version_is_answered_as_the_broker_would_and_asked_for_once() -> None:
    with FakeCluster() as cluster, proxying(cluster.start(1), listener=LISTENER, refresh_interval=600) as scene:
        before = cluster.asked[1, ApiKey.API_VERSIONS]
        for _ in range(5):
            for version in (0, 4):
                with scene.client(1) as client:
                    assert node_named_by(client, version) == 1
        assert cluster.asked[1, ApiKey.API_VERSIONS] == before + 2


def test_what_a_stranger_sends_goes_to_no_broker_and_nobody_logs_in_for_it() -> None:
    with FakeCluster() as cluster:
        endpoints = [cluster.start(node_id) for node_id in (1, 2, 3)]
        with proxying(*endpoints, listener=LISTENER, refresh_interval=600) as scene:
            cluster.asked.clear()
            for _ in range(10):
                with closing(socket_to(bootstrap(scene))) as stranger:
                    garbage = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 7, -1) + b"garbage"
                    stranger.sendall(len(garbage).to_bytes(4) + garbage)
                    assert stranger.recv(8)[4:] == (7).to_bytes(4)
            assert set(cluster.asked) <= {(node_id, ApiKey.API_VERSIONS) for node_id in (1, 2, 3)}
            assert sum(cluster.asked.values()) <= 3
            assert not any(api_key == ApiKey.SASL_AUTHENTICATE for _, api_key in cluster.asked)


def bootstrap(scene: Scene) -> Endpoint:
    host, _, port = scene.proxy.bootstrap.rpartition(":")
    return Endpoint(host, int(port))
