"""OffsetCommit, OffsetFetch and OffsetDelete in every version."""

import secrets
from datetime import timedelta
from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from tests.differential.conftest import NewGroupPair
from tests.differential.groups.support.group_pair import GroupPair, parked
from tests.differential.groups.support.group_requests import (
    VERSIONS,
    Generation,
    Group,
    MemberId,
    Profile,
    TopicId,
    committed,
    deleted,
    fetch_of,
    leave_of,
    subscription,
)
from tests.differential.groups.support.group_sequences import ABSENT, TOPICS
from tests.differential.groups.support.group_side import GroupSide
from tests.support.differential.pair import wait_until
from tests.support.differential.plain import Plain, learn_topics

ORDERS, PAYMENTS = TOPICS
COMMIT_VERSIONS, FETCH_VERSIONS = VERSIONS[ApiKey.OFFSET_COMMIT], VERSIONS[ApiKey.OFFSET_FETCH]
OURS = Group()
_timeout = timedelta(seconds=20)

ALONE: dict[str, Any] = {"member_id": "", "generation": -1, "group_instance_id": None}
"""The fields of a consumer that is not in a group, or of an admin client."""


def commit(pair: GroupPair, version: int, *topics: dict[str, Any], actor: int = 0, **changed: Any) -> Plain:
    values = pair.actors[actor].as_member(actor, **{"topics": list(topics) or [committed(ORDERS, {0: 7})], **changed})
    return pair.ask(actor, ApiKey.OFFSET_COMMIT, version, **values)


def fetch(pair: GroupPair, version: int, topics: dict[str, list[int]] | None, group: Any = OURS) -> Plain:
    return pair.ask(0, ApiKey.OFFSET_FETCH, version, **fetch_of(group, topics))


def verdicts(answer: Plain) -> list[str]:
    """Returns the errors of all partitions of an answer."""
    groups = answer.get("groups", [answer])
    topics = [topic for group in groups for topic in group["topics"]]
    return [partition["error_code"] for topic in topics for partition in topic["partitions"]]


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_who_is_in_no_group_commits_to_one_that_is_empty(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    everything = committed(ORDERS, {0: 7, 1: 0}), committed(PAYMENTS, {1: 2**62}, committed_leader_epoch=3)
    assert set(verdicts(commit(pair, version, *everything, **ALONE))) == {"none"}
    commit(pair, version, committed(ORDERS, {0: 3}, committed_metadata="later"), **ALONE)
    for fetch_version in FETCH_VERSIONS:
        fetch(pair, fetch_version, {ORDERS: [0, 1], PAYMENTS: [0, 1]})
        if fetch_version >= 2:
            fetch(pair, fetch_version, None)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_to_no_group_at_all(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    unknown = "group_id_not_found" if version >= 9 else "illegal_generation"
    for generation in (0, 1, 2**31 - 1):
        assert verdicts(commit(pair, version, member_id="me", generation=generation)) == [unknown]
    for wrong in ({"member_id": "me"}, {"group_instance_id": "mine"}, {"generation": -5}):
        commit(pair, version, **{**ALONE, **wrong, "group_id": Group(1)})
    commit(pair, version, **{**ALONE, "group_id": ""})
    assert verdicts(commit(pair, version, committed(ORDERS, {}), **ALONE)) == []
    pair.ask(0, ApiKey.OFFSET_COMMIT, version, **pair.actors[0].as_member(0, **ALONE, topics=[]))


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_member_commits_in_its_own_generation(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups(Profile(instance_id="instance"), Profile())
    pair.make_stable(0, 1)
    assert verdicts(commit(pair, version)) == ["none"]
    for generation in (Generation(0, 1), Generation(0, -1), -1):
        assert verdicts(commit(pair, version, generation=generation)) == ["illegal_generation"]
    assert verdicts(commit(pair, version, **ALONE)) == ["unknown_member_id"]
    for member_id in ("nobody", ""):
        fenced = "fenced_instance_id" if version >= 7 else "unknown_member_id"
        assert verdicts(commit(pair, version, member_id=member_id)) == [fenced]
        assert verdicts(commit(pair, version, member_id=member_id, generation=99)) == [fenced]
        assert verdicts(commit(pair, version, actor=1, member_id=member_id)) == ["unknown_member_id"]
    commit(pair, version, group_instance_id="nobody's")
    fetch(pair, 9, None)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_while_the_group_rebalances(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1)
    assert pair.join(0, 9, MemberId(0)) is parked
    assert verdicts(commit(pair, version, actor=1)) == ["none"]
    pair.join(1, 9, MemberId(1))
    assert verdicts(commit(pair, version, actor=1)) == ["rebalance_in_progress"]
    assert verdicts(commit(pair, version, actor=1, generation=Generation(1, -1))) == ["illegal_generation"]
    pair.ask(0, ApiKey.LEAVE_GROUP, 5, **leave_of(OURS, (MemberId(0), None), (MemberId(1), None)))
    assert verdicts(commit(pair, version, actor=1)) == ["unknown_member_id"]
    assert verdicts(commit(pair, version, **ALONE)) == ["none"]


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_each_partition_has_its_own_verdict(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    absent = committed(ABSENT, {0: 1, 5: 1})
    mixed = committed(ORDERS, {0: 1, 2: 1, -1: 1}), absent, committed(PAYMENTS, {1: 5})
    unknown = "unknown_topic_id" if version >= 10 else "unknown_topic_or_partition"
    assert verdicts(commit(pair, version, absent, **ALONE)) == [unknown] * 2
    assert verdicts(commit(pair, version, absent, member_id="me", generation=3)) == [unknown] * 2
    commit(pair, version, *mixed, member_id="me", generation=3)
    commit(pair, version, *mixed, **ALONE)
    commit(pair, version, committed(ORDERS, {0: 4}), committed(ORDERS, {0: 5, 1: 6}), **ALONE)
    commit(pair, version, committed("", {0: 4}), committed("bad name", {0: 4}), **ALONE)
    fetch(pair, 9, None)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_is_said_along_with_an_offset_is_kept_if_it_is_short(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    texts = [None, "", "mine", "ü" * 2048, "x" * 4096, "x" * 4097, "ü" * 2049, "\x00\x1b[31m"]
    for text in texts:
        line = committed(ORDERS, {0: 1}, committed_metadata=text), committed(PAYMENTS, {0: 2})
        commit(pair, version, *line, **ALONE)
        fetch(pair, 8, {ORDERS: [0], PAYMENTS: [0]})


@pytest.mark.parametrize("offset", [0, -1, -2, 2**63 - 1, -(2**63)])
def test_any_number_can_be_committed(new_groups: NewGroupPair, offset: int) -> None:
    pair = new_groups()
    for version in COMMIT_VERSIONS:
        commit(pair, version, committed(ORDERS, {0: offset}, committed_leader_epoch=offset % 7 - 3), **ALONE)
        fetch(pair, 7, {ORDERS: [0]})


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_what_was_never_committed_has_no_offset(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    asked = {ORDERS: [0, 1, 2, -1], ABSENT: [0, 3], "": [0]}
    fetch(pair, version, asked)
    fetch(pair, version, {})
    fetch(pair, version, {ORDERS: []})
    fetch(pair, version, asked, group="")
    commit(pair, 9, **ALONE)
    fetch(pair, version, asked)
    fetch(pair, version, {})
    if version >= 2:
        fetch(pair, version, None)
        fetch(pair, version, None, group=Group(1))


@pytest.mark.parametrize("version", range(8, 11))
def test_many_groups_are_asked_for_at_once(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    commit(pair, 9, committed(ORDERS, {0: 7}), committed(PAYMENTS, {1: 8}), **ALONE)
    named = fetch_of(OURS, {ORDERS: [0, 1]})["groups"][0]
    unknown = {"group_id": Group(1), "topics": named["topics"]}
    whole = {"group_id": OURS, "topics": None}
    for asked in ([named, unknown], [unknown, whole], [whole, whole], [named, whole, unknown, {"group_id": ""}], []):
        for is_stable in (True, False):
            pair.ask(0, ApiKey.OFFSET_FETCH, version, groups=asked, require_stable=is_stable)


@pytest.mark.parametrize("version", range(9, 11))
def test_who_asks_for_offsets_may_say_who_it_is(new_groups: NewGroupPair, version: int) -> None:
    """Classic groups ignore it."""
    pair = new_groups()
    pair.make_stable(0)
    commit(pair, 9)
    for member_id, epoch in ((None, -1), (MemberId(0), Generation(0)), (MemberId(0), 99), ("nobody", 1), ("", 0)):
        for is_stable in (True, False):
            values = fetch_of(OURS, None, member_id=member_id, member_epoch=epoch, require_stable=is_stable)
            pair.ask(0, ApiKey.OFFSET_FETCH, version, **values)


def test_offsets_are_deleted_where_nobody_uses_them(new_groups: NewGroupPair) -> None:
    pair = new_groups()
    unknown = pair.ask(0, ApiKey.OFFSET_DELETE, 0, group_id="", topics=[deleted(ABSENT, [0])])
    assert unknown["error_code"] == "invalid_group_id"
    unknown = pair.ask(0, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=[deleted(ABSENT, [0])])
    assert unknown["error_code"] == "group_id_not_found"
    commit(pair, 9, committed(ORDERS, {0: 1, 1: 2}), committed(PAYMENTS, {0: 3}), **ALONE)
    for topics in (
        [],
        [deleted(ORDERS, [])],
        [deleted(ORDERS, [0, 0, 5]), deleted(ABSENT, [0])],
        [deleted(ORDERS, [0])],
        [deleted(ORDERS, [1]), deleted(PAYMENTS, [0, 1])],
    ):
        pair.ask(0, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=topics)
        fetch(pair, 9, None)


CUT_OFF = [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", subscription(ORDERS)[:-3]]


@pytest.mark.parametrize("content", [subscription(ORDERS), subscription(ORDERS, version=0) + b"more", *CUT_OFF])
def test_offsets_of_topics_in_use_are_not_deleted(new_groups: NewGroupPair, content: bytes) -> None:
    """The topics of a malformed subscription are unknown."""
    pair = new_groups(Profile(protocols=[("range", content)]), Profile(protocols=[("range", subscription())]))
    doomed = [deleted(ORDERS, [0, 1]), deleted(PAYMENTS, [0]), deleted(ABSENT, [0])]
    pair.make_stable(0, 1)
    commit(pair, 9, committed(ORDERS, {0: 1}), committed(PAYMENTS, {0: 3}))
    pair.ask(0, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=doomed)
    assert pair.join(0, 9, MemberId(0)) is parked
    pair.ask(1, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=doomed)
    fetch(pair, 9, None)
    pair.ask(0, ApiKey.LEAVE_GROUP, 5, **leave_of(OURS, (MemberId(0), None), (MemberId(1), None)))
    pair.ask(1, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=doomed)
    fetch(pair, 9, None)


def test_a_group_of_another_trade_keeps_its_offsets_while_it_has_members(new_groups: NewGroupPair) -> None:
    pair = new_groups(Profile(protocol_type="connect", protocols=[("range", b"anything at all")]))
    pair.make_stable(0)
    commit(pair, 9)
    answer = pair.ask(0, ApiKey.OFFSET_DELETE, 0, group_id=OURS, topics=[deleted(ORDERS, [0])])
    assert answer["error_code"] == "non_empty_group"


def test_offsets_go_with_their_group(new_groups: NewGroupPair) -> None:
    pair = new_groups()
    commit(pair, 9, **ALONE)
    pair.ask(0, ApiKey.DELETE_GROUPS, 2, groups_names=[OURS])
    for version in FETCH_VERSIONS:
        fetch(pair, version, {ORDERS: [0]})


def test_offsets_go_with_their_topic(new_groups: NewGroupPair) -> None:
    pair, topic = new_groups(), f"group-{secrets.token_hex(4)}"
    for side in (pair.kafka, pair.kcoord):
        _make_topic(side, topic)
    commit(pair, 9, committed(topic, {0: 7}), committed(ORDERS, {0: 8}), **ALONE)
    fetch(pair, 10, {topic: [0]})
    for side in (pair.kafka, pair.kcoord):
        _delete_topic(side, topic)
        wait_until(lambda side=side: not _has_offset(side, topic))  # type: ignore[misc]
    fetch(pair, 9, None)
    fetch(pair, 10, {topic: [0]})
    for side in (pair.kafka, pair.kcoord):
        _make_topic(side, topic)
    for version in FETCH_VERSIONS:
        fetch(pair, version, {topic: [0]})
    commit(pair, 10, committed(topic, {0: 9}), **ALONE)
    fetch(pair, 10, {topic: [0]})


def _make_topic(side: GroupSide, topic: str) -> None:
    with Client(*side.address) as client:
        new = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        client.ask(ApiKey.CREATE_TOPICS, 7, topics=[new], timeout=_timeout)

        def metadata() -> Any:
            return client.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)

        wait_until(lambda: not metadata().topics[0].error_code)
        learn_topics(metadata(), side.memory.naming)


def _delete_topic(side: GroupSide, topic: str) -> None:
    with Client(*side.address) as client:
        client.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}], timeout=_timeout)


def _has_offset(side: GroupSide, topic: str) -> bool:
    with Client(*side.address) as client:
        answer = client.ask(ApiKey.OFFSET_FETCH, 7, **side.memory.resolved(fetch_of(OURS, {topic: [0]})))
        return bool(answer.topics[0].partitions[0].committed_offset >= 0)


def test_the_topics_of_an_offset_are_told_apart_by_id(new_groups: NewGroupPair) -> None:
    pair = new_groups()
    commit(pair, 10, committed(ORDERS, {0: 7}), **ALONE)
    both = [{"topic_id": TopicId(ORDERS), "partition_indexes": [0]}, {"topic_id": None, "partition_indexes": [0]}]
    for asked in (both, both[:1], both[1:], [both[0], both[0]]):
        pair.ask(0, ApiKey.OFFSET_FETCH, 10, groups=[{"group_id": OURS, "topics": asked}])
