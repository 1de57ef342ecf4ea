"""Guards within forwarding: what they remove from requests and add to answers, between other requests."""

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_request, decode_response, encode_response, response_type
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import Answer, Handle
from kcoord.proxy.guards.guard_rules import GuardRules, parse_rule
from kcoord.proxy.guards.guarding import GuardInterceptor
from kcoord.proxy.observing.group_observer import GroupObserver

from ..forwarding_scene import (
    RecordingInterceptor,
    Scene,
    answer,
    heartbeat,
    produce,
    request,
)
from ..guard_scene import Clock

REFUSED = ErrorCode.group_authorization_failed


def _guard(**rules: object) -> GuardInterceptor:
    clock = Clock()
    return GuardInterceptor(GuardRules(**rules), GroupObserver(clock), clock)  # type: ignore[arg-type]


@pytest.fixture
def secretive() -> GuardInterceptor:
    return _guard(denied=(parse_rule("groups:secret"),), checks_subscriptions=False)


def _described(correlation_id: int, *names: str) -> bytes:
    """Encodes a broker's DescribeGroups answer, with its length."""
    entity = build_entity(response_type(ApiKey.DESCRIBE_GROUPS, 5), {"groups": [{"group_id": name} for name in names]})
    return encode_response(RequestHeader(ApiKey.DESCRIBE_GROUPS, 5, correlation_id), entity)


def _frames(stream: bytes) -> list[bytes]:
    return FrameSplitter(1 << 20).feed(stream)


def _outcomes(frame: bytes) -> list[tuple[str, ErrorCode]]:
    _, response = decode_response(frame, ApiKey.DESCRIBE_GROUPS, 5)
    return [(group.group_id, group.error_code) for group in response.groups]


ASKED = request(ApiKey.DESCRIBE_GROUPS, 5, 2, groups=["open", "secret"])


def test_a_request_without_the_denied_group_passes_in_its_place_between_others(secretive: GuardInterceptor) -> None:
    scene = Scene(secretive)
    scene.ask(heartbeat(1) + ASKED + heartbeat(3))
    first, second, third = _frames(scene.broker_link.written)
    assert (first, third) == (heartbeat(1)[4:], heartbeat(3)[4:])
    assert decode_request(second, ApiKey.DESCRIBE_GROUPS, 5)[1].groups == ("open",)
    scene.answer(answer(1) + _described(2, "open") + answer(3))
    first, second, third = _frames(scene.client_link.written)
    assert (first, third) == (answer(1)[4:], answer(3)[4:])
    assert _outcomes(second) == [("open", ErrorCode.none), ("secret", REFUSED)]


def test_a_request_that_comes_in_pieces_is_guarded_as_well(secretive: GuardInterceptor) -> None:
    scene = Scene(secretive)
    scene.ask(*(ASKED[at : at + 7] for at in range(0, len(ASKED), 7)))
    (frame,) = _frames(scene.broker_link.written)
    assert decode_request(frame, ApiKey.DESCRIBE_GROUPS, 5)[1].groups == ("open",)


def test_interceptors_behind_see_what_is_left_and_what_the_broker_says_of_it(secretive: GuardInterceptor) -> None:
    behind = RecordingInterceptor(interests=[ApiKey.DESCRIBE_GROUPS], observed=[ApiKey.DESCRIBE_GROUPS])
    scene = Scene(secretive, behind)
    scene.ask(ASKED)
    scene.answer(_described(2, "open"))
    (seen,) = behind.asked
    assert decode_request(seen.frame, ApiKey.DESCRIBE_GROUPS, 5)[1].groups == ("open",)
    ((_, shown),) = behind.answered
    assert _outcomes(shown) == [("open", ErrorCode.none)]


def test_what_is_answered_here_is_amended_too(secretive: GuardInterceptor) -> None:
    scene = Scene(
        secretive, RecordingInterceptor(lambda _: Answer([_described(2, "open")]), interests=[ApiKey.DESCRIBE_GROUPS])
    )
    scene.ask(ASKED)
    (frame,) = _frames(scene.client_link.written)
    assert _outcomes(frame) == [("open", ErrorCode.none), ("secret", REFUSED)]


def test_what_is_taken_is_amended_and_watched_when_it_is_answered(secretive: GuardInterceptor) -> None:
    behind = RecordingInterceptor(
        lambda _: Handle(lambda: None), interests=[ApiKey.DESCRIBE_GROUPS], observed=[ApiKey.DESCRIBE_GROUPS]
    )
    scene = Scene(secretive, behind)
    scene.ask(ASKED)
    scene.client.answer([_described(2, "open")])
    (frame,) = _frames(scene.client_link.written)
    assert _outcomes(frame) == [("open", ErrorCode.none), ("secret", REFUSED)]
    assert len(behind.answered) == 1


def test_a_refused_produce_without_an_answer_closes_the_connection_and_nothing_of_it_passes() -> None:
    scene = Scene(_guard(is_read_only=True))
    scene.ask(produce(1, acks=0))
    assert scene.client_link.is_closed
    assert scene.broker_link.written == scene.client_link.written == b""


def test_a_refusal_waits_for_the_answers_before_it() -> None:
    scene = Scene(_guard(denied=(parse_rule("produce"),)))
    scene.ask(heartbeat(1) + produce(2, acks=1) + heartbeat(3))
    assert scene.broker_link.written == heartbeat(1) + heartbeat(3)
    assert scene.client_link.written == b""
    scene.answer(answer(1) + answer(3))
    first, second, third = _frames(scene.client_link.written)
    assert (first, third) == (answer(1)[4:], answer(3)[4:])
    _, response = decode_response(second, ApiKey.PRODUCE, 9)
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code is ErrorCode.topic_authorization_failed


def test_metadata_passes_a_read_only_proxy_without_its_wish_to_make_topics() -> None:
    scene = Scene(_guard(is_read_only=True))
    topics = [{"name": "new", "topic_id": None}]
    asked = request(ApiKey.METADATA, 12, 1, topics=topics, allow_auto_topic_creation=True)
    harmless = request(ApiKey.METADATA, 12, 1, topics=topics, allow_auto_topic_creation=False)
    scene.ask(asked + heartbeat(2))  # the heartbeat is refused: it would renew a member's session
    assert scene.broker_link.written == harmless


def test_versions_that_cannot_be_guarded_are_not_offered() -> None:
    limits = Scene(_guard(is_read_only=True)).limits
    assert (limits[ApiKey.METADATA].start, limits[ApiKey.PRODUCE].start) == (4, 0)
    assert not limits[200]
    assert 200 not in Scene(_guard()).limits
    assert not Scene(_guard(denied=(parse_rule("admin"),))).limits[200]
    assert not Scene(_guard(denied=(parse_rule("brokers"),))).limits[ApiKey.LEADER_AND_ISR]


def test_who_sends_what_nobody_here_can_answer_is_hung_up_on_where_it_is_denied() -> None:
    for api_key in (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        200,
    ):
        scene = Scene(_guard(denied=(parse_rule("brokers"),)))
        scene.ask(bytes([0, 0, 0, 12, 0, api_key, 0, 0, 0, 0, 0, 1, 255, 255, 0, 0]))
        assert scene.client_link.is_closed
        assert scene.broker_link.written == b""


def test_fetches_of_consumers_pass_a_read_only_proxy_as_they_are_and_those_of_followers_do_not() -> None:
    scene = Scene(_guard(is_read_only=True))
    of_consumer, of_follower = (request(ApiKey.FETCH, 11, number, replica_id=number - 2) for number in (1, 2))
    scene.ask(of_consumer + of_follower)
    assert scene.broker_link.written == of_consumer
    assert not scene.client_link.is_closed
