"""Repeated requests: decoded once, answered with the same bytes, and never mistaken for another request."""

import time
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kcoord.api.caller import Caller
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.groups.replies import CommitReply, HeartbeatReply, PartitionError, TopicErrors
from kcoord.groups.requests import Commit
from kcoord.protocol.codec import decode_response, encode_request, request_type
from kcoord.protocol.headers import RequestHeader
from kcoord.server.dispatch.routes import route_for
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.server.fast_path.request_template import START, RequestTemplate
from tests.server.conftest import Serve
from tests.server.groups.test_serving_groups import (
    SESSION,
    join,
    quick,
)

NONE = ErrorCode.none
VERSION = 4

Shape = list[tuple[str, list[int]]]  # topics and partitions of a commit


def heartbeat(joined: Any, correlation_id: int, **values: Any) -> bytes:
    header = RequestHeader(ApiKey.HEARTBEAT, VERSION, correlation_id, "c")
    known = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    return encode_request(header, build_entity(request_type(ApiKey.HEARTBEAT, VERSION), {**known, **values}))


def answers(client: Client, *requests: bytes) -> list[tuple[int, ErrorCode]]:
    """Sends the requests and returns the correlation ids and errors of the answers."""
    client.send_bytes(b"".join(requests))
    frames = [client.receive_frame() for _ in requests]
    decoded = [decode_response(frame, ApiKey.HEARTBEAT, VERSION) for frame in frames]
    return [(correlation_id, entity.error_code) for correlation_id, entity in decoded]


def test_each_heartbeat_is_answered_under_its_own_correlation_id(serve: Serve) -> None:
    with quick(serve).client() as client:
        joined = join(client, "g")
        ids = [7, 7, -1, 2**31 - 1, 0]
        sent = [heartbeat(joined, correlation_id) for correlation_id in ids]
        assert answers(client, *sent) == [(correlation_id, NONE) for correlation_id in ids]


def test_another_heartbeat_on_the_same_connection_is_another(serve: Serve) -> None:
    with quick(serve).client() as client:
        joined = join(client, "g")
        good = heartbeat(joined, 1)
        old = heartbeat(joined, 2, generation_id=joined.generation_id - 1)
        unknown = heartbeat(joined, 3, member_id="nobody")
        assert answers(client, good, good, old, old, unknown, good) == [
            (1, NONE),
            (1, NONE),
            (2, ErrorCode.illegal_generation),
            (2, ErrorCode.illegal_generation),
            (3, ErrorCode.unknown_member_id),
            (1, NONE),
        ]


def test_a_member_that_repeats_its_heartbeat_hears_of_a_rebalance_and_of_its_end(serve: Serve) -> None:
    server = quick(serve)
    with server.client() as client, server.client() as other:
        joined = join(client, "g")
        client.ask(ApiKey.SYNC_GROUP, 3, group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        beat = heartbeat(joined, 1)
        assert answers(client, beat, beat) == [(1, NONE)] * 2
        other.send(
            ApiKey.JOIN_GROUP,
            3,
            group_id="g",
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        deadline = time.monotonic() + 60
        while (error := answers(client, beat)[0][1]) is NONE and time.monotonic() < deadline:
            pass
        assert error is ErrorCode.rebalance_in_progress
        again = join(client, "g", member_id=joined.member_id)
        assert answers(client, beat) == [(1, ErrorCode.illegal_generation)]
        assert answers(client, heartbeat(again, 2)) == [(2, NONE)]


def test_the_same_heartbeat_of_another_version_is_answered_in_that_version(serve: Serve) -> None:
    with quick(serve).client() as client:
        joined = join(client, "g")
        values = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
        for version in (0, 1, 0, 3, 2, 4, 3):
            assert client.ask(ApiKey.HEARTBEAT, version, **values).error_code is NONE


def test_the_same_reply_is_written_once_and_another_anew() -> None:
    client_session, by = ClientSession("10.0.0.1"), route_for(ApiKey.OFFSET_COMMIT, 9)
    first, second = _commit_reply(0), _commit_reply(0, 1)
    for correlation_id, reply in ((1, first), (2, first), (3, second), (4, first)):
        frame = bytes(4) + correlation_id.to_bytes(4) + b"rest"
        (answer,) = client_session.encode_response(frame, by, reply)
        assert decode_response(answer[4:], ApiKey.OFFSET_COMMIT, 9)[0] == correlation_id
        lines = decode_response(answer[4:], ApiKey.OFFSET_COMMIT, 9)[1].topics[0].partitions
        assert [line.partition_index for line in lines] == [line.partition_index for line in reply.topics[0].partitions]


def a_commit(version: int, correlation_id: int, shape: Shape, offsets: Iterator[int]) -> bytes:
    """Returns a commit as a frame without its length prefix."""
    named = {"topic_id": UUID(int=7)} if version >= 10 else {}
    topics = [
        {
            **(named or {"name": name}),
            "partitions": [_line(version, partition, next(offsets)) for partition in partitions],
        }
        for name, partitions in shape
    ]
    values = {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "m", "topics": topics}
    entity = build_entity(request_type(ApiKey.OFFSET_COMMIT, version), values)
    return encode_request(RequestHeader(ApiKey.OFFSET_COMMIT, version, correlation_id, "c"), entity)[4:]


def _line(version: int, partition: int, offset: int) -> dict[str, Any]:
    epoch = {"committed_leader_epoch": partition % 3} if version >= 6 else {}
    return {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", **epoch}


shapes = st.lists(st.tuples(st.sampled_from(["t", "another"]), st.lists(st.integers(0, 200), max_size=5)), max_size=3)


@given(st.sampled_from(range(2, 11)), shapes, shapes, st.randoms(use_true_random=False))
def test_a_commit_that_is_known_asks_what_it_would_ask_if_it_were_read(
    version: int, shape: Shape, other: Shape, random: Random
) -> None:
    by = route_for(ApiKey.OFFSET_COMMIT, version)

    def frame(shape: Shape) -> bytes:
        offsets = iter([random.randint(-(2**63), 2**63 - 1) for _, partitions in shape for _ in partitions])
        return a_commit(version, random.randint(0, 2**31 - 1), shape, offsets)

    def read(frame: bytes) -> Commit:
        request = by.to_request(by.read(frame)[1], Caller("c", "h"))
        assert isinstance(request, Commit)
        return request

    first, again, different = frame(shape), frame(shape), frame(other)
    known = RequestTemplate(first, by, read(first))
    assert known.parse(again) == read(again)
    assert (known.parse(different) is not None) == (read(different).topics == read(first).topics)


def test_a_commit_in_which_anything_else_differs_is_not_known() -> None:
    by = route_for(ApiKey.OFFSET_COMMIT, 9)
    first = a_commit(9, 1, [("t", [1, 2])], iter([10, 20]))
    known = RequestTemplate(first, by, by.to_request(by.read(first)[1], Caller("c", "h")))
    free = {*range(4, 8), *(position + byte for position, _ in by.variable_fields(first) for byte in range(8))}
    for position in range(START.stop, len(first)):
        changed = bytearray(first)
        changed[position] ^= 0x01
        assert (known.parse(bytes(changed)) is not None) == (position in free)
    assert known.parse(first + b"\0") is None
    assert known.parse(first[:-1]) is None


def test_a_client_that_asks_something_new_each_time_is_remembered_now_and_then_only() -> None:
    client_session, by = ClientSession("10.0.0.1"), route_for(ApiKey.OFFSET_COMMIT, 9)
    seen = set()
    for partition in range(100):
        client_session.add_template(a_commit(9, 1, [("t", [partition])], iter([1])), by, partition)
        seen.add(client_session.templates[by_version(9)].request)
    assert len(seen) <= 26


def by_version(version: int) -> bytes:
    return ApiKey.OFFSET_COMMIT.to_bytes(2) + version.to_bytes(2)


def test_a_member_that_commits_again_and_again_is_kept_to_its_word(serve: Serve) -> None:
    with serve(topics=(("t", 3), ("another", 2))).client() as client:
        for round_ in range(20):
            shape: Shape = [("t", [0, 2]), ("another", [1])] if round_ % 7 else [("t", [1])]
            frame = a_commit(9, round_, shape, iter([round_, round_ + 1, round_ + 2]))
            alone = frame.replace(b"\x00\x00\x00\x03\x02m", b"\xff\xff\xff\xff\x01", 1)
            client.send_bytes(len(alone).to_bytes(4) + alone)
            correlation_id, response = decode_response(client.receive_frame(), ApiKey.OFFSET_COMMIT, 9)
            assert correlation_id == round_
            assert [[line.error_code for line in topic.partitions] for topic in response.topics] == [
                [NONE] * len(partitions) for _, partitions in shape
            ]
        fetched = client.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", topics=None, require_stable=False)
        offsets = {
            (topic.name, line.partition_index): line.committed_offset
            for topic in fetched.topics
            for line in topic.partitions
        }
        assert offsets == {("t", 0): 19, ("t", 2): 20, ("another", 1): 21, ("t", 1): 14}


def test_replies_to_different_apis_are_not_mixed_up() -> None:
    client_session, frame = ClientSession("10.0.0.1"), bytes(4) + (5).to_bytes(4)
    committed, well = _commit_reply(0), HeartbeatReply()
    for _ in range(2):
        (answer,) = client_session.encode_response(frame, route_for(ApiKey.OFFSET_COMMIT, 9), committed)
        assert len(decode_response(answer[4:], ApiKey.OFFSET_COMMIT, 9)[1].topics) == 1
        (answer,) = client_session.encode_response(frame, route_for(ApiKey.HEARTBEAT, 4), well)
        assert decode_response(answer[4:], ApiKey.HEARTBEAT, 4)[1].error_code is NONE


def test_little_is_kept_of_a_client_whatever_it_sends() -> None:
    client_session, by = ClientSession("10.0.0.1"), route_for(ApiKey.HEARTBEAT, 4)
    for size in (50, *[5000] * 20):
        client_session.add_template(bytes(size), by, f"{size} bytes")
    (template,) = client_session.templates.values()
    assert template.parse(bytes(50)) == "50 bytes"
    large = _commit_reply(*range(1000))
    commits = route_for(ApiKey.OFFSET_COMMIT, 9)
    for _ in range(2):
        client_session.encode_response(bytes(8), commits, large)
    assert sum(len(rest) for _, _, rest in client_session._encoded_responses.values()) < 5000


def _commit_reply(*partitions: int) -> CommitReply:
    lines = tuple(PartitionError(partition_index=partition) for partition in partitions)
    return CommitReply(topics=(TopicErrors(name="t", partitions=lines),))
