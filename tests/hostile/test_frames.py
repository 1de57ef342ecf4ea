"""The length before a frame, and the header in it."""

import struct

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_response
from kcoord.protocol.frames import framed
from tests.hostile.conftest import Serve
from tests.support.hostile.scene import Scene, is_closed, receive_frame, request_frame
from tests.support.procs import MIB

GOOD = request_frame(ApiKey.METADATA, 12, b"\x01\x01\x00\x00")
DEFAULT_LIMIT = 100 * MIB


def length(claimed: int) -> bytes:
    return struct.pack(">i", claimed)


@pytest.mark.fact("A-405", "A-406")
@pytest.mark.parametrize("claimed", [-1, -(2**31), DEFAULT_LIMIT + 1, 2**31 - 1])
def test_a_length_that_no_frame_may_have_closes_the_connection_and_says_so(scene: Scene, claimed: int) -> None:
    assert scene.exchange(length(claimed) + b"abc") is None
    assert scene.log_lines(f"a frame length of {claimed}, where 0 to {DEFAULT_LIMIT} is allowed")


@pytest.mark.fact("A-407")
@pytest.mark.parametrize("size", range(8))
def test_a_frame_too_short_for_a_header_closes_the_connection(scene: Scene, size: int) -> None:
    assert scene.exchange(length(size) + bytes(size)) is None


@pytest.mark.fact("A-406")
def test_socket_request_max_bytes_sets_the_longest_frame(serve: Serve) -> None:
    scene = serve(settings={"socket.request.max.bytes": "1000"})
    body = b"\x01\x01\x00\x00"
    padding = bytes(
        1000 - (len(request_frame(ApiKey.METADATA, 12, body)) - 4)
    )  # The broker too ignores what follows a body.
    assert scene.exchange(request_frame(ApiKey.METADATA, 12, body + padding)) is not None
    assert scene.exchange(request_frame(ApiKey.METADATA, 12, body + padding + b"\x00")) is None
    assert scene.log_lines("a frame length of 1001, where 0 to 1000 is allowed")


@pytest.mark.fact("A-406")
def test_a_claimed_100_mib_take_no_memory_before_they_come(scene: Scene) -> None:
    raws = [scene.connect() for _ in range(50)]

    def claim() -> None:
        for raw in raws:
            raw.sendall(length(DEFAULT_LIMIT) + b"few bytes")
        scene.answer_time()

    growth = scene.growth_of(claim)
    for raw in raws:
        raw.close()
    assert growth < 4 * MIB, f"50 claims of 100 MiB took {growth / MIB:.1f} MiB"


def test_a_good_request_before_a_malformed_one_is_answered(scene: Scene) -> None:
    malformed = framed([struct.pack(">hhi", ApiKey.METADATA, 12, 1)])
    with scene.connect() as raw:
        raw.sendall(GOOD + malformed + GOOD)
        assert receive_frame(raw) is not None
        assert is_closed(raw)


def test_a_good_request_before_a_bad_length_is_answered(scene: Scene) -> None:
    with scene.connect() as raw:
        raw.sendall(GOOD + length(-1))
        assert receive_frame(raw) is not None
        assert is_closed(raw)


@pytest.mark.fact("A-403")
@pytest.mark.parametrize("api_key", [-1, ApiKey.LEADER_AND_ISR, ApiKey.BROKER_REGISTRATION, 93, 999, 32767, -32768])
def test_an_unknown_api_closes_the_connection(scene: Scene, api_key: int) -> None:
    assert scene.exchange(framed([struct.pack(">hhih", api_key, 0, 1, -1)])) is None
    assert scene.log_lines(f"API key {api_key} is not served")


@pytest.mark.fact("A-404")
@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 14),
        (ApiKey.FETCH, 3),
        (ApiKey.FETCH, 19),
        (ApiKey.METADATA, 14),
        (ApiKey.METADATA, -1),
        (ApiKey.CREATE_TOPICS, 1),
    ],
)
def test_an_unknown_version_closes_the_connection(scene: Scene, api_key: int, version: int) -> None:
    assert scene.exchange(framed([struct.pack(">hhih", api_key, version, 1, -1)])) is None
    assert scene.log_lines(f"version {version} is not served")


@pytest.mark.fact("A-401")
@pytest.mark.parametrize("version", [5, 99, 32767, -1])
@pytest.mark.parametrize("rest", [b"", b"\xff" * 40])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(scene: Scene, version: int, rest: bytes) -> None:
    answer = scene.exchange(framed([struct.pack(">hhi", ApiKey.API_VERSIONS, version, 77), rest]))
    assert answer is not None
    correlation_id, entity = decode_response(answer, ApiKey.API_VERSIONS, 0)
    assert (correlation_id, entity.error_code) == (77, 35)
    assert [(line.api_key, line.min_version, line.max_version) for line in entity.api_keys] == [
        (ApiKey.API_VERSIONS, 0, 4)
    ]


@pytest.mark.parametrize(
    "client_id",
    [struct.pack(">h", 2**15 - 1) + b"x", struct.pack(">h", -2), struct.pack(">h", 100) + b"short"],
    ids=["longer than its frame", "negative", "longer than what is left"],
)
def test_a_client_id_of_a_wrong_length_is_no_harm(scene: Scene, client_id: bytes) -> None:
    scene.exchange(framed([struct.pack(">hhi", ApiKey.METADATA, 8, 1), client_id, b"\x00\x00\x00\x00\x00\x00\x00"]))


def test_header_tags_that_lie_close_the_connection(scene: Scene) -> None:
    start = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1)
    for tags in (b"\xff\xff\xff\xff\x0f", b"\x01\x05\xff\xff\xff\xff\x0f", b"\x02\x01\x01", b"\xff" * 6):
        assert scene.exchange(framed([start, tags, b"\x01\x01\x00\x00"])) is None


def test_a_header_with_four_billion_empty_tags_takes_no_time(scene: Scene) -> None:
    start = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1)
    assert scene.exchange(framed([start, b"\xff\xff\xff\xff\x0f", bytes(1_000_000)])) is None
    assert scene.answer_time() < 30
