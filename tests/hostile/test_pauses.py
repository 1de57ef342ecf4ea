"""A server or a proxy that is stopped for longer than its members' sessions, and continued."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from kcoord.client.security import Security, Tls
from kcoord.errors import ErrorCode
from kcoord.testing.embedded import EmbeddedCluster
from kcoord.testing.proxy import ProxyProcess
from tests.hostile.conftest import Serve
from tests.support.certificates import authority, signed
from tests.support.hostile.scene import Scene, wait_until
from tests.support.procs import stopped

MEMBERS = 20
SESSION_MS = 1_000
PAUSE = 1.5
SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "200"}


SUBSCRIPTION = bytes(6) + b"\xff\xff\xff\xff"  # version 0, no topics, no user data
Open = Callable[[], Scene]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    client: Client
    group_id: str
    member_id: str

    def send_heartbeat(self) -> None:
        self.client.send(ApiKey.HEARTBEAT, 4, group_id=self.group_id, generation_id=1, member_id=self.member_id)

    def receive_heartbeat(self) -> ErrorCode:
        return ErrorCode(self.client.receive(ApiKey.HEARTBEAT, 4).error_code)

    def heartbeat(self) -> ErrorCode:
        self.send_heartbeat()
        return self.receive_heartbeat()


@contextmanager
def members(scene: Scene, group_ids: list[str]) -> Iterator[list[Member]]:
    """Yields one member for each of these groups, alone in it."""
    with ExitStack() as stack:
        clients = [stack.enter_context(scene.client()) for _ in group_ids]
        asked = list(zip(clients, group_ids, strict=True))
        for client, group_id in asked:
            client.send(ApiKey.JOIN_GROUP, 3, **_join(group_id))
        joined = [Member(client=client, group_id=group_id, member_id=client.receive(ApiKey.JOIN_GROUP, 3).member_id)
                  for client, group_id in asked]  # fmt: skip
        for each in joined:
            plan = ({"member_id": each.member_id, "assignment": b""},)
            each.client.send(
                ApiKey.SYNC_GROUP,
                3,
                group_id=each.group_id,
                generation_id=1,
                member_id=each.member_id,
                assignments=plan,
            )
        for each in joined:
            assert each.client.receive(ApiKey.SYNC_GROUP, 3).error_code == ErrorCode.none
        yield joined


def _join(group_id: str) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "session_timeout": timedelta(milliseconds=SESSION_MS),
        "rebalance_timeout": timedelta(minutes=1),
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": ({"name": "range", "metadata": SUBSCRIPTION},),
    }


def pause(scene: Scene, meanwhile: Callable[[], None]) -> None:
    """Stops the process for longer than a session, calls `meanwhile`, and continues it."""
    with stopped(scene.pid):
        meanwhile()
        time.sleep(PAUSE)  # The server's clock is the system's.


@pytest.fixture
def over_tcp(serve: Serve) -> Open:
    return lambda: serve(settings=SETTINGS)


@pytest.fixture
def over_tls(kcoord_cluster_factory: Callable[..., EmbeddedCluster], tmp_path: Path) -> Iterator[Open]:
    root = authority("the authority")
    options = ["--tls-cert", str(signed(root, "server").write_pem(tmp_path / "server.pem"))]
    with kcoord_cluster_factory(settings=SETTINGS, options=options) as cluster:
        scene = Scene(cluster, security=Security(tls=Tls(authorities=root.certificate_pem)))
        yield lambda: scene
        scene.assert_well()


@pytest.fixture
def through_a_proxy(
    kcoord_cluster: EmbeddedCluster, kcoord_proxy_factory: Callable[..., ProxyProcess]
) -> Iterator[Open]:
    """One that coordinates groups itself."""
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    with kcoord_proxy_factory(kcoord_cluster.bootstrap, "--coordinate", "local", *settings) as proxy:
        scene = Scene(proxy)
        yield lambda: scene
        scene.assert_well()


@pytest.mark.parametrize("way", ["over_tcp", "over_tls", "through_a_proxy"])
@pytest.mark.parametrize("beats_before", [0, 40])  # After 40 heartbeats the response cache answers them.
def test_members_whose_heartbeats_lie_in_the_sockets_are_not_expelled(
    request: pytest.FixtureRequest, way: str, beats_before: int
) -> None:
    scene = request.getfixturevalue(way)()
    alive_ids = [f"alive-{number}" for number in range(MEMBERS)]
    with members(scene, [*alive_ids, "silent"]) as (*alive, silent):
        for _ in range(beats_before):
            for each in [*alive, silent]:
                assert each.heartbeat() is ErrorCode.none

        def beat() -> None:
            for each in alive:
                each.send_heartbeat()

        beat()
        assert {each.receive_heartbeat() for each in alive} == {ErrorCode.none}
        pause(scene, beat)
        assert [each.receive_heartbeat() for each in alive] == [ErrorCode.none] * MEMBERS

        def is_silent_expelled() -> bool:
            assert {each.heartbeat() for each in alive} == {ErrorCode.none}
            return _state(scene, silent.group_id) == "Empty"

        wait_until(is_silent_expelled, what="the silent member is expelled")


def _state(scene: Scene, group_id: str) -> str:
    return str(scene.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=(group_id,)).groups[0].group_state)


def test_connections_on_which_something_has_arrived_are_not_closed_as_idle(serve: Serve) -> None:
    scene = serve(settings={"connections.max.idle.ms": "2000"})
    with scene.client() as busy, scene.client() as idle:
        busy.ask(ApiKey.METADATA, 12, topics=())
        idle.ask(ApiKey.METADATA, 12, topics=())
        pause(scene, lambda: busy.send(ApiKey.METADATA, 12, topics=()))
        assert busy.receive(ApiKey.METADATA, 12).brokers
        with pytest.raises(Disconnected):
            idle.receive_frame()
