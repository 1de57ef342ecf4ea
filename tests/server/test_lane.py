"""The lane with a real loop, real sockets and a rider that does as it is told."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import pytest
import uvloop

from kcoord.server import ring
from kcoord.server.lane import Lane, LaneTransport
from kcoord.server.ring import BUFFER_BYTES, Ring, Unsent
from tests.server.rings import needs_ring

pytestmark = needs_ring
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Rider(asyncio.Protocol):
    """Takes the lane as soon as it is read by the loop, and answers with what `answer` makes of a chunk."""

    def __init__(self, lane: Lane, riders: dict[tuple[str, int], "Rider"]) -> None:
        self.lane = lane
        self.riders = riders
        self.transport: asyncio.Transport
        self.in_lane: LaneTransport | None = None
        self.chunks: list[tuple[bytes, bool]] = []  # and whether it was in the lane then
        self.answer: Callable[[bytes], list[bytes]] = lambda chunk: [chunk.upper()]
        self.is_ready = False
        self.is_full = False
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.riders[transport.get_extra_info("peername")] = self
        asyncio.get_running_loop().call_soon(self.take_lane)  # uvloop begins to read when this is over

    def take_lane(self) -> None:
        self.is_ready = True
        self.in_lane = self.lane.take(self, self.transport)
        self.transport = self.in_lane or self.transport

    def left_lane(self, transport: asyncio.Transport) -> None:
        self.transport, self.in_lane = transport, None

    def data_received(self, chunk: bytes) -> None:
        self.chunks.append((chunk, self.in_lane is not None))
        for piece in self.answer(chunk):
            self.transport.write(piece)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def connection_lost(self, error: Exception | None) -> None:
        if self.in_lane is not None:
            self.in_lane.get_out()
        self.lost.set()

    @property
    def received(self) -> bytes:
        return b"".join(chunk for chunk, _ in self.chunks)


@dataclass
class Scene:
    lane: Lane
    port: int
    riders: dict[tuple[str, int], Rider]  # by the addresses of their clients
    rounds: list[None]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[Rider, asyncio.StreamReader, asyncio.StreamWriter]]:
        """A client of a new rider."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        ours = writer.get_extra_info("sockname")
        await until(lambda: ours in self.riders and self.riders[ours].is_ready)
        rider = self.riders[ours]
        try:
            yield rider, reader, writer
        finally:
            writer.transport.abort()
            async with asyncio.timeout(30):
                await rider.lost.wait()


def send_at_once(writer: asyncio.StreamWriter, words: bytes) -> None:
    """Past the loop."""
    os.write(writer.get_extra_info("socket").fileno(), words)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Has a script played on a loop, with a lane and a server whose connections take it."""

    async def staged(script: Callable[[Scene], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        rounds: list[None] = []

        def begin_round() -> None:
            rounds.append(None)
            loop.call_soon(lane.send)

        lane = Lane(loop, begin_round)
        riders: dict[tuple[str, int], Rider] = {}
        server = await loop.create_server(lambda: Rider(lane, riders), "127.0.0.1", 0, backlog=500)
        try:
            async with asyncio.timeout(60):
                await script(Scene(lane, server.sockets[0].getsockname()[1], riders, rounds))
        finally:
            lane.close()
            server.close()

    def play(script: Callable[[Scene], Awaitable[None]]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(staged(script))

    return play


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_what_comes_is_handed_over_and_answers_leave_together(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    send = Ring.send

    def counted(self: Ring, fds: list[int], pieces: list[bytes]) -> list[Unsent]:
        batches.append(len(pieces))
        return send(self, fds, pieces)

    monkeypatch.setattr(Ring, "send", counted)

    async def script(scene: Scene) -> None:
        async with scene.client() as (one, reads, writes), scene.client() as (other, reads_too, writes_too):
            batches.clear()
            writes.write(b"one")
            writes_too.write(b"other")
            assert await reads.readexactly(3) == b"ONE"
            assert await reads_too.readexactly(5) == b"OTHER"
            assert (one.chunks, other.chunks) == ([(b"one", True)], [(b"other", True)])
            assert sum(batches) == 2
            assert scene.rounds == [], "reading ends with sending"

    play(script)


def test_what_is_written_later_leaves_at_the_end_of_a_round(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, _):
            rider.transport.writelines([b"by ", b"the way"])
            assert len(scene.rounds) == 1
            assert await reads.readexactly(10) == b"by the way"

    play(script)


def test_several_answers_in_one_round_keep_their_order(play: Play) -> None:
    pieces = [b"first ", b"second ", b"x" * 3 * BUFFER_BYTES, b" third", b" fourth"]

    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes):
            rider.answer = lambda chunk: pieces
            for _ in range(3):
                writes.write(b"all of it")
                whole = b"".join(pieces)
                assert await reads.readexactly(len(whole)) == whole
            assert rider.in_lane is not None

    play(script)


def test_answers_to_a_client_that_does_not_read_wait_with_the_loop_and_keep_their_order(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes):
            reads._transport.pause_reading()  # type: ignore[attr-defined]
            said = b""
            while not rider.is_full:
                answer = b"%07d\n" % (len(said) // 8) * 100
                said += answer
                rider.transport.write(answer)
                await asyncio.sleep(0)
            assert rider.transport.get_write_buffer_size() > 0
            reads._transport.resume_reading()  # type: ignore[attr-defined]
            assert await reads.readexactly(len(said)) == said
            await until(lambda: not rider.is_full)
            writes.write(b"still there")
            assert await reads.readexactly(11) == b"STILL THERE"
            assert rider.chunks[-1] == (b"still there", True)

    play(script)


def test_a_large_request_is_read_by_the_loop_and_the_lane_can_be_taken_again(play: Play) -> None:
    large = b"".join(b"%07d\n" % number for number in range(200_000))

    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes):
            rider.answer = lambda chunk: []
            writes.write(b"small")
            await until(lambda: rider.received == b"small")
            writes.write(large)
            await until(lambda: len(rider.received) == 5 + len(large))
            assert rider.received == b"small" + large
            assert rider.chunks[-1][1] is False
            rider.take_lane()
            rider.answer = lambda chunk: [b"yes"]
            writes.write(b"back?")
            assert await reads.readexactly(3) == b"yes"
            assert rider.chunks[-1] == (b"back?", True)

    play(script)


def test_who_pauses_is_read_no_more_until_it_resumes(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, _, writes):
            rider.answer = lambda chunk: []
            rider.transport.pause_reading()
            await until(lambda: rider.in_lane is None)
            writes.write(b"not now")
            await asyncio.sleep(0.05)
            assert rider.chunks == []
            rider.transport.resume_reading()
            await until(lambda: rider.received == b"not now")

    play(script)


def test_who_resumes_before_it_has_left_is_read_by_the_loop(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, _, writes):
            rider.transport.pause_reading()
            rider.transport.resume_reading()
            writes.write(b"go on")
            await until(lambda: rider.received == b"go on")
            await until(lambda: rider.in_lane is None)

    play(script)


def test_a_client_that_hangs_up_is_lost_and_had_its_last_words_heard(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes):
            writes.write(b"bye")
            writes.write_eof()
            assert await reads.readexactly(3) == b"BYE"
            await rider.lost.wait()
            assert await reads.read() == b""

    play(script)


def test_a_client_that_resets_its_connection_is_lost(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, _, writes):
            plain = writes.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writes.transport.abort()
            await rider.lost.wait()

    play(script)


def test_what_was_written_before_it_is_closed_still_leaves(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, _):
            rider.transport.write(b"and that was it")
            rider.transport.close()
            assert await reads.read() == b"and that was it"
            await rider.lost.wait()

    play(script)


@pytest.mark.parametrize("way", ["close", "abort"])
def test_a_socket_that_is_closed_is_closed_for_the_client_and_its_number_is_free(play: Play, way: str) -> None:
    async def script(scene: Scene) -> None:
        for _ in range(5):
            async with scene.client() as (rider, reads, _):
                getattr(rider.transport, way)()
                assert await reads.read() == b""
                await rider.lost.wait()
        async with scene.client() as (_, reads, writes):
            writes.write(b"me")
            assert await reads.readexactly(2) == b"ME"

    play(script)


def test_a_rider_that_fails_is_hung_up_on_and_others_go_on(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    def fail(chunk: bytes) -> list[bytes]:
        raise ZeroDivisionError

    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes), scene.client() as (_, reads_too, writes_too):
            rider.answer = fail
            writes.write(b"now")
            assert await reads.read() == b""
            writes_too.write(b"me")
            assert await reads_too.readexactly(2) == b"ME"

    play(script)
    assert ": what came could not be read" in caplog.text


def test_a_lane_that_the_kernel_fails_is_given_up_and_its_clients_may_come_back(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Ring, fds: list[int], pieces: list[bytes]) -> list[Unsent]:
        raise OSError(errno.ENOMEM, "io_uring: no memory")

    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes), scene.client() as (_, reads_too, _):
            rider.answer = lambda chunk: [b"a", b"b"]
            monkeypatch.setattr(Ring, "send", fail)
            writes.write(b"now")
            assert await reads.read() == b""
            assert await reads_too.read() == b""
        async with scene.client() as (rider, reads, writes):
            assert rider.in_lane is None
            writes.write(b"me")
            assert await reads.readexactly(2) == b"ME"

    with caplog.at_level(logging.ERROR):
        play(script)
    assert "lane given up connections=2 why='[Errno 12] io_uring: no memory'" in caplog.text


def test_only_plain_sockets_suit(play: Play) -> None:
    async def script(scene: Scene) -> None:
        plain, ssl = {"socket": object()}, {"ssl_object": object()}
        assert scene.lane.suits(asyncio.Transport(plain))
        assert not scene.lane.suits(asyncio.Transport({**plain, **ssl}))
        assert not scene.lane.suits(asyncio.Transport())

    play(script)


def test_who_finds_no_room_can_take_the_lane_when_others_have_left(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "MOST_RECEIVERS", 1)

    async def script(scene: Scene) -> None:
        async with scene.client() as (first, _, _), scene.client() as (second, reads, writes):
            assert (first.in_lane is None, second.in_lane is None) == (False, True)
            writes.write(b"me")
            assert await reads.readexactly(2) == b"ME"
            first.transport.pause_reading()
            await until(lambda: first.in_lane is None)
            second.take_lane()
            assert second.in_lane is not None
            first.transport.resume_reading()

    play(script)


def test_who_has_answers_that_wait_cannot_take_the_lane(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, _):
            rider.transport.pause_reading()
            await until(lambda: rider.in_lane is None)
            reads._transport.pause_reading()  # type: ignore[attr-defined]
            while not rider.is_full:
                rider.transport.write(b"x" * 100_000)
                await asyncio.sleep(0)
            rider.take_lane()
            assert rider.in_lane is None

    play(script)


def test_what_was_gathered_leaves_before_the_loop_writes_again(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes), scene.client() as (other, _, writes_too):

            def speak_for_both(chunk: bytes) -> list[bytes]:
                rider.transport.write(b"second")
                return []

            rider.answer = lambda chunk: [b"first "]
            other.answer = speak_for_both
            send_at_once(writes, b"x")  # so that all is there when the lane reads
            with socket.fromfd(writes.get_extra_info("socket").fileno(), socket.AF_INET, socket.SOCK_STREAM) as plain:
                plain.shutdown(socket.SHUT_WR)
            send_at_once(writes_too, b"y")
            assert await reads.readexactly(12) == b"first second"

    play(script)


def test_what_comes_while_answers_are_sent_is_handed_over_though_nothing_follows(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes), scene.client() as (_, reads_too, writes_too):

            def have_the_other_ask(chunk: bytes) -> list[bytes]:
                send_at_once(writes_too, b"meanwhile")
                return [chunk]

            rider.answer = have_the_other_ask
            for _ in range(100):
                writes.write(b"now")
                assert await reads.readexactly(3) == b"now"
                assert await reads_too.readexactly(9) == b"MEANWHILE"

    play(script)


def test_a_socket_that_the_loop_closes_by_itself_is_closed(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, _):
            assert rider.in_lane is not None
            rider.in_lane._loops.abort()
            await rider.lost.wait()
            assert await reads.read() == b""

    play(script)


def test_who_is_about_to_leave_when_the_lane_is_given_up_is_hung_up_on_too(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Ring, fds: list[int], pieces: list[bytes]) -> list[Unsent]:
        raise OSError(errno.ENOMEM, "io_uring: no memory")

    async def script(scene: Scene) -> None:
        async with scene.client() as (rider, reads, writes):
            monkeypatch.setattr(Ring, "send", fail)
            send_at_once(writes, b"now")
            rider.transport.pause_reading()
            rider.transport.resume_reading()
            assert await reads.read() == b""

    play(script)


def test_many_ride_at_once(play: Play) -> None:
    async def script(scene: Scene) -> None:
        async def ask(number: int) -> None:
            async with scene.client() as (rider, reads, writes):
                for turn in range(20):
                    asked = b"%d of %d" % (turn, number)
                    writes.write(asked)
                    assert await reads.readexactly(len(asked)) == asked.upper()
                assert all(was_in_lane for _, was_in_lane in rider.chunks)

        await asyncio.gather(*(ask(number) for number in range(300)))

    play(script)
