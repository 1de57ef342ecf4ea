"""Names and ids that are too long, or not UTF-8."""

import struct

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response
from kcoord.protocol.frames import framed
from tests.support.hostile.scene import Scene, request_frame

LONGEST = 2**15 - 1
NO_UTF8 = (b"\xff", b"caf\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"a\x80b")


def metadata_of(name: bytes) -> bytes:
    """The body of Metadata version 8, whose lengths are not compact."""
    return struct.pack(">ih", 1, len(name)) + name + b"\x00\x00\x00"


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


@pytest.mark.parametrize("name", NO_UTF8)
def test_a_topic_name_that_is_no_utf8_closes_the_connection(scene: Scene, name: bytes) -> None:
    assert scene.exchange(request_frame(ApiKey.METADATA, 8, metadata_of(name))) is None
    assert scene.log_lines("InvalidUnicode")


@pytest.mark.parametrize("client_id", NO_UTF8)
def test_a_client_id_that_is_no_utf8_is_only_a_label(scene: Scene, client_id: bytes) -> None:
    frame = framed([struct.pack(">hhi", ApiKey.METADATA, 8, 3), string(client_id), metadata_of(b"here")])
    answer = scene.exchange(frame)
    assert answer is not None
    assert decode_response(answer, ApiKey.METADATA, 8)[1].topics[0].error_code is ErrorCode.none


def test_a_client_id_of_32767_bytes_is_taken(scene: Scene) -> None:
    frame = framed([struct.pack(">hhi", ApiKey.METADATA, 8, 3), string(b"x" * LONGEST), metadata_of(b"here")])
    assert scene.exchange(frame) is not None


def test_a_topic_name_of_32767_bytes_is_answered_and_not_taken(scene: Scene) -> None:
    name = "x" * LONGEST
    answer = scene.ask(ApiKey.METADATA, 12, topics=[{"name": name, "topic_id": None}], allow_auto_topic_creation=True)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, ErrorCode.invalid_topic_exception)]
    created = scene.ask(ApiKey.CREATE_TOPICS, 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}])
    assert created.topics[0].error_code is ErrorCode.invalid_topic_exception


def test_a_group_id_of_32767_bytes_has_a_coordinator(scene: Scene) -> None:
    for version in (0, 3):
        assert scene.ask(ApiKey.FIND_COORDINATOR, version, key="g" * LONGEST, key_type=0).node_id == 1
    assert (
        scene.ask(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g" * LONGEST], key_type=0).coordinators[0].node_id == 1
    )


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../../etc/passwd", "a\x00b", "a\x1b[2Jb", "ü", "a b", "x" * 250]
)
def test_a_name_that_no_topic_may_have_is_not_taken(scene: Scene, name: str) -> None:
    created = scene.ask(ApiKey.CREATE_TOPICS, 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}])
    assert created.topics[0].error_code is ErrorCode.invalid_topic_exception
    assert [topic.name for topic in scene.ask(ApiKey.METADATA, 12, topics=None).topics] == ["here"]


def test_control_characters_from_a_client_reach_the_log_escaped(scene: Scene) -> None:
    scene.exchange(
        framed([struct.pack(">hhi", ApiKey.METADATA, 8, 3), string(b"\x1b[2J\nfake line"), struct.pack(">i", 10**6)])
    )
    assert "\x1b" not in scene.cluster.log()
    assert not [line for line in scene.cluster.log().splitlines() if line.startswith("fake")]
