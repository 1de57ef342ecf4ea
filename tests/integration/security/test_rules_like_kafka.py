"""Every API that is served, requested by users with all kinds of rights: kcoord with rules answers as Kafka with ACLs.

Answers are compared as a whole, except for ids, times and texts. Every user requests every API in its newest version,
and one user also in its oldest; with KCOORD_TEST_VERSIONS=all every user requests all of them.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from kcoord.api.table import SERVED
from kcoord.api_keys import ApiKey
from tests.integration.security.rules_clusters import (
    ONE_PARTITION,
    TOPICS,
    USERS,
    ClusterPair,
    UserPair,
    rules_clusters,
)
from tests.support.differential.pair import (
    session_id,
    topic_id,
    unknown_id,
)
from tests.support.differential.samples import batch, fetch, fetched, forgotten, offsets_asked, produced

TOPIC, BROKER, GROUP = 2, 4, 32
ASKED_FOR: Final = (*TOPICS, "absent")
Versions = Callable[[int], Sequence[int]]
GROUPS: Final = ("shop", "elsewhere", "nothing")
ASKS_IN_ALL: Final = os.environ.get("KCOORD_TEST_VERSIONS") == "all"


@pytest.fixture(scope="module")
def clusters(java_tools: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    with rules_clusters(tmp_path_factory.mktemp("rules")) as clusters:
        clusters.admin.create(*TOPICS, partitions=2)
        clusters.admin.create(*(f"doomed-{user}" for user in USERS), *(f"numbered-{user}" for user in USERS))
        clusters.admin.ask(ApiKey.PRODUCE, 9, acks=1, topic_data=[produced(topic, {0: batch(3)}) for topic in TOPICS])
        yield clusters


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def versions(user: str) -> Versions:
    """Returns the versions of an API to test; only the user with the most differences requests the oldest."""

    def chosen(api_key: int) -> Sequence[int]:
        served = SERVED[api_key].versions
        if ASKS_IN_ALL:
            return served
        return sorted({served[0], served[-1]}) if user == "family" else served[-1:]

    return chosen


@pytest.fixture
def pair(clusters: ClusterPair, user: str) -> UserPair:
    return clusters.pair(user)


@pytest.fixture
def commits(clusters: ClusterPair, user: str) -> None:
    """Creates groups with offsets of all topics."""
    for group in (*GROUPS[:2], f"old-{user}"):
        commit(clusters.admin, 9, group)


def committed(topic: str, offset: int = 2) -> dict[str, Any]:
    lines = [{"partition_index": index, "committed_offset": offset} for index in (0, 1)]
    return {"name": topic, "topic_id": topic_id(topic), "partitions": lines}


def commit(pair: UserPair, version: int, group: str, *topics: str) -> Any:
    values = {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1}
    return pair.ask(ApiKey.OFFSET_COMMIT, version, **values, topics=[committed(topic) for topic in topics or TOPICS])


def asked(*topics: str) -> list[dict[str, Any]]:
    return [{"name": topic, "topic_id": topic_id(topic), "partition_indexes": [0, 7]} for topic in topics]


def test_members_are_let_do_the_same(pair: UserPair, versions: Versions) -> None:
    for group in GROUPS:
        unknown = {"group_id": group, "member_id": "nobody", "generation_id": 3}
        joining = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
        for version in versions(ApiKey.JOIN_GROUP):
            pair.ask(ApiKey.JOIN_GROUP, version, **unknown, **joining)
        for version in versions(ApiKey.SYNC_GROUP):
            pair.ask(ApiKey.SYNC_GROUP, version, **unknown, protocol_type="consumer", protocol_name="range")
            pair.ask(ApiKey.SYNC_GROUP, version, **unknown, protocol_type="consumer", protocol_name=None)
        for version in versions(ApiKey.HEARTBEAT):
            pair.ask(ApiKey.HEARTBEAT, version, **unknown)
        for version in versions(ApiKey.LEAVE_GROUP):
            pair.ask(ApiKey.LEAVE_GROUP, version, **unknown, members=[{"member_id": "nobody"}])


@pytest.mark.usefixtures("commits")
def test_offsets_of_groups_are_open_to_the_same(pair: UserPair, versions: Versions) -> None:
    for version in versions(ApiKey.OFFSET_COMMIT):
        for group in GROUPS[:2]:
            commit(pair, version, group, *ASKED_FOR)
            commit(pair, version, group, "orders")
            commit(pair, version, group, "hidden")
    for version in versions(ApiKey.OFFSET_FETCH):
        for group in GROUPS if version < 8 else ():
            pair.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=asked(*ASKED_FOR))
            if version >= 2:
                pair.ask(ApiKey.OFFSET_FETCH, version, group_id=group, topics=None)
        if version >= 8:
            some = [{"group_id": group, "topics": asked(*ASKED_FOR)} for group in GROUPS]
            pair.ask(
                ApiKey.OFFSET_FETCH, version, groups=[*some, *({"group_id": group, "topics": None} for group in GROUPS)]
            )
    for group in GROUPS:
        doomed = [{"name": topic, "partitions": [{"partition_index": 0}]} for topic in ASKED_FOR]
        pair.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=doomed)


@pytest.mark.usefixtures("commits")
def test_groups_are_shown_and_deleted_for_the_same(pair: UserPair, user: str, versions: Versions) -> None:
    for version in versions(ApiKey.DESCRIBE_GROUPS):
        for wants_operations in (False, True):
            pair.ask(
                ApiKey.DESCRIBE_GROUPS, version, groups=list(GROUPS), include_authorized_operations=wants_operations
            )
    for version in versions(ApiKey.LIST_GROUPS):
        pair.ask(ApiKey.LIST_GROUPS, version)
    for version in versions(ApiKey.FIND_COORDINATOR):
        for group in GROUPS if version < 4 else ():
            pair.ask(ApiKey.FIND_COORDINATOR, version, key=group, key_type=0)
        if version >= 4:
            pair.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=[*GROUPS, "shop"], key_type=0)
    for version in versions(ApiKey.DELETE_GROUPS):
        pair.ask(ApiKey.DELETE_GROUPS, version, groups_names=[f"old-{user}", "elsewhere", "nothing", "nothing"])


def test_records_are_open_to_the_same(pair: UserPair, user: str, versions: Versions) -> None:
    for version in versions(ApiKey.PRODUCE):
        pair.ask(ApiKey.PRODUCE, version, acks=1, topic_data=[produced(topic, {0: batch(1)}) for topic in ASKED_FOR])
        pair.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=[produced("hidden", {0: batch(1), 9: batch(1)})])
    everything = [fetched(topic, {0: 0, 9: 0}) for topic in ASKED_FOR]
    for version in versions(ApiKey.FETCH):
        pair.ask(ApiKey.FETCH, version, **fetch(*everything))
    for version in versions(ApiKey.LIST_OFFSETS):
        pair.ask(
            ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[offsets_asked(topic, [-1, -2]) for topic in ASKED_FOR]
        )
    for version in versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        lines = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in (0, 9)]
        topics = [{"topic": topic, "partitions": lines} for topic in ASKED_FOR]
        pair.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    for version in versions(ApiKey.DELETE_RECORDS):
        lines = [{"partition_index": index, "offset": 0} for index in (0, 9)]
        pair.ask(ApiKey.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": lines} for topic in ASKED_FOR])
    for version in versions(ApiKey.INIT_PRODUCER_ID):
        pair.ask(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, producer_id=-1, producer_epoch=-1)
        if user != "root":  # kcoord has no transactions, and refuses all of them like those that are not allowed
            pair.ask(ApiKey.INIT_PRODUCER_ID, version, transactional_id="shop", producer_id=-1, producer_epoch=-1)


def test_a_fetch_session_tells_each_time_what_may_not_be_read(pair: UserPair) -> None:
    for version in (7, 12, 13, 18) if ASKS_IN_ALL else (12, 18):  # by names and by ids
        opening = fetch(*(fetched(topic, {0: 0}) for topic in ("hidden", "orders")), session_epoch=0)
        pair.ask(ApiKey.FETCH, version, **opening)
        following = fetch(session_id=session_id(), session_epoch=1)
        pair.ask(ApiKey.FETCH, version, **following)
        changing = fetch(fetched("open", {0: 1}), session_id=session_id(), session_epoch=2)
        pair.ask(ApiKey.FETCH, version, **changing, forgotten_topics_data=[forgotten("hidden", [0])])


def test_topics_and_the_cluster_are_shown_to_the_same(
    pair: UserPair, clusters: ClusterPair, user: str, versions: Versions
) -> None:
    for version in versions(ApiKey.METADATA):
        flags = {
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
            "allow_auto_topic_creation": False,
        }
        pair.ask(ApiKey.METADATA, version, topics=[] if version == 0 else None, **flags)
        names = [*TOPICS, "new-absent", "new bad name", "__consumer_offsets"] if version >= 4 else TOPICS
        pair.ask(ApiKey.METADATA, version, topics=[{"name": name, "topic_id": None} for name in names], **flags)
        if version >= 12:
            ids = [{"name": None, "topic_id": topic_id(topic)} for topic in TOPICS]
            unknown = {"name": None, "topic_id": unknown_id}
            pair.ask(ApiKey.METADATA, version, topics=[*ids, unknown], allow_auto_topic_creation=False)
    for name in (f"new-auto-{user}", f"auto-{user}"):
        (line,) = pair.ask(ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=True)["topics"]
        if line["error_code"] == "unknown_topic_or_partition":
            clusters.admin.wait_for_topic(name)
    for version in versions(ApiKey.DESCRIBE_CLUSTER):
        for wants_operations in (False, True):
            pair.ask(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=wants_operations)


def test_topics_are_made_grown_and_deleted_by_the_same(pair: UserPair, user: str, versions: Versions) -> None:
    names = (f"new-{user}", "orders", "hidden", "new-twice", "new-twice", "new bad name", "__cluster_metadata")
    new = [{"name": name, **ONE_PARTITION} for name in names]
    for version in versions(ApiKey.CREATE_TOPICS):
        pair.ask(ApiKey.CREATE_TOPICS, version, topics=new, validate_only=True)
    pair.ask(ApiKey.CREATE_TOPICS, 7, topics=new[:1])
    growths = [{"name": name, "count": 9, "assignments": None} for name in (*ASKED_FOR, "open", "absent")]
    for version in versions(ApiKey.CREATE_PARTITIONS):
        pair.ask(ApiKey.CREATE_PARTITIONS, version, topics=growths, validate_only=True)
    for version in range(1, 6) if ASKS_IN_ALL else (5,):  # by names alone
        pair.ask(ApiKey.DELETE_TOPICS, version, topic_names=["hidden-absent", "absent", "absent-2", "absent-2"])
    doomed: list[dict[str, Any]] = [{"name": name, "topic_id": None} for name in (f"doomed-{user}", "absent")]
    doomed += [{"name": None, "topic_id": topic_id(name)} for name in (f"numbered-{user}", "absent")]
    pair.ask(ApiKey.DELETE_TOPICS, 6, topics=[*doomed, {"name": "both", "topic_id": unknown_id}])


def test_settings_are_shown_and_altered_for_the_same(pair: UserPair, user: str, versions: Versions) -> None:
    topics: list[dict[str, Any]] = [{"resource_type": TOPIC, "resource_name": topic} for topic in ASKED_FOR]
    broker = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": ["num.partitions"]}
    group: dict[str, Any] = {"resource_type": GROUP, "resource_name": "shop"}
    has_groups = user in ("family", "banned", "root")  # users who may describe group settings get an empty list
    for version in versions(ApiKey.DESCRIBE_CONFIGS):
        pair.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[*topics, broker, *([] if has_groups else [group])])
    change: dict[str, Any] = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
    altered: list[dict[str, Any]] = [{**topic, "configs": [change]} for topic in topics]
    altered += [{"resource_type": TOPIC, "resource_name": "twice", "configs": [change, change]}]
    altered += [{"resource_type": TOPIC, "resource_name": "null", "configs": [{**change, "value": None}]}]
    if not has_groups:
        altered += [{**group, "configs": [change]}]
    if user not in ("changer", "banned", "root"):
        altered += [
            {"resource_type": BROKER, "resource_name": "1", "configs": [{**change, "name": "log.retention.ms"}]}
        ]
    for version in versions(ApiKey.INCREMENTAL_ALTER_CONFIGS):
        pair.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=altered, validate_only=True)


def test_a_produce_without_an_answer_to_what_may_not_be_written_ends_the_connection(clusters: ClusterPair) -> None:
    pair = clusters.pair("reader")
    for side in (pair.kafka, pair.kcoord):
        values = side.resolved({"acks": 0, "topic_data": [produced("orders", {0: batch(1)})]})
        side.client.send(ApiKey.PRODUCE, 9, **values)
        assert side.raw(ApiKey.METADATA, 9, {"topics": []}) == "<the server hung up>"
