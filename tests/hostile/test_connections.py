"""Many connections, idle ones, slow ones, ones that are closed: the others are served as before."""

import resource
import select
import struct
import time
from contextlib import ExitStack

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_response
from tests.hostile.conftest import Serve
from tests.support.hostile.batches import fetch_frame, good_batch, produce
from tests.support.hostile.scene import (
    Scene,
    is_closed,
    receive_frame,
    request_frame,
    wait_until,
)
from tests.support.procs import MIB

MANY = 10_000
HELLO = request_frame(ApiKey.API_VERSIONS, 0, b"")


def metadata_frame(correlation_id: int) -> bytes:
    return request_frame(ApiKey.METADATA, 12, b"\x01\x01\x00\x00", correlation_id=correlation_id)


def test_ten_thousand_connections_are_served_at_once(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    count = _allowed_connections()
    scene = serve()
    scene.answer_time()
    before = scene.resident_bytes
    with ExitStack() as open_connections:
        for _ in range(count):
            raw = open_connections.enter_context(scene.connect())
            raw.sendall(HELLO)
            assert receive_frame(raw) is not None
        assert scene.connections >= count
        each = (scene.resident_bytes - before) / count
        waited = sorted(scene.answer_time() for _ in range(20))[10]
    summary = (
        f"{count} of {MANY} connections (a process may have {resource.getrlimit(resource.RLIMIT_NOFILE)[1]} files)"
    )
    with capsys.disabled():
        print(f"\n{summary}: {each / 1024:.1f} KiB each, the next one waits {1000 * waited:.1f} ms")
    assert each < 16 * 1024, f"{summary}: {each / 1024:.1f} KiB each"
    assert waited < 1, f"{summary}: the next one waits {waited:.3f} s"
    wait_until(lambda: scene.connections == 0, what=f"{summary} are gone")


def _allowed_connections() -> int:
    """Returns as many as the test wants, or as the hard limit of files allows, here and in the server."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return min(MANY, most - 500)


def test_max_connections_closes_those_beyond(serve: Serve) -> None:
    scene = serve(settings={"max.connections": "3"})
    with ExitStack() as stack:
        accepted = [stack.enter_context(scene.connect()) for _ in range(3)]
        for raw in accepted:
            raw.sendall(HELLO)
            assert receive_frame(raw)
        with scene.connect() as raw:
            assert is_closed(raw)
        assert scene.log_lines("max.connections=3 are open")
        accepted[0].sendall(HELLO)
        assert receive_frame(accepted[0])
    wait_until(lambda: scene.exchange(HELLO) is not None, what="there is room again")


def test_max_connections_per_ip_closes_those_beyond(serve: Serve) -> None:
    scene = serve(settings={"max.connections.per.ip": "2"})
    with ExitStack() as stack:
        for _ in range(2):
            raw = stack.enter_context(scene.connect())
            raw.sendall(HELLO)
            assert receive_frame(raw)
        with scene.connect() as raw:
            assert is_closed(raw)
        assert len(scene.log_lines("max.connections.per.ip=2 are open from there")) == 1
    wait_until(lambda: scene.exchange(HELLO) is not None, what="there is room again")


def test_half_a_frame_and_then_silence_is_closed_after_connections_max_idle_ms(serve: Serve) -> None:
    scene = serve(settings={"connections.max.idle.ms": "2000"})
    with scene.connect() as silent, scene.connect() as busy:
        silent.sendall(metadata_frame(1)[:11])

        def has_hung_up() -> bool:
            busy.sendall(metadata_frame(2))
            assert receive_frame(busy)
            return bool(select.select([silent], [], [], 0.1)[0])

        started = time.monotonic()
        wait_until(has_hung_up, what="the silent one is closed")
        assert time.monotonic() - started > 1.5
        assert is_closed(silent)
        busy.sendall(metadata_frame(3))
        assert receive_frame(busy)
    assert len(scene.log_lines("idle for more than connections.max.idle.ms=2000")) == 1


def test_a_parked_fetch_is_not_idle(serve: Serve) -> None:
    scene = serve(topics={"here": 1}, settings={"connections.max.idle.ms": "1000"})
    with scene.connect() as raw:
        raw.sendall(fetch_frame(max_wait=2.5))
        assert receive_frame(raw)


def test_queued_max_request_bytes_closes_the_greediest(serve: Serve) -> None:
    scene = serve(settings={"queued.max.request.bytes": str(8 * MIB)})
    claim = struct.pack(">i", 50 * MIB)
    with scene.connect() as modest, scene.connect() as greedy:
        modest.sendall(claim + bytes(1 * MIB))
        growth = scene.growth_of(lambda: _send_until_closed(greedy, claim + bytes(20 * MIB)))
        assert is_closed(greedy)
        assert growth < 40 * MIB, f"{growth / MIB:.1f} MiB for 8 that may be held"
        wait_until(lambda: bool(scene.log_lines("queued.max.request.bytes")), what="a line of the log")
        modest.sendall(bytes(49 * MIB // 16))  # It may continue.
        scene.answer_time()
    assert len(scene.log_lines(f"queued.max.request.bytes={8 * MIB} are held")) == 1


def _send_until_closed(raw: object, content: bytes) -> None:
    try:
        raw.sendall(content)  # type: ignore[attr-defined]
    except (BrokenPipeError, ConnectionResetError):
        return


def test_a_client_that_sends_byte_by_byte_is_answered(scene: Scene) -> None:
    with scene.connect() as raw:
        for byte in metadata_frame(5) + metadata_frame(6):
            raw.sendall(bytes([byte]))
            time.sleep(0.001)
        for correlation_id in (5, 6):
            answer = receive_frame(raw)
            assert answer
            assert decode_response(answer, ApiKey.METADATA, 12)[0] == correlation_id


def test_pipelined_requests_are_answered_in_order(scene: Scene) -> None:
    count = 2_000
    with scene.connect() as raw:
        raw.sendall(b"".join(metadata_frame(number) for number in range(count)))
        answers = [receive_frame(raw) for _ in range(count)]
    assert [struct.unpack_from(">i", answer or b"????")[0] for answer in answers] == list(range(count))


def test_a_parked_fetch_holds_back_only_its_own_connection(scene: Scene) -> None:
    end = produce(scene, good_batch()).base_offset + 1
    with scene.connect() as parked:
        parked.sendall(fetch_frame(offset=end, max_wait=20, correlation_id=1) + metadata_frame(2))
        scene.answer_time()
        produce(scene, good_batch())
        first, second = receive_frame(parked), receive_frame(parked)
        assert first
        assert second
    number, answer = decode_response(first, ApiKey.FETCH, 12)
    assert (number, decode_response(second, ApiKey.METADATA, 12)[0]) == (1, 2)
    assert len(answer.responses[0].partitions[0].records) == len(good_batch())


def test_clients_that_hang_up_while_their_fetch_is_parked_leave_nothing_behind(scene: Scene) -> None:
    end = produce(scene, good_batch()).base_offset + 1
    for _ in range(5):
        parked = [scene.connect() for _ in range(200)]
        for raw in parked:
            raw.sendall(fetch_frame(offset=end, max_wait=600))
        scene.answer_time()  # Later requests are answered later: by now the fetches are parked.
        for raw in parked:
            raw.close()
        produce(scene, good_batch())
        end += 1
    wait_until(lambda: scene.connections == 0, what="the connections are gone")
