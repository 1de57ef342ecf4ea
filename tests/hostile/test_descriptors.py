"""More clients than file descriptors: the connected ones are served, also with APIs that nobody has used yet."""

import json
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.server.listener.descriptors import connection_capacity
from kcoord.testing.embedded import EmbeddedCluster, serve_command
from kcoord.testing.process import CapturedProcess
from kcoord.testing.proxy import proxy_command
from tests.support import procs
from tests.support.hostile.scene import FAULTS, PATIENCE, request_frame, wait_until

LIMIT: Final = 160
HELLO: Final = request_frame(ApiKey.API_VERSIONS, 0, b"")
VALUES: Final[Mapping[int, dict[str, Any]]] = {0: {"acks": -1}}
_LIMITED_TO: Final = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Limited:
    """A process with few descriptors, which prints its address."""

    def __init__(self, command: list[str]) -> None:
        self.process = CapturedProcess([sys.executable, "-c", _LIMITED_TO, str(LIMIT), *command], name=command[3])
        try:
            ready = json.loads(self.process.wait_for('{"kcoord": ', timeout=PATIENCE))
        except BaseException:
            self.process.kill()
            raise
        host, _, port = ready["bootstrap"].rpartition(":")
        self.address = (host, int(port))

    def client(self) -> Client:
        return Client(*self.address, timeout=PATIENCE)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE)

    def is_served(self, raw: socket.socket) -> bool:
        """Returns whether the server answers on this connection; otherwise it has hung up."""
        try:
            raw.sendall(HELLO)
            return raw.recv(1) != b""
        except (ConnectionResetError, BrokenPipeError):
            return False

    def lines(self, text: str) -> list[str]:
        return [line for line in self.process.stderr().splitlines() if text in line]

    def assert_no_faults(self) -> None:
        assert not FAULTS.findall(self.process.stderr())


@contextmanager
def limited(command: list[str]) -> Iterator[Limited]:
    served = Limited(command)
    try:
        yield served
    finally:
        served.process.kill()


@pytest.fixture
def served() -> Iterator[Limited]:
    with limited(serve_command(1, {"here": 1}, {})) as running:
        yield running


@pytest.fixture
def proxied(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[Limited]:
    """A proxy with few descriptors in front of a server that has enough."""
    with kcoord_cluster_factory() as cluster, limited(proxy_command(cluster.bootstrap, ())) as running:
        yield running


def fill(server: Limited, stack: ExitStack) -> int:
    """Connects more often than there are descriptors. Returns how many connections are served."""
    crowd = [stack.enter_context(server.connect()) for _ in range(LIMIT + 100)]
    return sum(server.is_served(raw) for raw in crowd)


def ask_everything(client: Client, keys: Mapping[int, Any] = SERVED) -> None:
    """Calls every API for the first time, in its newest version and in its oldest."""
    for key in keys:
        for version in (SERVED[key].versions[-1], SERVED[key].versions[0]):
            client.ask(key, version, **VALUES.get(key, {}))


def test_who_was_there_before_the_crowd_can_use_every_api(served: Limited) -> None:
    with ExitStack() as stack:
        honest = stack.enter_context(served.client())
        honest.ask(ApiKey.METADATA, 12, topics=())
        let_in = fill(served, stack)
        assert 16 <= let_in <= LIMIT - 2 * (LIMIT // 4), "there is to be room for some, and a reserve"
        ask_everything(honest)
        assert procs.open_files(served.process.pid) < LIMIT - 16
        assert not served.is_served(stack.enter_context(served.connect()))
        honest.ask(ApiKey.METADATA, 12, topics=())
    refusals = served.lines(f"RLIMIT_NOFILE={LIMIT}")
    assert 1 <= len(refusals) < 20, "a line now and then, not for each"
    assert " WARNING " in refusals[0]
    wait_until(lambda: _is_open_again(served), what="there is room again")
    served.assert_no_faults()


@pytest.mark.parametrize("which", ["served", "proxied"])
def test_a_crowd_has_all_loaded_that_serving_may_need(which: str) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(EmbeddedCluster())
        command = serve_command(1, {}, {}) if which == "served" else proxy_command(cluster.bootstrap, ())
        crowded = stack.enter_context(limited([*command, "-v"]))
        assert not crowded.lines("all is loaded")
        fill(crowded, stack)
        wait_until(lambda: bool(crowded.lines("all is loaded")), what="all is loaded")


def test_a_proxy_serves_who_was_there_before_the_crowd(proxied: Limited) -> None:
    with ExitStack() as stack:
        honest = stack.enter_context(proxied.client())
        honest.ask(ApiKey.API_VERSIONS, 3, client_software_name="honest", client_software_version="1")
        let_in = fill(proxied, stack)
        assert 8 <= let_in <= (LIMIT - 2 * (LIMIT // 4)) // 2
        ask_everything(honest, {key: api for key, api in SERVED.items() if api.name != "SaslHandshake"})
        assert procs.open_files(proxied.process.pid) < LIMIT - 16
    assert 1 <= len(proxied.lines(f"RLIMIT_NOFILE={LIMIT}")) < 20
    wait_until(lambda: _is_open_again(proxied), what="there is room again")
    proxied.assert_no_faults()


def test_max_connections_beyond_the_descriptors_is_said_at_the_start() -> None:
    with limited(serve_command(1, {}, {"max.connections": "5000"})) as running:
        [line] = running.lines("max.connections=5000: RLIMIT_NOFILE=160 leaves room for")
        assert "WARNING" in line
    with limited(serve_command(1, {}, {"max.connections": "10"})) as running, ExitStack() as stack:
        assert fill(running, stack) == 10
        assert not running.lines("RLIMIT_NOFILE")


@pytest.mark.parametrize(("limit", "least"), [(64, 16), (256, 100), (1024, 480), (20_000, 15_000), (1 << 20, 1 << 19)])
def test_there_is_room_for_most_who_can_come(limit: int, least: int) -> None:
    assert least <= connection_capacity(limit, opened=16) < limit
    assert connection_capacity(limit, opened=16, per_client=2) == connection_capacity(limit, opened=16) // 2


def test_there_is_room_for_one_however_few_descriptors_there_are() -> None:
    assert connection_capacity(8, opened=100) == 1


def test_ten_thousand_find_room_on_this_machine() -> None:
    """The tests with so many connections need it, where the limit allows them at all."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_capacity(max(most, 16_384), opened=100) > 10_000


def _is_open_again(server: Limited) -> bool:
    with server.connect() as raw:
        return server.is_served(raw)
