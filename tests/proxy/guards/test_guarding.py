"""What guards refuse, what they let pass, and what they remove from requests."""

import logging
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_response, known_versions
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import PASS, Answer, Pass, Request
from kcoord.proxy.guards.guard_rules import GuardRules, parse_rate, parse_rule, parse_size
from kcoord.proxy.guards.guarded_apis import GUARDED
from kcoord.proxy.guards.guarding import GuardInterceptor
from kcoord.proxy.observing.group_observer import GroupObserver

from ..guard_scene import (
    Clock,
    Coordinator,
    FakeClient,
    answered,
    asked,
    forwarded_by,
    join,
    joining_beat,
    response_of,
    subscription,
)

GROUP_REFUSED = ErrorCode.group_authorization_failed
TOPIC_SETTINGS, GROUP_SETTINGS = 2, 32


def _guard(**rules: Any) -> GuardInterceptor:
    clock = Clock()
    return GuardInterceptor(GuardRules(**rules), GroupObserver(clock), clock)


def _deny(*texts: str) -> GuardInterceptor:
    return _guard(denied=tuple(map(parse_rule, texts)))


def _allow(*texts: str) -> GuardInterceptor:
    return _guard(allowed=tuple(map(parse_rule, texts)))


def _produce(acks: int) -> Request:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": b"x"}]}]
    return asked(ApiKey.PRODUCE, 9, acks=acks, topic_data=data)


def _commit(group_id: str) -> Request:
    topics = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    return asked(ApiKey.OFFSET_COMMIT, 8, group_id=group_id, topics=topics)


# Read-only


def test_in_read_only_mode_what_changes_is_refused_and_what_reads_passes() -> None:
    guard = _guard(is_read_only=True)
    response = response_of(guard.request(FakeClient(), _produce(-1)), _produce(-1))
    (partition,) = response.responses[0].partition_responses
    assert partition.error_code is ErrorCode.topic_authorization_failed
    assert partition.error_message == "refused by the proxy: it is read-only"
    assert guard.refusals == {("read-only", "Produce"): 1}
    for reading in (
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ):
        assert reading not in guard.interests


@pytest.mark.parametrize("version", known_versions(ApiKey.FETCH))
def test_in_read_only_mode_a_fetch_is_a_consumers_or_refused(version: int) -> None:
    topics = [{"topic": "orders", "topic_id": UUID(int=9), "partitions": [{"partition": 3}]}]
    guard = _guard(is_read_only=True)
    assert ApiKey.FETCH in guard.interests
    for replica_id, is_refused in ((-1, False), (-2, False), (0, True), (7, True)):
        state = {"replica_id": replica_id, "replica_epoch": 1}
        request = asked(ApiKey.FETCH, version, topics=topics, replica_id=replica_id, replica_state=state)
        decision = guard.request(FakeClient(), request)
        if not is_refused:
            assert decision is PASS
            continue
        (topic,) = response_of(decision, request).responses
        (partition,) = topic.partitions
        assert (partition.partition_index, partition.error_code) == (3, ErrorCode.topic_authorization_failed)
    assert guard.refusals == {("read-only", "Fetch"): 2}


def test_a_fetch_hides_its_replica_neither_behind_other_tags_nor_behind_itself() -> None:
    guard = _guard(is_read_only=True)
    plain = asked(ApiKey.FETCH, 17).frame
    assert plain.endswith(b"\0")

    def replica(number: int) -> bytes:
        return b"\x01\x0d" + number.to_bytes(4, signed=True) + bytes(9)

    for count, tags in ((1, replica(5)), (2, replica(5) + b"\x09\x01x"), (2, replica(-1) + replica(5))):
        frame = plain[:-1] + count.to_bytes() + tags
        assert isinstance(guard.request(FakeClient(), Request(frame, ApiKey.FETCH, 17, 42)), Answer), tags
    unknown = plain[:-1] + b"\x01\x09\x01x"
    assert guard.request(FakeClient(), Request(unknown, ApiKey.FETCH, 17, 42)) is PASS


@pytest.mark.parametrize("version", [11, 17])
def test_in_read_only_mode_a_fetch_that_ends_too_early_is_not_passed_on(version: int) -> None:
    frame = asked(ApiKey.FETCH, version).frame
    for cut in (frame[:-1] if version == 17 else frame[:16], frame[:13], frame[:9]):
        with pytest.raises(CorruptMessage):
            _guard(is_read_only=True).request(FakeClient(), Request(cut, ApiKey.FETCH, version, 42))


def test_what_is_allowed_or_denied_of_fetch_holds_in_read_only_mode() -> None:
    as_follower = asked(ApiKey.FETCH, 11, replica_id=5)
    allowed = _guard(is_read_only=True, allowed=(parse_rule("Fetch"),))
    assert allowed.request(FakeClient(), as_follower) is PASS
    denied = _guard(is_read_only=True, denied=(parse_rule("Fetch"),))
    assert isinstance(denied.request(FakeClient(), asked(ApiKey.FETCH, 11)), Answer)


@pytest.mark.parametrize("version", known_versions(ApiKey.FIND_COORDINATOR)[1:])
def test_in_read_only_mode_only_coordinators_of_groups_are_looked_for(version: int) -> None:
    guard = _guard(is_read_only=True)
    codes = {1: ErrorCode.transactional_id_authorization_failed, 2: GROUP_REFUSED, 3: GROUP_REFUSED}
    for key_type in range(4):
        request = asked(ApiKey.FIND_COORDINATOR, version, key_type=key_type, key="a", coordinator_keys=["a"])
        decision = guard.request(FakeClient(), request)
        if key_type == 0:
            assert decision is PASS
            continue
        response = response_of(decision, request)
        refused = response.coordinators[0] if version >= 4 else response
        assert refused.error_code is codes[key_type]
        assert refused.error_message == "refused by the proxy: it is read-only"


def test_who_is_allowed_transactions_may_look_for_their_coordinator() -> None:
    request = asked(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["t"])
    for text in ("transactions", "InitProducerId", "FindCoordinator"):
        guard = _guard(is_read_only=True, allowed=(parse_rule(text),))
        assert guard.request(FakeClient(), request) is PASS
    guard = _guard(is_read_only=True, allowed=(parse_rule("groups:.*"),))
    assert isinstance(guard.request(FakeClient(), request), Answer)


def test_produce_that_asks_for_no_answer_is_refused_by_hanging_up() -> None:
    guard, client = _guard(is_read_only=True), FakeClient()
    assert guard.request(client, _produce(0)) == Answer([])
    assert client.hung_up == ["Produce without acknowledgement: refused by the proxy: it is read-only"]


@pytest.mark.parametrize("api", [api for api in GUARDED.values() if api.name.startswith(("Alter", "Create", "Delete"))])
def test_in_read_only_mode_nothing_is_altered_created_or_deleted(api: Any) -> None:
    guard = _guard(is_read_only=True)
    request = asked(api.key, known_versions(api.key)[-1])
    assert isinstance(guard.request(FakeClient(), request), Answer)


def test_in_read_only_mode_topics_are_not_made_by_asking_for_them() -> None:
    guard = _guard(is_read_only=True)
    making = asked(ApiKey.METADATA, 12, topics=[{"name": "new", "topic_id": None}], allow_auto_topic_creation=True)
    passed = forwarded_by(guard.request(FakeClient(), making), making)
    assert not passed.allow_auto_topic_creation
    assert [topic.name for topic in passed.topics] == ["new"]
    read_only = asked(ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)
    assert guard.request(FakeClient(), read_only) is PASS
    assert guard.limits[ApiKey.METADATA] == range(4, 14)


def test_in_read_only_mode_members_join_only_groups_that_live_here() -> None:
    request = join("g")
    assert response_of(_guard(is_read_only=True).request(FakeClient(), request), request).error_code is GROUP_REFUSED
    local = _guard(is_read_only=True, groups_are_local=True)
    assert local.request(FakeClient(), request) is PASS
    assert 8 not in local.interests
    assert ApiKey.PRODUCE in local.interests


def test_in_read_only_mode_an_api_that_nobody_knows_is_neither_offered_nor_passed() -> None:
    guard = _guard(is_read_only=True)
    assert guard.limits[150] == range(0)
    assert 150 in guard.interests
    unknown = Request(frame=bytes(8), api_key=150, api_version=0, correlation_id=0)
    with pytest.raises(CorruptMessage, match="version 0 of API key 150"):
        guard.request(FakeClient(), unknown)
    assert not _guard().limits


def test_an_api_that_nobody_knows_is_not_offered_where_it_may_be_of_a_family_that_a_rule_names() -> None:
    for text in ("admin", "brokers", "groups:secret-.*"):
        for guard in (_deny(text), _allow(text)):
            assert guard.limits[150] == range(0)
            assert 150 in guard.interests
    for guard in (_deny("DeleteTopics"), _allow("JoinGroup:a"), _guard(sizes=(parse_size("2"),))):
        assert not guard.limits
        assert 150 not in guard.interests


def test_what_is_allowed_passes_though_only_reading_is() -> None:
    guard = _guard(is_read_only=True, allowed=(parse_rule("OffsetCommit:reports-.*"), parse_rule("Produce")))
    assert guard.request(FakeClient(), _commit("reports-1")) is PASS
    assert guard.request(FakeClient(), _produce(0)) is PASS
    (topic,) = response_of(guard.request(FakeClient(), _commit("other")), _commit("other")).topics
    assert [partition.error_code for partition in topic.partitions] == [GROUP_REFUSED]
    assert guard.refusals == {("not-allowed", "OffsetCommit"): 1}


def test_every_api_that_kio_knows_has_its_place_in_the_table_and_so_have_those_of_brokers_before_kraft() -> None:
    of_old = {4, 5, 6, 7}
    assert {key for key in range(1000) if known_versions(key)} | of_old == GUARDED.keys()
    assert of_old <= _deny("brokers").interests
    assert of_old <= _guard(is_read_only=True).interests


# Denied and allowed


def test_a_denied_group_is_refused_by_its_whole_name() -> None:
    guard = _deny("groups:secret")
    refused, other = join("secret"), join("secret-2")
    assert response_of(guard.request(FakeClient(), refused), refused).error_code is GROUP_REFUSED
    assert guard.request(FakeClient(), other) is PASS


def test_a_denied_api_is_refused_whatever_it_is_about() -> None:
    guard = _deny("createtopics")
    request = asked(ApiKey.CREATE_TOPICS, 7, topics=[{"name": "new"}])
    (topic,) = response_of(guard.request(FakeClient(), request), request).topics
    assert topic.error_code is ErrorCode.topic_authorization_failed
    assert topic.error_message == "refused by the proxy: denied"


def test_denial_wins_over_what_is_allowed() -> None:
    guard = _guard(denied=(parse_rule("groups:team-x"),), allowed=(parse_rule("groups:team-.*"),))
    for group_id, is_let_in in (("team-a", True), ("team-x", False), ("other", False)):
        assert isinstance(guard.request(FakeClient(), join(group_id)), Pass) is is_let_in
    assert guard.refusals == {("denied", "JoinGroup"): 1, ("not-allowed", "JoinGroup"): 1}


def test_what_is_not_about_groups_is_not_touched_by_what_is_allowed_of_groups() -> None:
    guard = _allow("groups:team-.*")
    for_transactions = asked(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["other"])
    assert guard.request(FakeClient(), for_transactions) is PASS
    for_a_group = asked(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="other")
    assert response_of(guard.request(FakeClient(), for_a_group), for_a_group).error_code is GROUP_REFUSED


@pytest.mark.parametrize(
    ("api_key", "version", "field", "results", "name"),
    [
        (ApiKey.FIND_COORDINATOR, 6, "coordinator_keys", "coordinators", "key"),
        (ApiKey.DESCRIBE_GROUPS, 6, "groups", "groups", "group_id"),
        (ApiKey.DELETE_GROUPS, 2, "groups_names", "results", "group_id"),
        (69, 1, "group_ids", "groups", "group_id"),
        (77, 1, "group_ids", "groups", "group_id"),
        (89, 0, "group_ids", "groups", "group_id"),
    ],
)
def test_denied_groups_among_others_are_taken_out_and_come_back_refused(
    api_key: int, version: int, field: str, results: str, name: str
) -> None:
    guard = _deny("groups:secret-.*")
    values: Any = {field: ["a", "secret-1", "b", "secret-2"]}
    request = asked(api_key, version, **values)
    decision = guard.request(FakeClient(), request)
    assert getattr(forwarded_by(decision, request), field) == ("a", "b")
    broker = answered(request, **{results: [{name: "a"}, {name: "b"}]})
    _, response = decode_response(decision.transform(broker), api_key, version)  # type: ignore[union-attr, misc]
    assert [(getattr(each, name), each.error_code) for each in getattr(response, results)] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
        ("secret-1", GROUP_REFUSED),
        ("secret-2", GROUP_REFUSED),
    ]
    assert api_key in guard.observed


@pytest.mark.parametrize("version", [8, 10])
def test_a_denied_group_among_others_whose_offsets_are_fetched_comes_back_refused(version: int) -> None:
    guard = _deny("OffsetFetch:secret")
    topics = [{"name": "orders", "topic_id": UUID(int=1), "partition_indexes": [0]}]
    groups = [{"group_id": "a", "topics": topics}, {"group_id": "secret", "topics": topics}]
    request = asked(ApiKey.OFFSET_FETCH, version, groups=groups)
    decision = guard.request(FakeClient(), request)
    (passed,) = forwarded_by(decision, request).groups
    assert (passed.group_id, passed.topics[0].partition_indexes) == ("a", (0,))
    broker = answered(request, groups=[{"group_id": "a"}])
    _, response = decode_response(decision.transform(broker), ApiKey.OFFSET_FETCH, version)  # type: ignore[union-attr, misc]
    assert [(group.group_id, group.error_code) for group in response.groups] == [
        ("a", ErrorCode.none),
        ("secret", GROUP_REFUSED),
    ]


@pytest.mark.parametrize(
    ("api_key", "results"),
    [
        (ApiKey.DESCRIBE_CONFIGS, "results"),
        (ApiKey.ALTER_CONFIGS, "responses"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "responses"),
    ],
)
def test_settings_of_denied_groups_are_taken_out_and_others_are_not(api_key: int, results: str) -> None:
    guard = _deny("groups:secret")
    named = [(TOPIC_SETTINGS, "secret"), (GROUP_SETTINGS, "secret"), (GROUP_SETTINGS, "open")]
    resources = [{"resource_type": kind, "resource_name": name} for kind, name in named]
    for version in known_versions(api_key):
        request = asked(api_key, version, resources=resources)
        decision = guard.request(FakeClient(), request)
        passed = forwarded_by(decision, request).resources
        assert [(each.resource_type, each.resource_name) for each in passed] == [named[0], named[2]]
        broker = answered(request, **{results: [resources[0], resources[2]]})
        _, response = decode_response(decision.transform(broker), api_key, version)  # type: ignore[union-attr, misc]
        outcomes = [(each.resource_type, each.resource_name, each.error_code) for each in getattr(response, results)]
        assert outcomes[:2] == [(*named[0], ErrorCode.none), (*named[2], ErrorCode.none)]
        assert outcomes[2:] == [(*named[1], ErrorCode.cluster_authorization_failed)]
    assert api_key in guard.observed


def test_of_settings_only_those_of_groups_are_held_to_what_is_allowed_of_groups() -> None:
    guard = _allow("groups:team-.*")
    for kind, name, is_passed in (
        (TOPIC_SETTINGS, "orders", True),
        (GROUP_SETTINGS, "team-a", True),
        (GROUP_SETTINGS, "other", False),
    ):
        request = asked(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[{"resource_type": kind, "resource_name": name}])
        assert isinstance(guard.request(FakeClient(), request), Pass) is is_passed


def test_in_read_only_mode_settings_of_allowed_groups_are_changed_and_no_others() -> None:
    guard = _guard(is_read_only=True, allowed=(parse_rule("IncrementalAlterConfigs:reports"),))
    named = [(GROUP_SETTINGS, "reports"), (TOPIC_SETTINGS, "reports")]
    resources = [{"resource_type": kind, "resource_name": name} for kind, name in named]
    request = asked(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    (passed,) = forwarded_by(guard.request(FakeClient(), request), request).resources
    assert passed.resource_type == GROUP_SETTINGS
    assert guard.refusals == {("read-only", "IncrementalAlterConfigs"): 1}


def test_a_partition_of_a_denied_share_group_is_not_found() -> None:
    guard = _deny("groups:secret(:x)?")
    keys = ["open:AAAAAAAAAAAAAAAAAAAAAQ:0", "secret:AAAAAAAAAAAAAAAAAAAAAQ:0", "secret:x:AAAAAAAAAAAAAAAAAAAAAQ:1"]
    request = asked(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=keys)
    decision = guard.request(FakeClient(), request)
    assert forwarded_by(decision, request).coordinator_keys == (keys[0],)
    broker = answered(request, coordinators=[{"key": keys[0]}])
    _, response = decode_response(decision.transform(broker), ApiKey.FIND_COORDINATOR, 6)  # type: ignore[union-attr, misc]
    assert [(each.key, each.error_code) for each in response.coordinators] == [
        (keys[0], ErrorCode.none),
        (keys[1], GROUP_REFUSED),
        (keys[2], GROUP_REFUSED),
    ]


def test_when_all_groups_of_a_request_are_denied_the_broker_is_not_asked() -> None:
    guard = _deny("DescribeGroups:.*")
    request = asked(ApiKey.DESCRIBE_GROUPS, 5, groups=["a", "b"])
    response = response_of(guard.request(FakeClient(), request), request)
    assert [group.error_code for group in response.groups] == [GROUP_REFUSED, GROUP_REFUSED]


@pytest.mark.parametrize("api", [api for api in GUARDED.values() if api.group_field])
def test_in_every_version_of_every_api_of_groups_the_groups_are_found(api: Any) -> None:
    guard = _deny(f"{api.name}:secret")
    for version in known_versions(api.key):
        names: Any = ["secret"]
        values = {"group_id": "secret", "key": "secret", "group_ids": names, "groups_names": names}
        is_offsets = api.name in ("OffsetFetch", "DescribeShareGroupOffsets")
        values |= {"groups": [{"group_id": "secret"}] if is_offsets else names, "coordinator_keys": names}
        values |= {"resources": [{"resource_type": GROUP_SETTINGS, "resource_name": "secret"}]}
        request = asked(api.key, version, protocol_type="consumer", topology=None, assignment=None, **values)
        assert isinstance(guard.request(FakeClient(), request), Answer), version


def test_a_request_that_cannot_be_read_is_not_passed_on() -> None:
    broken = Request(frame=join("g").frame[:-3], api_key=ApiKey.JOIN_GROUP, api_version=9, correlation_id=42)
    with pytest.raises(CorruptMessage):
        _deny("JoinGroup:secret").request(FakeClient(), broken)


# Subscriptions


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"protocols": []}, "it names no protocols"),
        ({"protocol_type": ""}, "it names no protocol type"),
        ({"protocols": [{"name": "range", "metadata": b""}]}, "too short for its version"),
        ({"protocols": [{"name": "range", "metadata": subscription("a")[:-1]}]}, "not the subscription of a consumer"),
        ({"protocols": [{"name": "range", "metadata": b"\xff\xff" + subscription("a")[2:]}]}, "version -1"),
        ({"protocols": [{"name": "range", "metadata": subscription("a b")}]}, "'a b' has characters other than"),
        ({"protocols": [{"name": "range", "metadata": subscription("a", version=1)[:-1]}]}, "not the subscription"),
        ({"protocols": [{"name": "range", "metadata": subscription("a", version=3)[:-4]}]}, "not the subscription"),
    ],
)
def test_a_subscription_that_no_leader_can_read_is_refused(
    changes: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    guard, request = _guard(), join("g", **changes)
    response = response_of(guard.request(FakeClient(), request), request)
    assert response.error_code is ErrorCode.inconsistent_group_protocol
    (line,) = caplog.messages
    assert why in line
    assert "peer=10.0.0.7:5555" in line


@pytest.mark.parametrize(
    "metadata",
    [
        *[subscription("a", "b.c", version=version) for version in range(4)],
        subscription(),
        subscription("a", version=3)[:2] + subscription("a")[2:],  # nothing behind what version 0 has
        b"\x00\x63" + subscription("a", version=3)[2:] + b"of a version that is to come",
    ],
)
def test_a_sound_subscription_passes(metadata: bytes) -> None:
    request = join("g", protocols=[{"name": "range", "metadata": metadata}])
    assert _guard().request(FakeClient(), request) is PASS


def test_what_members_of_other_kinds_bring_is_their_own_business() -> None:
    request = join("g", protocol_type="connect", protocols=[{"name": "sessioned", "metadata": b"?"}])
    assert _guard().request(FakeClient(), request) is PASS


def test_without_anything_to_guard_no_request_is_looked_at() -> None:
    assert _guard(checks_subscriptions=False).interests == frozenset()


# Limits


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _guarded_coordinator(clock: Clock, **rules: Any) -> Coordinator:
    watching = GroupObserver(clock)
    return Coordinator(watching, GuardInterceptor(GuardRules(**rules), watching, clock))


def _grow(coordinator: Coordinator, size: int, group_id: str = "g") -> list[FakeClient]:
    """Lets so many members join; m0 leads."""
    clients = [FakeClient(client_id=f"m{number}") for number in range(size)]
    members = tuple(f"m{number}" for number in range(size))
    for client, member_id in zip(clients, members, strict=True):
        coordinator.join_and_answer(
            client, group_id, member_id, generation=1, leads=members if member_id == "m0" else ()
        )
        coordinator.sync(client, group_id, member_id, generation=1)
    return clients


def test_a_member_more_than_the_group_may_have_is_refused_and_the_others_are_not(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    clients = _grow(coordinator, 2)
    third = join("g")
    response = response_of(coordinator.ask(FakeClient(), third), third)
    assert response.error_code is ErrorCode.group_max_size_reached
    assert coordinator.ask(clients[1], join("g", "m1")) is PASS


def test_who_has_left_makes_room(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    clients = _grow(coordinator, 2)
    coordinator.leave(clients[1], "g", "m1")
    assert coordinator.ask(FakeClient(), join("g")) is PASS


def test_members_whose_session_is_over_make_room(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    _grow(coordinator, 2)
    clock.pass_time(11)
    assert coordinator.ask(FakeClient(), join("g")) is PASS


def test_who_is_on_the_way_is_counted(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    _grow(coordinator, 1)
    assert coordinator.ask(FakeClient(), join("g", version=3)) is PASS
    assert isinstance(coordinator.ask(FakeClient(), join("g", version=3)), Answer)


def _given_ids(coordinator: Coordinator, size: int) -> list[FakeClient]:
    """Gives member ids to so many clients, m0 and so on, that have not joined yet."""
    clients = [FakeClient() for _ in range(size)]
    for number, client in enumerate(clients):
        assert coordinator.ask(client, join("g")) is PASS
        coordinator.give_id(client, join("g"), f"m{number}")
    return clients


def test_of_members_that_start_together_no_more_are_let_in_than_the_group_may_have(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    clients = _given_ids(coordinator, 6)
    joins = [join("g", f"m{number}") for number in range(6)]
    decisions = [coordinator.ask(client, request) for client, request in zip(clients, joins, strict=True)]
    assert [decision is PASS for decision in decisions] == [True, True, False, False, False, False]
    assert response_of(decisions[2], joins[2]).error_code is ErrorCode.group_max_size_reached
    for number in range(2):
        coordinator.admit(clients[number], joins[number], f"m{number}", generation=1, leads=("m0", "m1")[: 2 - number])
    assert isinstance(coordinator.ask(clients[2], joins[2]), Answer)
    assert [coordinator.ask(clients[number], joins[number]) for number in range(2)] == [PASS, PASS]


def test_who_joins_again_before_there_is_an_answer_is_counted_once(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    _given_ids(coordinator, 2)
    for member_id in ("m0", "m0", "m1", "m0"):
        assert coordinator.ask(FakeClient(), join("g", member_id)) is PASS
    assert isinstance(coordinator.ask(FakeClient(), join("g", "m2")), Answer)


def test_joins_that_one_client_sends_at_once_are_all_counted(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    client = FakeClient()
    assert [coordinator.ask(client, join("g", version=3)) for _ in range(2)] == [PASS, PASS]
    assert isinstance(coordinator.ask(client, join("g", version=3)), Answer)


def test_who_the_coordinator_refuses_or_who_goes_makes_room_for_the_next(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("1"),))
    (client,) = _given_ids(coordinator, 1)
    assert coordinator.ask(client, join("g", "m0")) is PASS
    assert isinstance(coordinator.ask(FakeClient(), join("g", "m1")), Answer)
    coordinator.answer(client, join("g", "m0"), error_code=ErrorCode.unknown_member_id, protocol_name="")
    assert coordinator.ask(client, join("g", "m1")) is PASS
    coordinator.observer.on_closed(client)
    assert coordinator.ask(FakeClient(), join("g", "m2")) is PASS


def test_a_static_member_that_returns_needs_no_room(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("1"),))
    coordinator.join_and_answer(FakeClient(), "g", "a-1", generation=1, leads=("a-1",), group_instance_id="a")
    assert coordinator.ask(FakeClient(), join("g", group_instance_id="a")) is PASS
    assert isinstance(coordinator.ask(FakeClient(), join("g", group_instance_id="b")), Answer)


def test_a_limit_for_some_groups_goes_before_the_one_for_all(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("1"), parse_size("2:big-.*")))
    for group_id, is_let_in in (("g", False), ("big-g", True)):
        _grow(coordinator, 1, group_id)
        assert isinstance(coordinator.ask(FakeClient(), join(group_id)), Pass) is is_let_in


def test_a_heartbeat_that_joins_a_full_group_of_the_newer_protocol_is_refused(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("1"),))
    coordinator.answer(FakeClient(), joining_beat("g", "a"), member_id="a", member_epoch=1, assignment=None)
    assert isinstance(coordinator.ask(FakeClient(), joining_beat("g", "a", member_epoch=1)), Pass)
    refused = response_of(coordinator.ask(FakeClient(), joining_beat("g", "b")), joining_beat("g", "b"))
    assert refused.error_code is ErrorCode.group_max_size_reached


def test_a_heartbeat_that_joins_counts_while_it_is_on_its_way_and_no_longer(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    first, second, third = FakeClient(), FakeClient(), FakeClient()
    for client, member_id in ((first, "a"), (second, "b"), (second, "b")):
        assert isinstance(coordinator.ask(client, joining_beat("g", member_id)), Pass)
    assert isinstance(coordinator.ask(third, joining_beat("g", "c")), Answer)
    assert isinstance(coordinator.ask(third, join("g")), Answer)
    refusal: Any = {"member_id": "a", "assignment": None, "error_code": ErrorCode.not_coordinator}
    coordinator.answer(first, joining_beat("g", "a"), **refusal)
    assert isinstance(coordinator.ask(third, joining_beat("g", "c")), Pass)
    coordinator.observer.on_closed(second)
    assert isinstance(coordinator.ask(first, joining_beat("g", "a")), Pass)
    coordinator.answer(third, joining_beat("g", "c"), member_id="c", member_epoch=1, assignment=None)
    coordinator.answer(first, joining_beat("g", "a"), member_id="a", member_epoch=2, assignment=None)
    assert isinstance(coordinator.ask(second, joining_beat("g", "b")), Answer)
    assert isinstance(coordinator.ask(third, joining_beat("g", "c")), Pass), "who is a member may join again"


def test_heartbeats_that_join_together_are_as_many_rebalances(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("2/1m"),))
    decisions = [coordinator.ask(FakeClient(), joining_beat("g", f"m{number}")) for number in range(4)]
    assert [isinstance(decision, Pass) for decision in decisions] == [True, True, False, False]


def test_a_full_classic_group_takes_no_member_of_the_newer_protocol_nor_the_other_way_round(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, sizes=(parse_size("2"),))
    _grow(coordinator, 2)
    lost = joining_beat("g", "zz", member_epoch=7)
    refusal: Any = {"assignment": None, "error_code": ErrorCode.group_id_not_found}
    coordinator.answer(FakeClient(), lost, **refusal)
    for request in (joining_beat("g", "b"), join("g"), join("g", "m9")):
        assert isinstance(coordinator.ask(FakeClient(), request), Answer)


def _rebalance(coordinator: Coordinator, client: FakeClient, generation: int) -> None:
    coordinator.beat(client, "g", "m0", generation=generation - 1, error_code=ErrorCode.rebalance_in_progress)
    coordinator.join_and_answer(client, "g", "m0", generation=generation, leads=("m0",))
    coordinator.sync(client, "g", "m0", generation=generation)


def test_a_group_that_rebalances_too_often_lets_nobody_in_until_it_has_been_quiet(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("3/1m"),))
    (client,) = _grow(coordinator, 1)
    for generation in (2, 3):
        assert coordinator.ask(FakeClient(), join("g")) is PASS
        _rebalance(coordinator, client, generation)
    refused = response_of(coordinator.ask(FakeClient(), join("g")), join("g"))
    assert refused.error_code is ErrorCode.coordinator_load_in_progress
    assert refused.throttle_time == timedelta(seconds=1)
    clock.pass_time(61)
    assert coordinator.ask(FakeClient(), join("g")) is PASS


def test_members_that_only_join_again_are_not_held_up_by_the_rate(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("1/1m"),))
    (client,) = _grow(coordinator, 1)
    assert isinstance(coordinator.ask(FakeClient(), join("g")), Answer)
    assert coordinator.ask(client, join("g", "m0")) is PASS


def test_one_is_told_as_one_and_a_span_of_time_as_it_was_given(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    for rules in ({"sizes": (parse_size("1"),)}, {"rates": (parse_rate("1/20s"),)}, {"sizes": (parse_size("2"),)}):
        coordinator = _guarded_coordinator(clock, **rules)
        _grow(coordinator, 2 if rules == {"sizes": (parse_size("2"),)} else 1)
        assert isinstance(coordinator.ask(FakeClient(), join("g")), Answer)
    assert [record.getMessage().partition(" why=")[2] for record in caplog.records] == [
        "'the group has 1 member, 1 is allowed'",
        "'the group has rebalanced 1 time in 20s, 1 is allowed'",
        "'the group has 2 members, 2 are allowed'",
    ]


def test_the_rebalance_that_a_new_member_begins_counts_as_soon_as_it_joins(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("3/1m"),))
    (client,) = _grow(coordinator, 1)
    first = join("g")
    new = FakeClient()
    assert coordinator.ask(new, first) is PASS
    coordinator.give_id(new, first, "m9")
    _rebalance(coordinator, client, 2)
    assert coordinator.ask(FakeClient(), join("g")) is PASS
    assert coordinator.ask(new, join("g", "m9")) is PASS
    assert isinstance(coordinator.ask(FakeClient(), join("g")), Answer)


def test_who_was_given_an_id_is_held_to_the_rate_when_it_joins_with_it(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("1/1m"),))
    clients = _given_ids(coordinator, 3)
    joins = [join("g", f"m{number}") for number in range(3)]
    assert coordinator.ask(clients[0], joins[0]) is PASS
    refused = response_of(coordinator.ask(clients[1], joins[1]), joins[1])
    assert refused.error_code is ErrorCode.coordinator_load_in_progress
    coordinator.admit(clients[0], joins[0], "m0", generation=1, leads=("m0",))
    assert isinstance(coordinator.ask(clients[1], joins[1]), Answer)
    clock.pass_time(61)
    assert coordinator.ask(clients[1], joins[1]) is PASS, "before the generation of before is complete"
    assert isinstance(coordinator.ask(clients[2], joins[2]), Answer), "as the rebalance has begun"


def test_a_member_that_leaves_and_comes_back_at_once_does_not_slip_in_while_the_others_join(clock: Clock) -> None:
    coordinator = _guarded_coordinator(clock, rates=(parse_rate("2/1m"),))
    clients = _grow(coordinator, 2)
    coordinator.leave(clients[1], "g", "m1")
    assert isinstance(coordinator.ask(clients[1], join("g")), Answer)


# The log


def test_a_client_that_asks_again_and_again_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    guard = GuardInterceptor(GuardRules(denied=(parse_rule("groups:bad\n.*"),)), GroupObserver(clock), clock)
    client = FakeClient(client_id="an app", principal="User:alice")
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            guard.request(client, join("bad\ngroup"))
        clock.pass_time(61)
        guard.request(client, join("bad\ngroup"))
    expected = (
        "refused api=JoinGroup reason=denied group='bad\\ngroup' peer=10.0.0.7:5555 client='an app' "
        "principal=User:alice why='refused by the proxy: denied'"
    )
    assert caplog.messages == [expected, f"{expected} unsaid=4"]
    assert guard.refusals == {("denied", "JoinGroup"): 6}
