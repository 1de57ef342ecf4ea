"""Clients that close when they have sent their last request: what arrived whole is decided, as by Kafka's broker."""

import socket
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.security import Security
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch
from kcoord.security.listener import Listener
from tests.server.conftest import Serve, Server
from tests.server.fast_path.test_response_cache import wait_until
from tests.server.test_pre_auth_connection import frame, tls, trusting

LARGE = 20_000
"""Records of a batch that is decided in slices."""

Connect = Callable[[], Client]


@pytest.fixture
def server(serve: Serve, request: pytest.FixtureRequest) -> Server:
    settings = {"group.initial.rebalance.delay.ms": "300"}
    return serve(topics=(("t", 1),), listener=Listener(tls=tls()) if request.param == "TLS" else None, **settings)


@pytest.fixture
def connect(server: Server) -> Connect:
    """Clients that have read what the server sent them first: who closes with bytes unread resets the connection."""
    security = Security(tls=trusting()) if server.runtime._secure_listener is not None else Security()

    def connected() -> Client:
        client = server.client(security=security)
        client.ask(ApiKey.METADATA, 12, topics=())
        return client

    return connected


plainly = pytest.mark.parametrize("server", ["TCP"], indirect=True)
on_both = pytest.mark.parametrize("server", ["TCP", "TLS"], indirect=True)


def batch(records: int = 1, *, size: int = 0, codec: Codec = Codec.ZSTD) -> bytes:
    now = time.time_ns() // 1_000_000
    return write_batch([Record(timestamp=now, value=bytes(size))] * records, codec=codec)


def send_produce(client: Client, content: bytes, *, acks: int = 0) -> None:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": content}]}]
    client.send(ApiKey.PRODUCE, 9, acks=acks, timeout=timedelta(seconds=5), topic_data=data)


def send_join(client: Client, group_id: str) -> None:
    """The join of a new group's first member, which is answered after the initial delay."""
    client.send(
        ApiKey.JOIN_GROUP,
        3,
        group_id=group_id,
        session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=10),
        member_id="",
        protocol_type="consumer",
        protocols=({"name": "range", "metadata": b""},),
    )


def send_commit(client: Client, group_id: str) -> None:
    line = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [line]}]
    client.send(
        ApiKey.OFFSET_COMMIT, 7, group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def wait_until_all_are_gone(server: Server) -> None:
    wait_until(server, lambda: not server.runtime.connections)
    assert not server.on_loop(lambda: server.runtime._pending_requests.requests or server.runtime._sliced._jobs)
    assert server.on_loop(lambda: server.runtime._held_bytes) == 0


def end_offset(connect: Connect) -> int:
    with connect() as client:
        line = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        answer = client.ask(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": [line]}])
        return int(answer.topics[0].partitions[0].offset)


def committed(connect: Connect, group_id: str) -> int:
    with connect() as client:
        answer = client.ask(ApiKey.OFFSET_FETCH, 5, group_id=group_id, topics=[{"name": "t", "partition_indexes": [0]}])
        return int(answer.topics[0].partitions[0].committed_offset)


@on_both
def test_batches_behind_one_in_slices_are_appended(server: Server, connect: Connect) -> None:
    with connect() as client:
        send_produce(client, batch(LARGE))
        for _ in range(3):
            send_produce(client, batch())
    wait_until_all_are_gone(server)
    assert end_offset(connect) == LARGE + 3


@on_both
def test_batches_of_more_than_one_turn_are_appended(server: Server, connect: Connect) -> None:
    with connect() as client:
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch()}]}]
        client.send_bytes(frame(ApiKey.PRODUCE, 9, acks=0, timeout=timedelta(seconds=5), topic_data=data) * 1000)
    wait_until_all_are_gone(server)
    assert end_offset(connect) == 1000


@on_both
def test_batches_of_a_client_that_is_not_read_from_for_now_are_appended(server: Server, connect: Connect) -> None:
    with connect() as client:
        send_produce(client, batch(LARGE))
        for _ in range(20):
            send_produce(client, batch(size=10_000, codec=Codec.NONE))
    wait_until_all_are_gone(server)
    assert end_offset(connect) == LARGE + 20


@on_both
def test_requests_behind_one_in_slices_are_decided(server: Server, connect: Connect) -> None:
    with connect() as client:
        send_produce(client, batch(LARGE), acks=-1)
        send_commit(client, "g")
    wait_until_all_are_gone(server)
    assert (end_offset(connect), committed(connect, "g")) == (LARGE, 5)


@on_both
def test_requests_behind_a_parked_one_are_decided_when_that_is_answered(server: Server, connect: Connect) -> None:
    with connect() as client:
        send_join(client, "joined")
        send_commit(client, "g")
        send_produce(client, batch())
    wait_until_all_are_gone(server)
    assert (end_offset(connect), committed(connect, "g")) == (1, 5)


@on_both
def test_a_parked_request_with_nothing_behind_it_keeps_no_connection(server: Server, connect: Connect) -> None:
    with connect() as client:
        line = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        topics = [{"topic": "t", "partitions": [line]}]
        client.send(
            ApiKey.FETCH, 11, max_wait=timedelta(minutes=10), min_bytes=1, max_bytes=1, session_epoch=-1, topics=topics
        )
        wait_until(server, lambda: server.runtime._pending_requests.requests)
    wait_until_all_are_gone(server)


@plainly
@pytest.mark.parametrize("size", [0, 100_000])  # the latter is not read from meanwhile
def test_a_client_that_only_sends_no_more_has_its_answers(server: Server, connect: Connect, size: int) -> None:
    with connect() as client:
        send_produce(client, batch(LARGE), acks=-1)
        send_produce(client, batch(size=size, codec=Codec.NONE), acks=-1)
        send_commit(client, "g")
        client._socket.shutdown(socket.SHUT_WR)
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].base_offset == 0
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].base_offset == LARGE
        assert client.receive(ApiKey.OFFSET_COMMIT, 7).topics[0].partitions[0].error_code == 0
    wait_until_all_are_gone(server)
