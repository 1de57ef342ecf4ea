"""One client's requests and answers between two fake links: what is forwarded, what waits, and in which order."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response, encode_response, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import PASS, Answer, Decision, Handle, Request
from kcoord.proxy.forwarding.routes import Routes
from kcoord.proxy.rewriting.api_versions import NEWEST
from kcoord.proxy.rewriting.endpoints import Endpoint
from tests.proxy.answers import frame_of, here, moved, random_answer
from tests.proxy.forwarding_scene import Link, RecordingInterceptor, Scene, answer, heartbeat, produce, request

REFUSED = [b"refused"]


def metadata_answer(correlation_id: int, *, version: int = 12) -> tuple[bytes, Any]:
    from kio.index import load_response_schema

    brokers = [{"node_id": 1, "host": "kafka-1", "port": 9092}, {"node_id": 2, "host": "kafka-2", "port": 9092}]
    entity = build_entity(
        load_response_schema(ApiKey.METADATA, version), {"brokers": brokers, "cluster_id": "c", "topics": ()}
    )
    return encode_response(RequestHeader(ApiKey.METADATA, version, correlation_id), entity), entity


def cut(stream: bytes, positions: list[int]) -> list[bytes]:
    at = sorted({min(position, len(stream)) for position in positions})
    return [stream[start:end] for start, end in zip([0, *at], [*at, len(stream)], strict=True) if start < end]


# Forwarding


def test_a_request_and_its_answer_pass_as_they_are() -> None:
    scene = Scene()
    scene.ask(heartbeat(1))
    assert scene.broker_link.written == heartbeat(1)
    scene.answer(answer(1))
    assert scene.client_link.written == answer(1)
    assert not scene.client.pending


def test_requests_that_come_together_leave_together() -> None:
    scene = Scene()
    scene.ask(heartbeat(1) + heartbeat(2) + heartbeat(3))
    scene.ask(heartbeat(4) + heartbeat(5))
    assert scene.broker_link.writes[1:] == [heartbeat(4) + heartbeat(5)]
    scene.answer(answer(1) + answer(2) + answer(3))
    assert scene.client_link.writes == [answer(1) + answer(2) + answer(3)]


def test_a_long_request_is_not_waited_for() -> None:
    scene = Scene()
    long = produce(1, acks=-1, size=100_000)
    scene.ask(long[:5000], long[5000:60_000])
    assert scene.broker_link.written == long[:60_000]


def test_a_long_answer_is_not_waited_for() -> None:
    scene = Scene()
    scene.ask(request(ApiKey.FETCH, 12, 1))
    long = answer(1, bytes(100_000))
    scene.answer(long[:6], long[6:70_000])
    assert scene.client_link.written == long[:70_000]


@settings(max_examples=60, deadline=None)
@given(seeds=st.lists(st.integers(0, 5), max_size=8), data=st.data())
def test_however_the_stream_is_cut_the_same_comes_out(seeds: list[int], data: st.DataObject) -> None:
    """The stream has all kinds of requests: forwarded, Produce with acks=0, seen whole, and answered here."""
    refused = RecordingInterceptor(lambda request: Answer(REFUSED), interests=[ApiKey.OFFSET_COMMIT])
    watching = RecordingInterceptor(observed=[ApiKey.HEARTBEAT])
    scene = Scene(refused, watching)
    asked, passed, replies, sent = b"", b"", b"", b""
    for number, seed in enumerate(seeds):
        match seed:
            case 0 | 1:
                frame, reply = heartbeat(number), answer(number)
            case 2:
                frame, reply = produce(number, acks=0, size=300), b""
            case 3:
                frame, reply = produce(number, acks=1, version=7, size=300), answer(number, bytes(500))
            case 4:
                frame, reply = request(ApiKey.FETCH, 12, number), answer(number, bytes(2000))
            case _:
                asked += request(ApiKey.OFFSET_COMMIT, 9, number, group_id="g", topics=())
                sent += REFUSED[0]
                continue
        asked, passed, replies, sent = asked + frame, passed + frame, replies + reply, sent + reply
    positions = st.lists(st.integers(0, 4000), max_size=12)

    scene.ask(*cut(asked, data.draw(positions)))
    if replies:
        scene.answer(*cut(replies, data.draw(positions)))

    assert scene.broker_link.written == passed
    assert scene.client_link.written == sent
    assert not scene.client.pending
    assert len(watching.answered) == seeds.count(0) + seeds.count(1)


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_a_produce_without_acks_is_not_awaited_wherever_it_is_cut(version: int) -> None:
    frame = produce(1, acks=0, version=version)
    for at in range(1, len(frame)):
        scene = Scene()
        scene.ask(frame[:at], frame[at:] + heartbeat(2))
        assert scene.broker_link.written == frame + heartbeat(2)
        scene.answer(answer(2))
        assert scene.client_link.written == answer(2)


# Addresses.


@pytest.mark.parametrize("positions", [[], [3], [7, 8, 9], [20, 40]])
def test_addresses_are_rewritten_and_told_before_the_answer_is_sent(positions: list[int]) -> None:
    scene = Scene()
    scene.ask(request(ApiKey.METADATA, 12, 5, topics=None) + heartbeat(6))
    metadata, entity = metadata_answer(5)
    scene.answer(*cut(metadata + answer(6), positions))

    sent = scene.client_link.written
    length = int.from_bytes(sent[:4])
    assert decode_response(sent[4 : 4 + length], ApiKey.METADATA, 12) == (5, moved(entity))
    assert sent[4 + length :] == answer(6)
    assert scene.seen == [({1: Endpoint("kafka-1", 9092), 2: Endpoint("kafka-2", 9092)}, True)]


def test_the_end_of_a_fetch_answer_is_rewritten_though_its_beginning_has_left() -> None:
    import random
    from dataclasses import replace

    scene = Scene()
    scene.ask(request(ApiKey.FETCH, 17, 77) + heartbeat(8))
    entity = next(
        each for seed in range(100) if (each := random_answer(ApiKey.FETCH, 17, random.Random(seed))).node_endpoints
    )
    # So many that the answer is longer than one that is buffered.
    brokers = tuple(replace(entity.node_endpoints[0], node_id=7, host="k" * 100) for _ in range(1000))
    entity = replace(entity, node_endpoints=brokers)
    frame = frame_of(ApiKey.FETCH, 17, entity)
    framed = len(frame).to_bytes(4) + frame

    scene.answer(framed[:100])
    assert scene.client_link.written == framed[:100]
    scene.answer(framed[100:-3], framed[-3:] + answer(8))

    sent = scene.client_link.written
    assert len(sent) == len(framed + answer(8))
    assert decode_response(sent[4 : len(framed)], ApiKey.FETCH, 17) == (77, moved(entity))
    assert sent[len(framed) :] == answer(8)
    assert {node_id for named, _ in scene.seen for node_id in named} == {7}


def test_versions_are_cut_to_what_can_be_passed_on() -> None:
    from kio.index import load_response_schema

    scene = Scene()
    scene.ask(request(ApiKey.API_VERSIONS, 3, 1, client_software_name="x", client_software_version="1"))
    values = {"api_keys": [{"api_key": ApiKey.FETCH, "min_version": 4, "max_version": 99}]}
    scene.answer(
        encode_response(
            RequestHeader(ApiKey.API_VERSIONS, 3, 1), build_entity(load_response_schema(ApiKey.API_VERSIONS, 3), values)
        )
    )
    _, sent = decode_response(scene.client_link.written[4:], ApiKey.API_VERSIONS, 3)
    assert [(each.api_key, each.max_version) for each in sent.api_keys] == [
        (ApiKey.FETCH, known_versions(ApiKey.FETCH)[-1])
    ]


def test_a_client_that_speaks_a_newer_apiversions_is_told_so_without_the_broker() -> None:
    scene = Scene()
    newer = bytearray(request(ApiKey.API_VERSIONS, NEWEST, 9, client_software_name="x", client_software_version="1"))
    newer[6:8] = (NEWEST + 1).to_bytes(2)
    scene.ask(bytes(newer))
    _, sent = decode_response(scene.client_link.written[4:], ApiKey.API_VERSIONS, 0)
    assert sent.error_code is ErrorCode.unsupported_version
    assert not scene.connects


# Interceptors.


def test_an_answer_of_ours_waits_for_those_of_the_broker_before_it() -> None:
    scene = Scene(RecordingInterceptor(lambda request: Answer(REFUSED), interests=[ApiKey.OFFSET_COMMIT]))
    scene.ask(heartbeat(1) + request(ApiKey.OFFSET_COMMIT, 9, 2, group_id="g", topics=()) + heartbeat(3))
    assert scene.broker_link.written == heartbeat(1) + heartbeat(3)
    assert not scene.client_link.written
    scene.answer(answer(1))
    assert scene.client_link.written == answer(1) + REFUSED[0]
    scene.answer(answer(3))
    assert scene.client_link.written == answer(1) + REFUSED[0] + answer(3)


def test_the_first_that_does_not_let_it_pass_decides() -> None:
    first = RecordingInterceptor(interests=[ApiKey.HEARTBEAT])
    second = RecordingInterceptor(lambda request: Answer(REFUSED), interests=[ApiKey.HEARTBEAT])
    third = RecordingInterceptor(interests=[ApiKey.HEARTBEAT])
    scene = Scene(first, second, third)
    scene.ask(heartbeat(1))
    assert scene.client_link.written == REFUSED[0]
    assert [len(each.asked) for each in (first, second, third)] == [1, 1, 0]
    assert scene.client.client_id == "me"


def test_what_is_taken_begins_when_all_before_it_is_answered_and_nothing_overtakes_it() -> None:
    begun: list[int] = []

    def take(request: Request) -> Decision:
        return Handle(lambda: begun.append(request.correlation_id))

    scene = Scene(RecordingInterceptor(take, interests=[ApiKey.OFFSET_COMMIT]))
    commits = [request(ApiKey.OFFSET_COMMIT, 9, number, group_id="g", topics=()) for number in (2, 4)]
    scene.ask(heartbeat(1) + commits[0] + heartbeat(3) + commits[1])
    assert not begun
    assert scene.reading() == (False, True)
    scene.answer(answer(1))
    assert begun == [2]
    assert scene.broker_link.written == heartbeat(1)

    scene.client.answer([b"two"])
    assert scene.broker_link.written == heartbeat(1) + heartbeat(3)
    assert begun == [2]
    scene.answer(answer(3))
    assert begun == [2, 4]
    scene.client.answer([b"four"])
    assert scene.client_link.written == answer(1) + b"two" + answer(3) + b"four"
    assert scene.reading() == (True, True)


def test_what_is_taken_may_be_answered_at_once_however_much_of_it_there_is() -> None:
    scene = Scene(
        RecordingInterceptor(
            lambda request: Handle(lambda: scene.client.answer([b"."])), interests=[ApiKey.OFFSET_COMMIT]
        )
    )
    commits = b"".join(request(ApiKey.OFFSET_COMMIT, 9, number, group_id="g", topics=()) for number in range(5000))
    scene.ask(commits)
    assert scene.client_link.written == b"." * 5000
    assert scene.reading() == (True, True)


def test_an_answer_to_a_client_that_has_gone_is_dropped() -> None:
    scene = Scene(RecordingInterceptor(lambda request: Handle(lambda: None), interests=[ApiKey.HEARTBEAT]))
    scene.ask(heartbeat(1))
    scene.client.connection_lost(None)
    scene.client.answer([b"late"])
    assert not scene.client_link.written
    assert scene.is_gone


def taking(begun: list[int]) -> RecordingInterceptor:
    return RecordingInterceptor(
        lambda request: Handle(lambda: begun.append(request.correlation_id)), interests=[ApiKey.OFFSET_COMMIT]
    )


def commit(correlation_id: int) -> bytes:
    return request(ApiKey.OFFSET_COMMIT, 9, correlation_id, group_id="g", topics=())


def test_what_a_client_sent_behind_a_request_that_was_taken_is_decided_though_it_has_gone() -> None:
    begun: list[int] = []
    scene = Scene(taking(begun))
    scene.ask(heartbeat(1) + commit(2) + commit(3) + produce(4, acks=0) + commit(5))
    scene.client.connection_lost(None)
    scene.answer(answer(1))
    scene.client.answer([b"two"])
    assert begun == [2, 3]
    scene.client.answer([b"three"])
    assert begun == [2, 3, 5]
    assert scene.broker_link.written == heartbeat(1) + produce(4, acks=0)
    assert not scene.is_gone
    scene.client.answer([b"five"])
    assert (scene.is_gone, scene.broker_link.is_closed, scene.held_bytes) == (True, True, 0)
    assert not scene.client_link.writes


def test_a_client_that_sends_no_more_has_the_answers_to_what_was_taken_and_is_closed_then() -> None:
    scene = Scene(taking([]))
    scene.ask(commit(1) + commit(2) + b"\0\0")
    assert scene.client.eof_received()
    scene.client.answer([b"one"])
    assert not scene.client_link.is_closed
    scene.client.answer([b"two"])
    assert (scene.client_link.written, scene.client_link.is_closed) == (b"onetwo", True)
    assert not scene.client_link.is_reading_now, "the end is not to be heard again"


def test_a_client_that_has_gone_goes_with_its_broker() -> None:
    scene = Scene(taking([]))
    scene.ask(heartbeat(1) + commit(2))
    scene.client.connection_lost(None)
    assert not scene.is_gone
    assert scene.broker
    scene.broker.connection_lost(None)
    assert scene.is_gone


def test_a_client_that_has_gone_can_be_aborted() -> None:
    scene = Scene(taking([]))
    scene.ask(commit(1) + commit(2))
    scene.client.connection_lost(None)
    assert not scene.is_gone
    scene.client.abort()
    assert scene.is_gone


def test_a_request_that_was_taken_with_nothing_behind_it_keeps_no_client_that_has_gone() -> None:
    scene = Scene(taking([]))
    scene.ask(commit(1))
    assert not scene.client.eof_received()
    scene.client.connection_lost(None)
    assert scene.is_gone


def test_what_is_watched_is_seen_whole_as_the_broker_said_it() -> None:
    clerk = RecordingInterceptor(observed=[ApiKey.METADATA])
    scene = Scene(clerk)
    asked = request(ApiKey.METADATA, 12, 5, topics=None)
    scene.ask(asked[:9], asked[9:])
    metadata, _ = metadata_answer(5)
    scene.answer(metadata[:30], metadata[30:])
    assert [(seen.frame, frame) for seen, frame in clerk.answered] == [(asked[4:], metadata[4:])]
    assert here(1).host.encode() in scene.client_link.written


def test_a_produce_that_was_seen_and_passed_is_awaited_only_if_it_is_answered() -> None:
    scene = Scene(RecordingInterceptor(lambda request: PASS, interests=[ApiKey.PRODUCE]))
    scene.ask(produce(1, acks=0) + produce(2, acks=1))
    assert [each.correlation_id for each in scene.client.pending] == [2]


# Errors


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (b"\xff\xff\xff\xff" + bytes(20), "a frame length of -1"),
        (b"\x00\x00\x00\x03" + bytes(20), "a frame length of 3"),
        (b"GET / HTTP/1.1\r\n\r\n", "it sends an HTTP request, and this port speaks Kafka's protocol"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20), "it speaks TLS, and this port does not"),
        (b"\x00\x00\x00\x20" + b"\x00\x01\x00\x63" + bytes(28), "version 99 of API key 1 is not passed on"),
        (b"\x00\x00\x00\x20" + b"\x00\x11\x00\x00" + bytes(28), "version 0 of API key 17 is not passed on"),
    ],
)
def test_who_sends_what_cannot_be_is_hung_up_on(hostile: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    with caplog.at_level(logging.WARNING):
        scene.ask(heartbeat(1), hostile, hostile)
    assert scene.client_link.is_closed
    assert scene.broker_link.written == heartbeat(1)
    assert [reason in record.getMessage() for record in caplog.records] == [True]


def test_a_request_that_an_interceptor_cannot_read_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(request: Request) -> Decision:
        raise CorruptMessage("the body ends too early")

    scene = Scene(RecordingInterceptor(refuse, interests=[ApiKey.HEARTBEAT]))
    scene.ask(heartbeat(1) + heartbeat(2))
    assert scene.client_link.is_closed
    assert not scene.broker_link.written
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "broken",
    [answer(99), b"\0\0\0\2\0\0\0\1", b"\xff" * 12, answer(1) + answer(2), metadata_answer(1)[0][:40] + bytes(200)],
)
def test_an_answer_that_cannot_be_ends_both_connections(broken: bytes, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.ask(request(ApiKey.METADATA, 12, 1, topics=None) if len(broken) > 100 else heartbeat(1))
    scene.answer(broken, bytes(50))
    assert scene.client_link.is_closed
    assert scene.broker_link.is_closed
    assert len(caplog.records) == 1


def test_either_side_that_goes_takes_the_other_with_it() -> None:
    scene = Scene()
    scene.ask(heartbeat(1))
    scene.client.connection_lost(None)
    assert scene.broker_link.is_closed
    assert scene.is_gone

    scene = Scene()
    scene.ask(heartbeat(1))
    assert scene.broker
    scene.broker.connection_lost(None)
    assert scene.client_link.is_closed


def test_who_is_served_here_goes_on_without_a_broker_that_has_nothing_to_answer() -> None:
    """Brokers close idle connections, and to them a member of a locally coordinated group is idle."""
    taken: list[Request] = []

    def take(request: Request) -> Decision:
        return Handle(lambda: taken.append(request))

    scene = Scene(RecordingInterceptor(take, interests=[ApiKey.HEARTBEAT]))
    scene.ask(request(ApiKey.OFFSET_COMMIT, 8, 1), heartbeat(2))
    scene.answer(answer(1))
    assert scene.broker
    scene.broker.connection_lost(None)
    scene.client.answer([answer(2)])
    assert scene.client_link.written == answer(1) + answer(2)
    assert not scene.client_link.is_closed

    scene.broker_link = Link()
    scene.ask(request(ApiKey.OFFSET_COMMIT, 8, 3))
    assert scene.connects == 2
    assert scene.broker_link.written == request(ApiKey.OFFSET_COMMIT, 8, 3)
    scene.broker.connection_lost(None)
    assert scene.client_link.is_closed, "an answer was due"


def test_a_malformed_produce_is_not_waited_for_when_all_of_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    hostile = b"\0\0\0\x0e" + b"\0\0\0\x07" + bytes(4) + b"\x7f\xff" + bytes(4)  # a client id of 32767 bytes
    scene = Scene()
    scene.ask(heartbeat(1) + hostile + heartbeat(2))
    assert scene.client_link.is_closed
    assert scene.broker_link.written == heartbeat(1)
    assert "malformed Produce" in caplog.text


@pytest.mark.parametrize("clerks", [(), (RecordingInterceptor(interests=[ApiKey.PRODUCE]),)])
def test_a_produce_whose_lengths_cannot_be_read_is_hung_up_on_with_one_line(
    clerks: tuple[RecordingInterceptor, ...], caplog: pytest.LogCaptureFixture
) -> None:
    hostile = b"\0\0\0\x1a" + b"\0\0\0\x0c" + bytes(4) + b"\xff\xff" + b"\xff" * 16  # tags: a varint that never ends
    scene = Scene(*clerks)
    scene.ask(heartbeat(1), hostile)
    assert scene.client_link.is_closed
    assert scene.broker_link.written == heartbeat(1)
    assert ["malformed Produce" in record.getMessage() for record in caplog.records] == [True]


def test_an_answer_that_waits_to_be_whole_counts_as_held() -> None:
    scene = Scene()
    scene.ask(request(ApiKey.METADATA, 12, 1, topics=()))
    scene.answer(b"\0\0\x10\0" + b"\0\0\0\1" + bytes(1000))
    assert scene.held_bytes == 1008
    scene.client.connection_lost(None)
    assert scene.held_bytes == 0


def test_the_first_part_of_a_request_that_is_seen_whole_counts_as_held_at_once() -> None:
    scene = Scene(RecordingInterceptor(interests=[ApiKey.METADATA]))
    whole = request(ApiKey.METADATA, 12, 1, topics=())
    scene.client.data_received(whole[:-1])
    assert scene.held_bytes == len(whole) - 1
    scene.client.data_received(whole[-1:])
    assert scene.held_bytes == 0


def test_a_login_without_headers_is_told_of_as_ever_though_it_is_not_passed_on() -> None:
    """librdkafka before 2.11.1 takes a broker without version 0 for one without SaslHandshake."""
    assert ApiKey.SASL_HANDSHAKE not in Routes(()).limits
    assert Routes(())[ApiKey.SASL_HANDSHAKE << 16].is_refused
    assert not Routes(())[ApiKey.SASL_HANDSHAKE << 16 | 1].is_refused


def test_only_so_many_kinds_of_requests_are_remembered() -> None:
    scene = Scene()
    for kind in range(0x0200_0000, 0x0200_1000):  # API key 512, versions 0 to 4095
        scene.ask(b"\0\0\0\x0a" + kind.to_bytes(4) + bytes(4) + b"\xff\xff")
    assert len(scene.routes) < 100


# Backpressure


def test_a_broker_that_does_not_read_holds_up_the_client_and_the_other_way_round() -> None:
    scene = Scene()
    scene.ask(heartbeat(1))
    assert scene.broker
    scene.broker.pause_writing()
    assert scene.reading() == (False, True)
    scene.client.pause_writing()
    assert scene.reading() == (False, False)
    scene.broker.resume_writing()
    assert scene.reading() == (False, False), "it does not read its answers either"
    scene.client.resume_writing()
    assert scene.reading() == (True, True)


def test_requests_wait_for_the_broker_and_not_too_many_of_them() -> None:
    scene = Scene(is_slow=True)
    scene.ask(heartbeat(1), heartbeat(2))
    assert scene.connects == 1
    assert scene.reading() == (True, True)
    large = produce(3, acks=1, size=600_000)
    scene.ask(large)
    assert scene.reading() == (False, True)
    assert scene.held_bytes == len(heartbeat(1) + heartbeat(2) + large)
    scene.connected()
    assert scene.held_bytes == 0
    assert scene.broker_link.written == heartbeat(1) + heartbeat(2) + large
    assert scene.reading() == (True, True)


@pytest.mark.parametrize("is_together", [True, False])
def test_a_client_that_is_far_ahead_is_not_read_from(is_together: bool) -> None:
    scene = Scene()
    asked = [heartbeat(number) for number in range(20_000)]
    scene.ask(*([b"".join(asked)] if is_together else asked))
    assert scene.reading() == (False, True)
    scene.answer(b"".join(answer(number) for number in range(20_000)))
    assert scene.reading() == (True, True)
    assert not scene.client.pending


def test_what_a_client_sent_before_it_went_reaches_a_broker_that_is_still_called() -> None:
    """The requests may want no answers, and would have reached a broker directly."""
    scene = Scene(is_slow=True)
    sent = produce(1, acks=0)
    scene.ask(sent)
    scene.client.connection_lost(None)
    scene.connected()
    assert scene.broker_link.written == sent
    assert scene.broker_link.is_closed
    assert not scene.client.held_bytes
