"""Group rules and `__consumer_offsets`: a client that may not see a group may not read it from that topic either."""

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.kio_codec import build_entity
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_request, decode_response, encode_response, response_type
from kcoord.protocol.frames import FrameSplitter
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import Interceptor
from kcoord.proxy.guards.guard_rules import GuardRules, parse_rule
from kcoord.proxy.guards.hidden_names import HiddenNames
from kcoord.proxy.guards.hiding import HidingInterceptor, hidden_journal
from kcoord.proxy.guards.wiring import make_guards
from tests.proxy.forwarding_scene import Scene, request
from tests.proxy.guard_scene import Clock

OFFSETS = "__consumer_offsets"
DENIED = ErrorCode.topic_authorization_failed


def scene_of(*, deny: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Scene:
    guards = make_guards(GuardRules(denied=tuple(map(parse_rule, deny)), allowed=tuple(map(parse_rule, allow))))
    interceptors: list[Interceptor] = [*guards.interceptors]
    return Scene(*interceptors)


def fetch(*topics: str) -> bytes:
    return request(ApiKey.FETCH, 12, 1, topics=[{"topic": each, "partitions": [{"partition": 0}]} for each in topics])


def produce(*topics: str) -> bytes:
    parts = [{"index": 0, "records": b"forged"}]
    return request(
        ApiKey.PRODUCE, 9, 1, acks=1, topic_data=[{"name": each, "partition_data": parts} for each in topics]
    )


def passed(scene: Scene) -> list[bytes]:
    return FrameSplitter(1 << 20).feed(scene.broker_link.written)


def answers_in(scene: Scene) -> list[bytes]:
    return FrameSplitter(1 << 20).feed(scene.client_link.written)


@pytest.mark.parametrize("rule", ["groups:secret.*", "groups", "OffsetFetch:secret.*", "DescribeGroups:secret.*"])
def test_who_may_not_read_a_group_may_not_read_it_from_the_topic_either(rule: str) -> None:
    scene = scene_of(deny=(rule,))
    scene.ask(fetch(OFFSETS))
    assert passed(scene) == []
    (topic,) = decode_response(answers_in(scene)[0], ApiKey.FETCH, 12)[1].responses
    assert (topic.topic, topic.partitions[0].error_code) == (OFFSETS, DENIED)


def test_where_only_some_groups_are_allowed_the_topic_is_not_read_either() -> None:
    scene = scene_of(allow=("OffsetFetch:mine-.*",))
    scene.ask(fetch(OFFSETS))
    assert passed(scene) == []


def test_other_topics_of_the_same_fetch_are_read() -> None:
    scene = scene_of(deny=("groups:secret.*",))
    scene.ask(fetch("t", OFFSETS))
    (frame,) = passed(scene)
    assert [each.topic for each in decode_request(frame, ApiKey.FETCH, 12)[1].topics] == ["t"]
    entity = build_entity(
        response_type(ApiKey.FETCH, 12), {"responses": [{"topic": "t", "partitions": [{"partition_index": 0}]}]}
    )
    scene.answer(encode_response(RequestHeader(ApiKey.FETCH, 12, 1), entity))
    topics = decode_response(answers_in(scene)[0], ApiKey.FETCH, 12)[1].responses
    assert [(each.topic, each.partitions[0].error_code) for each in topics] == [
        ("t", ErrorCode.none),
        (OFFSETS, DENIED),
    ]


def test_who_may_not_commit_for_a_group_may_not_write_its_offsets_to_the_topic() -> None:
    scene = scene_of(deny=("OffsetCommit:secret.*",))
    scene.ask(produce(OFFSETS))
    assert passed(scene) == []
    (topic,) = decode_response(answers_in(scene)[0], ApiKey.PRODUCE, 9)[1].responses
    assert topic.partition_responses[0].error_code is DENIED
    scene.ask(fetch(OFFSETS))
    assert passed(scene) == [fetch(OFFSETS)[4:]], "reading is not denied"


def test_topics_are_named_not_meant_by_an_id_that_the_proxy_does_not_know() -> None:
    scene = scene_of(deny=("groups:secret.*",))
    assert scene.limits[ApiKey.FETCH].stop == scene.limits[ApiKey.PRODUCE].stop == 13
    scene.ask(request(ApiKey.FETCH, 13, 1, topics=[]))
    assert scene.client_link.is_closed


@pytest.mark.parametrize("deny", [(), ("admin",), ("JoinGroup:secret.*",)])
def test_without_a_rule_about_what_the_topic_tells_it_is_one_like_others(deny: tuple[str, ...]) -> None:
    scene = scene_of(deny=deny)
    assert scene.limits[ApiKey.FETCH].stop > 13
    scene.ask(fetch(OFFSETS))
    assert passed(scene) == [fetch(OFFSETS)[4:]]


def test_refusals_of_the_journal_are_counted_and_come_before_all_others() -> None:
    hiding = HidingInterceptor(hidden_journal(HiddenNames(topic="__journal")), Clock())
    guards = make_guards(GuardRules(denied=(parse_rule("groups:secret.*"),)))._replace(journal=(hiding,))
    assert guards.interceptors[0] is hiding
    Scene(*guards.interceptors).ask(fetch("__journal"))
    assert guards.refusals == {("journal", "Fetch"): 1}


def test_it_is_counted_among_refusals() -> None:
    guards = make_guards(GuardRules(denied=(parse_rule("groups:secret.*"),)))
    Scene(*guards.interceptors).ask(fetch(OFFSETS))
    assert guards.refusals["denied", "Fetch"] == 1  # type: ignore[index]  # a StrEnum is its text
