"""Who takes the lane in a server, and what becomes of it there."""

import logging
import socket
from collections.abc import Iterator, Set
from contextlib import ExitStack
from typing import cast

import pytest

from kcoord.security.listener import Listener
from kcoord.server import lane
from kcoord.server.lane import LaneTransport
from kcoord.server.setup import Setup
from kcoord.server.standing_connection import StandingConnection
from kcoord.settings import Settings
from kcoord.wire.connect_errors import Disconnected
from kcoord.wire.security import Security
from tests.server.conftest import Serve, Server, serving
from tests.server.rings import LANES, needs_ring
from tests.server.test_gate import PLAINLY, SASL, tls, trusting
from tests.server.test_serving_groups import LIST_GROUPS, OFFSET_COMMIT, OFFSET_FETCH, quick
from tests.server.test_standing import NONE, Asking, wait_until

pytestmark = needs_ring
NO_DELAY = Settings(group_initial_rebalance_delay_ms=0)


def riding(server: Server) -> int:
    """How many are in the lane, as the loop sees it."""
    return sum(transport is not None for transport in _lane_transports(server))


def _lane_transports(server: Server) -> list[LaneTransport | None]:
    """Of each connection the one that it has in the lane."""
    connections = cast("Set[StandingConnection]", server.runtime.connections)
    return [each._in_lane for each in connections]


def riders(server: Server) -> int:
    found: int = server.on_loop(lambda: riding(server))
    return found


@pytest.fixture
def server(serve: Serve) -> Server:
    return quick(serve)


@pytest.fixture
def member(server: Server) -> Iterator[Asking]:
    with server.client() as client:
        yield Asking(client)


def test_who_asks_the_same_again_and_again_takes_the_lane_and_nobody_else(member: Asking, server: Server) -> None:
    with server.client() as onlooker:
        member.beat()
        assert riders(server) == 0
        member.stand()
        for _ in range(50):
            onlooker.ask(LIST_GROUPS, 4, states_filter=[])
        assert riders(server) == 1


def test_nobody_does_where_it_is_not_wanted(serve: Serve) -> None:
    server = quick(serve, properties=LANES["no lane"])
    with server.client() as client:
        Asking(client).stand()
        assert riders(server) == 0


def test_a_kernel_without_a_ring_is_said_once_and_all_is_as_it_was(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise OSError(38, "io_uring: not here")

    monkeypatch.setattr(lane, "Ring", refuse)
    server = quick(serve)
    with caplog.at_level(logging.INFO), server.client() as client, server.client() as other:
        Asking(client).stand()
        other.ask(LIST_GROUPS, 4, states_filter=[])
        Asking(other, "h").stand()
        assert riders(server) == 0
    assert caplog.text.count("no lane why='[Errno 38] io_uring: not here'") == 1


def test_other_requests_are_answered_in_the_lane_as_well(member: Asking, server: Server) -> None:
    member.stand()
    assert member.fetched() == 19
    assert member.client.ask(LIST_GROUPS, 4, states_filter=[]).groups[0].group_id == "g"
    assert member.beat() is NONE
    assert riders(server) == 1


def test_requests_in_parts_and_several_at_once_are_answered_in_their_order(member: Asking, server: Server) -> None:
    member.stand()
    frames = [member.a_heartbeat() for _ in range(3)] + [member.a_commit(number) for number in range(100, 103)]
    whole = b"".join(frames)
    for cut in range(1, len(whole), 7):
        member.client.send_bytes(whole[:cut])
        member.client.send_bytes(whole[cut:])
        answers = [member.client.receive_frame()[:4] for _ in frames]
        assert answers == [frame[8:12] for frame in frames]
    assert member.fetched() == 102


def test_a_large_request_leaves_the_lane_and_the_next_that_stands_takes_it(member: Asking, server: Server) -> None:
    member.stand()
    assert member.commit(5, topics=("t",) * 2000) == [NONE] * 2000
    wait_until(server, lambda: riding(server) == 0)
    assert member.beat() is NONE
    wait_until(server, lambda: riding(server) == 1)
    assert member.beat() is NONE


@pytest.mark.parametrize("end", ["it says no more", "it hangs up"])
def test_a_commit_that_a_client_sends_last_is_kept_and_answered(server: Server, end: str) -> None:
    with server.client() as onlooker:
        other = Asking(onlooker, "h")
        for number in range(10):
            group_id = f"g{number}"
            with server.client() as client:
                member = Asking(client, group_id)
                member.stand()
                assert riders(server) == 1
                client.send_bytes(member.a_commit(1000 + number))
                if end == "it says no more":
                    client._socket.shutdown(socket.SHUT_WR)
                    assert member.hear(OFFSET_COMMIT, 9).topics[0].partitions[0].error_code is NONE
            wait_until(server, lambda: len(server.runtime.connections) == 1)
            asked = [{"name": "t", "partition_indexes": [0]}]
            answer = onlooker.ask(OFFSET_FETCH, 7, group_id=group_id, topics=asked, require_stable=False)
            assert answer.topics[0].partitions[0].committed_offset == 1000 + number
        assert other.beat() is NONE


def test_a_commit_between_a_large_request_and_leaving_the_lane_is_answered(member: Asking, server: Server) -> None:
    member.stand()
    for number in range(20):
        large = member.a_commit(5, topics=("t",) * 2000)
        member.client.send_bytes(large + member.a_commit(number))
        answers = [member.client.receive_frame()[:4] for _ in range(2)]
        assert answers == [large[8:12], member.correlation_id.to_bytes(4)]
        assert member.fetched() == number
        assert member.beat() is NONE


def test_a_socket_that_the_loop_closes_by_itself_is_closed(member: Asking, server: Server) -> None:
    def close() -> None:
        (transport,) = _lane_transports(server)
        assert transport is not None
        transport._loops.abort()

    member.stand()
    server.on_loop(close)
    with pytest.raises(Disconnected):
        member.client.receive_frame()
    wait_until(server, lambda: not server.runtime.connections)


def test_a_malformed_request_is_hung_up_on_and_the_others_stay(member: Asking, server: Server) -> None:
    with server.client() as other:
        member.stand()
        neighbour = Asking(other, "h")
        neighbour.stand()
        member.client.send_bytes(b"\xff" * 64)
        with pytest.raises(Disconnected):
            member.client.receive_frame()
        assert neighbour.beat() is NONE
        wait_until(server, lambda: len(server.runtime.connections) == 1)
        assert riders(server) == 1


def test_a_client_that_is_gone_is_forgotten(server: Server) -> None:
    with ExitStack() as stack:
        for number in range(5):
            Asking(stack.enter_context(server.client()), f"g{number}").stand()
        assert riders(server) == 5
    wait_until(server, lambda: not server.runtime.connections)


def test_a_server_that_ends_hangs_up_on_its_riders() -> None:
    with serving(Setup(topics=(("t", 1),), settings=NO_DELAY)) as server:
        client = server.client()
        Asking(client).stand()
        assert riders(server) == 1
    with client, pytest.raises(Disconnected):
        client.receive_frame()


def test_over_tls_the_loop_reads_and_a_plain_login_does_not_matter(serve: Serve) -> None:
    for listener, security, count in (
        (Listener(tls=tls()), Security(tls=trusting()), 0),
        (Listener(sasl=SASL), PLAINLY, 1),
    ):
        server = serve(listener=listener, **{"group.initial.rebalance.delay.ms": "0"}, topics=(("t", 1),))
        with server.client(security=security) as client:
            member = Asking(client)
            member.stand()
            assert riders(server) == count
            assert member.beat() is NONE
