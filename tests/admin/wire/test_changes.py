"""The outcomes of changes when brokers answer oddly: nothing counts as done that may not be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, MemberToRemove, TopicPartition
from kcoord.admin.wire.changes import PARTITIONS_PER_COMMIT
from kcoord.admin.wire.cluster import WireCluster
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.support.admin.scripted_broker import SPOKEN, Answer, ScriptedBroker

MINE: Final = {
    **SPOKEN,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.DELETE_GROUPS: 2,
}
PATIENCE: Final = 2.0  # short, since retries after a retriable error would never succeed

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOTH = {FIRST: Committed(5), SECOND: Committed(5)}


def spoken(_: Any) -> Mapping[str, Any]:
    keys = [{"api_key": key, "min_version": 0, "max_version": newest} for key, newest in MINE.items()]
    return {"error_code": ErrorCode.none, "api_keys": keys}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.answers[ApiKey.API_VERSIONS] = spoken
        yield broker


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[WireCluster]:
    cluster = WireCluster(Connection(bootstrap=(broker.address,), request_timeout=PATIENCE))
    yield cluster
    cluster.close()


def deleting(*results: tuple[str, ErrorCode]) -> Answer:
    return lambda _: {"results": [{"group_id": group, "error_code": error} for group, error in results]}


def committing(errors: Mapping[TopicPartition, ErrorCode]) -> Answer:
    """Answers a commit with these errors, and with none for other partitions."""

    def answer(request: Any) -> Mapping[str, Any]:
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": errors.get(TopicPartition(topic.name, each.partition_index), ErrorCode.none),
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    return answer


def test_a_group_that_nobody_answers_for_is_not_deleted(broker: ScriptedBroker, cluster: WireCluster) -> None:
    broker.answers[ApiKey.DELETE_GROUPS] = deleting(("a", ErrorCode.none))
    done = cluster.delete_groups(["a", "b"])
    assert done.found == {"a": ErrorCode.none, "b": ErrorCode.unknown_server_error}


def test_a_group_whose_coordinator_nobody_tells_is_not_deleted(broker: ScriptedBroker, cluster: WireCluster) -> None:
    broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: {"coordinators": [broker.coordinator("a")]}
    broker.answers[ApiKey.DELETE_GROUPS] = deleting(("a", ErrorCode.none))
    done = cluster.delete_groups(["a", "b"])
    assert done.found["a"] is ErrorCode.none
    assert done.found["b"] is not ErrorCode.none


def test_a_commit_for_a_group_whose_coordinator_nobody_tells_is_refused(
    broker: ScriptedBroker, cluster: WireCluster
) -> None:
    broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: {"coordinators": []}
    assert ErrorCode.none not in cluster.commit("g", BOTH).found.values()


def test_a_group_that_only_the_answer_names_is_never_asked_to_be_deleted(
    broker: ScriptedBroker, cluster: WireCluster
) -> None:
    asked: list[str] = []

    def answer(request: Any) -> Mapping[str, Any]:
        asked.extend(request.groups_names)
        return {
            "results": [
                {"group_id": "a", "error_code": ErrorCode.none},
                {"group_id": "precious", "error_code": ErrorCode.not_coordinator},
            ]
        }

    broker.answers[ApiKey.DELETE_GROUPS] = answer
    assert cluster.delete_groups(["a"]).found == {"a": ErrorCode.none}
    assert asked == ["a"]


def test_each_partition_has_the_error_of_its_own_in_the_last_answer(
    broker: ScriptedBroker, cluster: WireCluster
) -> None:
    broker.answers[ApiKey.OFFSET_COMMIT] = committing({SECOND: ErrorCode.coordinator_not_available})
    done = cluster.commit("g", BOTH)
    assert done.found == {FIRST: ErrorCode.none, SECOND: ErrorCode.coordinator_not_available}
    assert [refusal.what for refusal in done.refused] == ["group g, partition orders-1"]
    assert broker.asked[ApiKey.OFFSET_COMMIT] > 1


def test_a_partition_that_the_answer_leaves_out_is_refused(broker: ScriptedBroker, cluster: WireCluster) -> None:
    line = {"partition_index": 0, "error_code": ErrorCode.none}
    broker.answers[ApiKey.OFFSET_COMMIT] = lambda _: {"topics": [{"name": "orders", "partitions": [line]}]}
    assert cluster.commit("g", BOTH).found == {FIRST: ErrorCode.none, SECOND: ErrorCode.unknown_server_error}


def test_after_a_refusal_no_more_is_committed(broker: ScriptedBroker, cluster: WireCluster) -> None:
    many = {TopicPartition("orders", number): Committed(1) for number in range(PARTITIONS_PER_COMMIT + 2)}
    broker.answers[ApiKey.OFFSET_COMMIT] = committing({FIRST: ErrorCode.unknown_member_id})
    found = cluster.commit("g", many).found
    assert broker.asked[ApiKey.OFFSET_COMMIT] == 1
    assert found[FIRST] is ErrorCode.unknown_member_id
    assert [tp.partition for tp, error in found.items() if error is ErrorCode.operation_not_attempted] == [
        PARTITIONS_PER_COMMIT,
        PARTITIONS_PER_COMMIT + 1,
    ]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_members_that_an_answer_leaves_out_or_adds_do_no_harm(
    broker: ScriptedBroker, cluster: WireCluster, count: int
) -> None:
    members = [MemberToRemove(member_id="m1", instance_id=None), MemberToRemove(member_id="m2", instance_id=None)]
    line = {"member_id": "m", "group_instance_id": None, "error_code": ErrorCode.none}
    broker.answers[ApiKey.LEAVE_GROUP] = lambda _: {"error_code": ErrorCode.none, "members": [line] * count}
    found = cluster.remove_members("g", members, reason="test").found
    expected = [ErrorCode.none] * min(count, 2) + [ErrorCode.unknown_server_error] * (2 - min(count, 2))
    assert [found[member] for member in members] == expected


def offset(partition: int, offset: int, error: ErrorCode = ErrorCode.none) -> Mapping[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": error,
    }


def offsets(**topics: Sequence[Mapping[str, Any]]) -> Answer:
    fields = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
    return lambda _: {"groups": [{"group_id": "g", "topics": fields, "error_code": ErrorCode.none}]}


def test_partitions_of_which_nothing_is_committed_are_not_there(broker: ScriptedBroker, cluster: WireCluster) -> None:
    broker.answers[ApiKey.OFFSET_FETCH] = offsets(orders=[offset(0, -1), offset(1, 5)], paid=[offset(0, -1)], empty=[])
    commits = cluster.committed(["g"]).found["g"]
    assert commits == {SECOND: Committed(5)}
    assert [each.topic for each in commits.topics] == ["orders"]


def test_a_group_of_which_a_partition_cannot_be_told_is_refused(broker: ScriptedBroker, cluster: WireCluster) -> None:
    unknown = offset(1, -1, ErrorCode.unknown_topic_or_partition)
    broker.answers[ApiKey.OFFSET_FETCH] = offsets(orders=[offset(0, 5), unknown])
    answers = cluster.committed(["g"])
    assert answers.found == {}
    assert [str(refusal) for refusal in answers.refused] == [
        "group g: UNKNOWN_TOPIC_OR_PARTITION (what it has committed for orders-1 is not told)"
    ]
