"""Requests that are well-formed and ask for far too much of everything."""

import struct
import time
from datetime import timedelta

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.protocol.codec import MAX_REQUEST_ELEMENTS, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.protocol.varint import uvarint
from tests.hostile.conftest import Serve
from tests.support.hostile.scene import PATIENCE, Scene, request_frame
from tests.support.procs import MIB


def test_more_elements_than_a_body_may_hold_close_the_connection(scene: Scene) -> None:
    count = MAX_REQUEST_ELEMENTS + 1
    body = struct.pack(">i", count) + struct.pack(">h", 0) * count + b"\x00\x00\x00"
    assert scene.exchange(request_frame(ApiKey.METADATA, 8, body)) is None
    assert scene.log_lines("too many array elements")


def test_as_many_elements_as_a_body_may_hold_are_a_bearable_meal(serve: Serve) -> None:
    scene = serve()
    body = b"\x00" + uvarint(MAX_REQUEST_ELEMENTS + 1) + b"\x02g" * MAX_REQUEST_ELEMENTS + b"\x00"
    started = time.perf_counter()
    growth = scene.growth_of(lambda: scene.exchange(request_frame(ApiKey.FIND_COORDINATOR, 4, body)))
    assert growth < 256 * MIB, f"{growth / MIB:.0f} MiB for a frame of {len(body) / MIB:.1f} MiB"
    assert time.perf_counter() - started < 30


def test_fetch_sessions_full_of_partitions_that_are_not_there_take_bounded_memory(serve: Serve) -> None:
    scene = serve(topics={"here": 1})
    frame = _session_of(50_000)

    def open_sessions() -> None:
        for _ in range(6):
            assert scene.exchange(frame)

    scene.exchange(frame)
    before = scene.resident_bytes
    open_sessions()
    deadline = time.monotonic() + PATIENCE  # Free memory is returned once the server is idle.
    while (growth := scene.resident_bytes - before) >= 16 * MIB:
        assert time.monotonic() < deadline, f"{growth / MIB:.0f} MiB are kept for 6 sessions"
        time.sleep(0.1)


def _session_of(count: int) -> bytes:
    line = {"fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1}
    lines = [{"partition": number, **line} for number in range(count)]
    values = {
        "max_wait": timedelta(0),
        "max_bytes": 1,
        "session_epoch": 0,
        "topics": [{"topic": "not-here", "partitions": lines}],
    }
    header = RequestHeader(api_key=ApiKey.FETCH, api_version=12, correlation_id=1, client_id="hostile")
    return encode_request(header, build_entity(request_type(ApiKey.FETCH, 12), values))


def test_a_topic_of_two_billion_partitions_is_refused_at_once(scene: Scene) -> None:
    started = time.perf_counter()
    wanted = [{"name": "wide", "num_partitions": 2**31 - 1, "replication_factor": 1}]
    growth = scene.growth_of(lambda: scene.ask(ApiKey.CREATE_TOPICS, 7, topics=wanted))
    assert growth < 4 * MIB
    assert scene.ask(ApiKey.CREATE_TOPICS, 7, topics=wanted).topics[0].error_code
    assert time.perf_counter() - started < 30
