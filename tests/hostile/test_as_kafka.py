"""What a real broker does with the same bytes: it hangs up, or answers; kcoord does the same."""

import contextlib
import socket
import struct
from collections.abc import Callable

import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import decode_response
from kcoord.protocol.frames import framed
from kcoord.protocol.varint import uvarint
from kcoord.testing.cluster import Cluster
from tests.hostile.test_names import metadata_of, string
from tests.support.hostile.scene import PATIENCE, Scene, receive_frame, request_frame

LAST = 0x4C415354
NO_TOPICS = b"\x01\x01\x00\x00"
HEARTBEAT_REST = bytes(4) + b"\x02m\x00\x00"  # A generation, a member id, no instance id, no tags.


def start(api_key: int, version: int) -> bytes:
    return struct.pack(">hhi", api_key, version, 9)


def length(claimed: int) -> bytes:
    return struct.pack(">i", claimed)


def good(correlation_id: int = 7) -> bytes:
    return request_frame(ApiKey.METADATA, 12, NO_TOPICS, correlation_id=correlation_id)


HOSTILE: dict[str, bytes] = {
    "a negative length": length(-1),
    "an empty frame": length(0),
    "a length over the limit": length(100 * 1024 * 1024 + 1),
    "half a header": framed([start(ApiKey.METADATA, 8)[:5]]),
    "no client id": framed([start(ApiKey.METADATA, 8)]),
    "an unknown API": framed([start(999, 0), b"\xff\xff"]),
    "a negative API": framed([start(-1, 0), b"\xff\xff"]),
    "a version too new": framed([start(ApiKey.METADATA, 99), b"\xff\xff", NO_TOPICS]),
    "a version too old": framed([start(ApiKey.FETCH, 3), b"\xff\xff"]),
    "a negative version": framed([start(ApiKey.METADATA, -1), b"\xff\xff"]),
    "ApiVersions too new": framed([start(ApiKey.API_VERSIONS, 99), b"\xff\xff\x00garbage"]),
    "ApiVersions of a negative version": framed([start(ApiKey.API_VERSIONS, -1), b"\xff\xff"]),
    "a body cut off": request_frame(ApiKey.METADATA, 12, NO_TOPICS[:2]),
    "bytes behind a body": request_frame(ApiKey.METADATA, 12, NO_TOPICS + b"\xff" * 30),
    "an array that lies": request_frame(ApiKey.METADATA, 12, b"\xff\xff\xff\xff\x07\x01\x00\x00"),
    "an array of a negative length": request_frame(ApiKey.METADATA, 8, struct.pack(">i", -2) + b"\x00\x00\x00"),
    "a null string where none may be": request_frame(ApiKey.METADATA, 8, struct.pack(">ih", 1, -1) + b"\x00\x00\x00"),
    "a string that lies": request_frame(ApiKey.METADATA, 8, struct.pack(">ih", 1, 32767) + b"abc"),
    "a string of 32,768 bytes": request_frame(ApiKey.HEARTBEAT, 4, uvarint(32_769) + b"g" * 32_768 + HEARTBEAT_REST),
    "a boolean of 2": request_frame(ApiKey.METADATA, 12, b"\x01\x02\x00\x00"),
    "a topic name that is no UTF-8": request_frame(ApiKey.METADATA, 8, metadata_of(b"caf\xe9")),
    "a client id that is no UTF-8": framed([start(ApiKey.METADATA, 8), string(b"caf\xe9"), metadata_of(b"a/b")]),
    "an unknown tag in the header": framed([start(ApiKey.METADATA, 12), b"\xff\xff", b"\x01\x05\x03abc", NO_TOPICS]),
    "an unknown tag in the body": request_frame(ApiKey.METADATA, 12, b"\x01\x01\x00\x01\x63\x03abc"),
    "a tag longer than the body": request_frame(ApiKey.METADATA, 12, b"\x01\x01\x00\x01\x63\x7fabc"),
    "an invalid software name": request_frame(ApiKey.API_VERSIONS, 3, b"\x05-a-b\x02\x31\x00"),
    "a good request, then a malformed one": good() + request_frame(ApiKey.METADATA, 12, b""),
    "a good request, then a bad length": good() + length(-1),
    "a good request, then an unknown API": good() + framed([start(999, 0), b"\xff\xff"]),
}
STRICTER = ("a topic name that is no UTF-8", "an array of a negative length")
"""Bytes that Kafka accepts and on which kcoord hangs up; docs/deviations.md explains why."""


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in STRICTER])
def test_kcoord_hangs_up_and_answers_where_kafka_does(scene: Scene, kafka_cluster: Cluster, name: str) -> None:
    kafka, kcoord = _both(scene, kafka_cluster, HOSTILE[name])
    assert [_essence(answer) for answer in kcoord] == [_essence(answer) for answer in kafka]


@pytest.mark.parametrize("name", STRICTER)
def test_kcoord_hangs_up_on_some_bytes_that_kafka_reads(scene: Scene, kafka_cluster: Cluster, name: str) -> None:
    kafka, kcoord = _both(scene, kafka_cluster, HOSTILE[name])
    assert b"closed" not in kafka
    assert kcoord == [b"closed"]


def _both(scene: Scene, kafka_cluster: Cluster, content: bytes) -> tuple[list[bytes], list[bytes]]:
    host, _, port = kafka_cluster.bootstrap.partition(",")[0].rpartition(":")
    kafka = _answers(lambda: socket.create_connection((host, int(port)), timeout=PATIENCE), content)
    return kafka, _answers(scene.connect, content)


def _answers(connect: Callable[[], socket.socket], content: bytes) -> list[bytes]:
    """Returns the answers until the connection is closed, or until a valid request that is sent last is answered."""
    answers: list[bytes] = []
    with connect() as raw, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        raw.sendall(content + good(LAST))
        while (answer := receive_frame(raw)) is not None:
            if answer.startswith(length(LAST)):
                return answers
            answers.append(answer)
    return [*answers, b"closed"]


def _essence(answer: bytes) -> object:
    """Returns what two servers must agree on: the correlation id, and the errors of the few APIs that are
    tested here.
    """
    if answer == b"closed":
        return answer
    for api_key, version in (
        (ApiKey.API_VERSIONS, 3),
        (ApiKey.API_VERSIONS, 0),
        (ApiKey.METADATA, 12),
        (ApiKey.METADATA, 8),
    ):
        with contextlib.suppress(ValueError):
            number, entity = decode_response(answer, api_key, version)
            return number, getattr(entity, "error_code", None), [t.error_code for t in getattr(entity, "topics", ())]
    return answer
