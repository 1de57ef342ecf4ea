"""Requests that are decided in slices: they alternate, and one at a time holds decompressed bytes."""

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from kcoord.api_keys import ApiKey
from kcoord.broker.log.slices import SMALL_BYTES, Decompression, Slices
from kcoord.client.client import Client
from kcoord.client.connect_errors import Disconnected
from kcoord.protocol.records.batch import Batch, CorruptBatch, produced_batch
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch
from kcoord.server.connection.sliced_requests import SlicedRequests
from kcoord.tickets import Ticket
from tests.server.conftest import Serve, Server
from tests.server.fast_path.test_response_cache import wait_until


class Running:
    """Work for a thread, pending until the test runs it."""

    def __init__(self, act: Callable[[], bytes]) -> None:
        self._act = act
        self._then: list[Callable[[Any], None]] = []
        self._result: bytes | None = None
        self._error: Exception | None = None

    def add_done_callback(self, then: Callable[[Any], None]) -> None:
        self._then.append(then)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> bytes | None:
        return self._result

    def end(self) -> None:
        try:
            self._result = self._act()
        except CorruptBatch as bad:
            self._error = bad
        for then in self._then:
            then(self)


class Loop:
    """A loop that runs scheduled calls and thread work when the test asks for it."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []
        self.running: list[Running] = []

    def call_soon(self, act: Callable[[], None]) -> object:
        self.ready.append(act)
        return object()

    def run_in_executor(self, executor: None, act: Callable[[], bytes]) -> Running:
        self.running.append(Running(act))
        return self.running[-1]

    def iterate(self) -> None:
        ready, self.ready = self.ready, []
        for act in ready:
            act()


class Stage:
    def __init__(self) -> None:
        self.loop = Loop()
        self.done: list[str] = []
        self.finished: dict[int, Any] = {}
        self.failed: dict[int, Exception] = {}
        self.work = SlicedRequests(
            cast(asyncio.AbstractEventLoop, self.loop),
            finish=self.finished.__setitem__,
            fail=self.failed.__setitem__,
        )

    def add(self, ticket: int, slices: Slices[str]) -> None:
        self.work.add(Ticket(ticket), slices, next(slices))

    def plain(self, name: str, slices: int = 3) -> Slices[str]:
        for number in range(slices):
            self.done.append(f"{name}{number}")
            yield None
        return name

    def large(self, name: str, batch: Batch) -> Slices[str]:
        content = yield Decompression(batch, 1 << 20)
        self.done.append(name)
        yield None
        return f"{name} {len(content or b'')}"


def test_each_iteration_of_the_loop_does_one_slice_and_requests_take_turns() -> None:
    stage = Stage()
    stage.add(1, stage.plain("a"))
    stage.add(2, stage.plain("b"))
    seen = []
    while stage.loop.ready:
        stage.loop.iterate()
        seen.append(len(stage.done))
    assert stage.done == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert [later - earlier for earlier, later in pairwise(seen)] == [1] * 3 + [0] * 2
    assert stage.finished == {1: "a", 2: "b"}


BATCH = produced_batch(write_batch([Record(value=bytes(1000))], codec=Codec.ZSTD))


def test_one_request_at_a_time_is_decompressed_and_keeps_its_place_until_it_is_done() -> None:
    stage = Stage()
    for ticket in (1, 2, 3):
        stage.add(ticket, stage.large(f"large{ticket}", BATCH))
    assert len(stage.loop.running) == 1
    stage.loop.running[0].end()
    assert stage.done == ["large1"]
    assert len(stage.loop.running) == 1, "the first is not done"
    stage.loop.iterate()
    assert set(stage.finished) == {1}
    assert len(stage.loop.running) == 2


def test_who_hangs_up_while_it_is_decompressed_or_waits_for_that_lets_the_next_go_on() -> None:
    stage = Stage()
    for ticket in (1, 2, 3):
        stage.add(ticket, stage.large(f"large{ticket}", BATCH))
    stage.work.forget(Ticket(2))
    stage.work.forget(Ticket(1))
    assert len(stage.loop.running) == 1, "a thread cannot be stopped"
    stage.loop.running[0].end()
    stage.loop.running[1].end()
    stage.loop.iterate()
    assert set(stage.finished) == {3}
    assert stage.done == ["large3"]


def test_a_request_whose_client_has_hung_up_is_not_gone_on_with() -> None:
    stage = Stage()
    stage.add(1, stage.plain("a"))
    stage.work.forget(Ticket(1))
    stage.loop.iterate()
    assert stage.done == ["a0"]
    assert not stage.finished


def test_a_fault_ends_one_request_and_no_other() -> None:
    stage = Stage()

    def faulty() -> Slices[str]:
        yield None
        raise RuntimeError("a bug")

    stage.add(1, faulty())
    stage.add(2, stage.plain("b"))
    while stage.loop.ready:
        stage.loop.iterate()
    assert [str(error) for error in stage.failed.values()] == ["a bug"]
    assert stage.finished == {2: "b"}


def test_what_cannot_be_decompressed_is_told_to_the_one_who_asked() -> None:
    stage = Stage()

    def asking() -> Slices[str]:
        torn = Batch(header=BATCH.header, data=BATCH.data[:-5])
        try:
            yield Decompression(torn, 1 << 20)
        except CorruptBatch:
            return "refused"
        return "taken"

    stage.add(1, asking())
    stage.loop.running[0].end()
    assert stage.finished == {1: "refused"}


# Served.


def large_batch(*, codec: Codec = Codec.ZSTD, records: int = 150_000) -> bytes:
    return write_batch([Record(timestamp=time.time_ns() // 1_000_000)] * records, codec=codec)


def send_produce(client: Client, batch: bytes, *, acks: int = -1) -> None:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
    client.send(ApiKey.PRODUCE, 9, acks=acks, timeout=timedelta(seconds=5), topic_data=data)


class Ticker:
    """Counts the iterations of a server's loop while a request is parked."""

    def __init__(self, server: Server) -> None:
        self.count = 0
        self._server = server
        server.on_loop(self._tick)

    def _tick(self) -> None:
        self.count += bool(self._server.runtime._pending_requests.requests)
        self._server.loop.call_soon(self._tick)


def test_a_server_goes_on_while_it_looks_at_a_large_batch(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    ticker = Ticker(server)
    with server.client() as client:
        send_produce(client, large_batch())
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].base_offset == 0
    assert ticker.count >= 140


def test_answers_keep_the_order_of_requests_behind_a_large_batch(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as client:
        send_produce(client, large_batch())
        client.send(ApiKey.METADATA, 12, topics=None)
        send_produce(client, large_batch(records=1))
        client.receive(ApiKey.PRODUCE, 9)
        assert client.receive(ApiKey.METADATA, 12).brokers
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].base_offset == 150_000


def test_a_large_batch_of_which_no_answer_is_wanted_is_taken(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as client:
        send_produce(client, large_batch(), acks=0)
        send_produce(client, large_batch(records=1))
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].base_offset == 150_000


def end_offset(server: Server) -> int:
    with server.client() as client:
        line = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
        answer = client.ask(ApiKey.LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": [line]}])
        return int(answer.topics[0].partitions[0].offset)


def test_all_that_a_producer_without_acks_sent_before_it_closed_is_appended(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as client:
        for _ in range(5):
            send_produce(client, large_batch(records=20_000), acks=0)
    wait_until(server, lambda: not server.runtime.connections)
    assert end_offset(server) == 100_000
    assert not server.on_loop(lambda: server.runtime._pending_requests.requests)


def test_a_client_that_resets_its_connection_amidst_a_large_batch_leaves_nothing_behind(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    with server.client() as client:
        client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        send_produce(client, large_batch())
    wait_until(server, lambda: not server.runtime.connections)
    assert not server.on_loop(lambda: server.runtime._pending_requests.requests or server.runtime._sliced._jobs)


def when_slices_wait(server: Server, act: Callable[[], object]) -> None:
    """Calls this between the first slice of a request and the next."""
    add = server.runtime._sliced.add

    def add_and_act(*arguments: Any) -> None:
        server.loop.call_soon(act)
        add(*arguments)

    server.on_loop(lambda: setattr(server.runtime._sliced, "add", add_and_act))


def test_a_produce_in_slices_is_hung_up_on_when_what_it_appended_cannot_be_synced(serve: Serve) -> None:
    server = serve(topics=(("t", 1),))
    when_slices_wait(server, server.runtime.close_unsent)
    with server.client() as client:
        send_produce(client, large_batch())
        with pytest.raises(Disconnected):
            client.receive(ApiKey.PRODUCE, 9)


@pytest.mark.parametrize(("codec", "more"), [(Codec.NONE, 0), (Codec.ZSTD, SMALL_BYTES)])
def test_records_in_slices_count_for_what_is_decompressed_of_them(serve: Serve, codec: Codec, more: int) -> None:
    server, held, batch = serve(topics=(("t", 1),)), [], large_batch(codec=codec, records=100_000)
    when_slices_wait(server, lambda: held.append(server.runtime._held_bytes))
    with server.client() as client:
        send_produce(client, batch)
        assert client.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].error_code == 0
    assert 0 <= held[0] - more - len(batch) < 1000
