"""What a client asks again and again: read once, answered in the same bytes, and never mistaken for something else."""

import time
from typing import Any

from kcoord.errors import ErrorCode
from kcoord.groups.replies import CommitReply, HeartbeatReply, PartitionError, TopicErrors
from kcoord.server.routes import Asker, route
from kcoord.wire.client import Client, build
from kcoord.wire.codec import decode_response, encode_request, request_type
from kcoord.wire.headers import RequestHeader
from tests.server.conftest import Serve
from tests.server.test_serving_groups import HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, SESSION, SYNC_GROUP, join, quick

NONE = ErrorCode.none
VERSION = 4


def heartbeat(joined: Any, correlation_id: int, **values: Any) -> bytes:
    header = RequestHeader(HEARTBEAT, VERSION, correlation_id, "c")
    known = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    return encode_request(header, build(request_type(HEARTBEAT, VERSION), {**known, **values}))


def answers(client: Client, *requests: bytes) -> list[tuple[int, ErrorCode]]:
    """The correlation ids and errors of the answers."""
    client.send_bytes(b"".join(requests))
    frames = [client.receive_frame() for _ in requests]
    decoded = [decode_response(frame, HEARTBEAT, VERSION) for frame in frames]
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
        client.ask(SYNC_GROUP, 3, group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        beat = heartbeat(joined, 1)
        assert answers(client, beat, beat) == [(1, NONE)] * 2
        other.send(
            JOIN_GROUP,
            3,
            group_id="g",
            session_timeout=SESSION,
            rebalance_timeout=SESSION,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        deadline = time.monotonic() + 60
        while (heard := answers(client, beat)[0][1]) is NONE and time.monotonic() < deadline:
            pass
        assert heard is ErrorCode.rebalance_in_progress
        again = join(client, "g", member_id=joined.member_id)
        assert answers(client, beat) == [(1, ErrorCode.illegal_generation)]
        assert answers(client, heartbeat(again, 2)) == [(2, NONE)]


def test_the_same_heartbeat_of_another_version_is_answered_in_that_version(serve: Serve) -> None:
    with quick(serve).client() as client:
        joined = join(client, "g")
        values = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
        for version in (0, 1, 0, 3, 2, 4, 3):
            assert client.ask(HEARTBEAT, version, **values).error_code is NONE


def test_the_same_reply_is_written_once_and_another_anew() -> None:
    asker, by = Asker("10.0.0.1"), route(OFFSET_COMMIT, 9)
    header = RequestHeader(OFFSET_COMMIT, 9, 1, "c")
    first, second = _kept(0), _kept(0, 1)
    for correlation_id, reply in ((1, first), (2, first), (3, second), (4, first)):
        frame = bytes(4) + correlation_id.to_bytes(4) + b"rest"
        (answer,) = asker.answer(frame, by, header, reply)
        assert decode_response(answer[4:], OFFSET_COMMIT, 9)[0] == correlation_id
        lines = decode_response(answer[4:], OFFSET_COMMIT, 9)[1].topics[0].partitions
        assert [line.partition_index for line in lines] == [line.partition_index for line in reply.topics[0].partitions]


def test_replies_to_different_apis_are_not_mixed_up() -> None:
    asker, frame = Asker("10.0.0.1"), bytes(4) + (5).to_bytes(4)
    committed, well = _kept(0), HeartbeatReply()
    for _ in range(2):
        (answer,) = asker.answer(frame, route(OFFSET_COMMIT, 9), RequestHeader(OFFSET_COMMIT, 9, 5), committed)
        assert len(decode_response(answer[4:], OFFSET_COMMIT, 9)[1].topics) == 1
        (answer,) = asker.answer(frame, route(HEARTBEAT, 4), RequestHeader(HEARTBEAT, 4, 5), well)
        assert decode_response(answer[4:], HEARTBEAT, 4)[1].error_code is NONE


def test_little_is_kept_of_a_client_whatever_it_sends() -> None:
    asker, by = Asker("10.0.0.1"), route(HEARTBEAT, 4)
    header = RequestHeader(HEARTBEAT, 4, 1)
    for size in (5000, 50, 5000):
        asker.remember(bytes(size), by, header, None)
    assert [len(kept.rest) for kept in [asker.repeated] if kept] == [50 - 8]
    large = _kept(*range(1000))
    commits = route(OFFSET_COMMIT, 9)
    for _ in range(2):
        asker.answer(bytes(8), commits, RequestHeader(OFFSET_COMMIT, 9, 0), large)
    assert sum(len(rest) for _, _, rest in asker._answers.values()) < 5000


def _kept(*partitions: int) -> CommitReply:
    lines = tuple(PartitionError(partition_index=partition) for partition in partitions)
    return CommitReply(topics=(TopicErrors(name="t", partitions=lines),))
