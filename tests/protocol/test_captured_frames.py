"""Every frame that a real client or broker sent is decoded and encoded again to the same bytes."""

from pathlib import Path

import pytest
from kio.schema.index import api_key_map, schema_name_map

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_request, decode_response, encode_request, encode_response
from kcoord.protocol.headers import RequestHeader
from tests.capture.frames import FIXTURES, CapturedFrame, read_frames

FILES = sorted(FIXTURES.glob("*.jsonl"))
FRAMES = [(path.stem, number, frame) for path in FILES for number, frame in enumerate(read_frames(path), 1)]
# Clients newer than the broker send ApiVersions in a version beyond its range, whose body no older codec reads
# (KIP-511).
KNOWN = [each for each in FRAMES if each[2].api_version in schema_name_map[api_key_map[each[2].api_key]]]
BEYOND = [each for each in FRAMES if each not in KNOWN]


def parametrized(frames: list[tuple[str, int, CapturedFrame]]) -> pytest.MarkDecorator:
    """Parametrizes a test by file and line, so that a failing frame is found quickly."""
    names = [f"{file}:{number}-{frame.api}-v{frame.api_version}-{frame.kind}" for file, number, frame in frames]
    return pytest.mark.parametrize("captured", [frame for *_, frame in frames], ids=names)


@parametrized([each for each in KNOWN if each[2].kind == "request"])
def test_a_captured_request_is_written_as_it_was_read(captured: CapturedFrame) -> None:
    header, request = decode_request(captured.frame, captured.api_key, captured.api_version)

    assert encode_request(header, request)[4:] == captured.frame


@parametrized([each for each in KNOWN if each[2].kind == "response"])
def test_a_captured_response_is_written_as_it_was_read(captured: CapturedFrame) -> None:
    correlation_id, response = decode_response(captured.frame, captured.api_key, captured.api_version)
    header = RequestHeader(api_key=captured.api_key, api_version=captured.api_version, correlation_id=correlation_id)

    assert encode_response(header, response)[4:] == captured.frame


@parametrized([each for each in BEYOND if each[2].kind == "response"])
def test_a_version_beyond_the_brokers_is_answered_in_version_0(captured: CapturedFrame) -> None:
    assert captured.api_key == ApiKey.API_VERSIONS
    _, response = decode_response(captured.frame, ApiKey.API_VERSIONS, 0)

    assert response.error_code.name == "unsupported_version"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_holds_both_sides_of_the_traffic_of_one_client(path: Path) -> None:
    frames = read_frames(path)

    assert {frame.client for frame in frames} == {path.stem}
    assert {frame.kind for frame in frames} == {"request", "response"}


def test_the_captured_frames_stay_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < 500_000
