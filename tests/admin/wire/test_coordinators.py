"""Coordinators of which the cluster reports too few or too many, or that cannot be reached."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kcoord.admin.retry import Attempt
from kcoord.admin.wire import apis
from kcoord.admin.wire.brokers import ApiResponse, Brokers
from kcoord.admin.wire.cluster import WireCluster
from kcoord.admin.wire.coordinators import Coordinators, GroupQuery, Groups
from kcoord.admin.wire.groups import describe_groups
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.support.admin.fake_cluster import connection

from ...support.admin.scripted_broker import ScriptedBroker

NOT_AVAILABLE = ErrorCode.coordinator_not_available


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.answers[ApiKey.DESCRIBE_GROUPS] = lambda request: {
            "groups": [described(name) for name in request.groups]
        }
        yield broker


@pytest.fixture
def brokers(broker: ScriptedBroker) -> Iterator[Brokers]:
    brokers = Brokers(connection(broker.address))
    yield brokers
    brokers.close()


def described(name: str) -> dict[str, Any]:
    return {
        "group_id": name,
        "error_code": ErrorCode.none,
        "group_state": "Empty",
        "protocol_type": "consumer",
        "protocol_data": "",
        "members": (),
    }


def ask(brokers: Brokers, groups: Groups) -> Attempt[str, bool]:
    """Makes one attempt, without retries."""

    def fields(chunk: Groups) -> Mapping[str, Any]:
        return {"groups": chunk}

    def read(answer: ApiResponse, _: Groups, attempt: Attempt[str, bool]) -> None:
        attempt.found |= {each.group_id: True for each in answer.response.groups}

    attempt: Attempt[str, bool] = Attempt()
    Coordinators(brokers).ask(groups, GroupQuery(attempt, apis.DESCRIBE_GROUPS, fields, read, 100))
    return attempt


def test_a_group_whose_coordinator_is_left_out_is_refused(broker: ScriptedBroker, brokers: Brokers) -> None:
    broker.answers[ApiKey.FIND_COORDINATOR] = lambda _: {
        "coordinators": [broker.coordinator(key) for key in ("a", "other")]
    }
    attempt = ask(brokers, ["a", "b"])
    assert attempt.found == {"a": True}
    assert {group: refusal.error for group, refusal in attempt.refused.items()} == {"b": NOT_AVAILABLE}


def test_a_coordinator_that_leaves_groups_out_and_names_others_is_taken_by_its_word_for_none(
    broker: ScriptedBroker, brokers: Brokers
) -> None:
    broker.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [described("a"), described("stranger")]}
    answers = describe_groups(brokers, Coordinators(brokers), ["a", "b"], timeout=0)
    assert list(answers.found) == ["a"]
    assert [str(refusal) for refusal in answers.refused] == [
        "group b: UNKNOWN_SERVER_ERROR (its coordinator, broker 1: does not tell of it)"
    ]


def test_coordinators_on_new_brokers_are_looked_up_together(broker: ScriptedBroker, brokers: Brokers) -> None:
    names = [f"group-{number}" for number in range(20)]
    with ScriptedBroker(node_id=2) as newcomer:
        newcomer.answers[ApiKey.DESCRIBE_GROUPS] = broker.answers[ApiKey.DESCRIBE_GROUPS]
        broker.brokers[2] = (newcomer.host, newcomer.port)
        broker.answers[ApiKey.FIND_COORDINATOR] = lambda request: {
            "coordinators": [broker.coordinator(key, node=2) for key in request.coordinator_keys]
        }
        before = broker.asked[ApiKey.METADATA]
        attempt = ask(brokers, names)
    assert attempt.found.keys() == set(names)
    assert not attempt.refused
    assert broker.asked[ApiKey.METADATA] - before == 1


def test_what_was_found_stands_when_nobody_answers_any_more(broker: ScriptedBroker, brokers: Brokers) -> None:
    loading = ErrorCode.coordinator_load_in_progress

    def describe_and_die(_: Any) -> Mapping[str, Any]:
        broker.answers[ApiKey.METADATA] = lambda _: None
        return {"groups": [described("a"), described("b") | {"error_code": loading}]}

    broker.answers[ApiKey.DESCRIBE_GROUPS] = describe_and_die
    answers = describe_groups(brokers, Coordinators(brokers), ["a", "b"], timeout=0)
    assert list(answers.found) == ["a"]
    assert [refusal.error for refusal in answers.refused] == [loading]


def test_who_has_listed_a_group_is_asked_for_it_and_if_it_has_moved_on_its_new_coordinator(
    broker: ScriptedBroker, brokers: Brokers
) -> None:
    def describe(request: Any) -> Mapping[str, Any]:
        moved = {"error_code": ErrorCode.not_coordinator} if not broker.asked[ApiKey.FIND_COORDINATOR] else {}
        return {"groups": [described(name) | (moved if name == "moved" else {}) for name in request.groups]}

    broker.answers[ApiKey.DESCRIBE_GROUPS] = describe
    coordinators = Coordinators(brokers)
    coordinators.learn({"stays": 1, "moved": 1})
    assert describe_groups(brokers, coordinators, ["stays"], timeout=0).found.keys() == {"stays"}
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 0

    assert describe_groups(brokers, coordinators, ["stays", "moved"], timeout=60).found.keys() == {"stays", "moved"}
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 1


# A coordinator request along with the bootstrap request


@pytest.fixture
def default_commits(broker: ScriptedBroker) -> None:
    broker.answers[ApiKey.OFFSET_FETCH] = lambda request: {
        "groups": [committed(each.group_id) for each in request.groups]
    }


@pytest.mark.usefixtures("default_commits")
def test_the_coordinator_of_a_group_is_asked_for_together_with_who_is_there(broker: ScriptedBroker) -> None:
    cluster = WireCluster(connection(broker.address), about=["a"])
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 1
    assert cluster.describe_with_commits(["a"])[0].found.keys() == {"a"}
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 1
    cluster.close()


@pytest.mark.usefixtures("default_commits")
@pytest.mark.parametrize("odd", [{"error_code": NOT_AVAILABLE, "node_id": -1}, {"node_id": 7}], ids=["none", "unknown"])
def test_where_none_is_told_then_it_is_asked_for_again(broker: ScriptedBroker, odd: dict[str, Any]) -> None:
    default_answer = broker.answers[ApiKey.FIND_COORDINATOR]
    early: dict[str, Any] = {"error_code": ErrorCode.none, "host": "", "port": 0} | odd
    broker.answers[ApiKey.FIND_COORDINATOR] = lambda request: (
        early if hasattr(request, "key") else default_answer(request)
    )
    cluster = WireCluster(connection(broker.address), about=["a"])
    assert cluster.describe_with_commits(["a"])[0].found.keys() == {"a"}
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 2
    cluster.close()


@pytest.mark.usefixtures("default_commits")
def test_a_broker_that_cannot_be_asked_so_early_is_asked_later(broker: ScriptedBroker) -> None:
    broker.oldest[ApiKey.FIND_COORDINATOR] = 1
    cluster = WireCluster(connection(broker.address), about=["a"])
    assert broker.asked[ApiKey.FIND_COORDINATOR] == 0
    assert cluster.describe_with_commits(["a"])[0].found.keys() == {"a"}
    cluster.close()


# Commits, requested along with the groups


def committed(name: str) -> dict[str, Any]:
    line = {"partition_index": 0, "committed_offset": 7, "metadata": "", "error_code": ErrorCode.none}
    return {"group_id": name, "error_code": ErrorCode.none, "topics": [{"name": "orders", "partitions": [line]}]}


def test_what_groups_have_committed_is_not_asked_for_again_where_it_was_told_beside_them(
    broker: ScriptedBroker,
) -> None:
    broker.answers[ApiKey.OFFSET_FETCH] = lambda request: {
        "groups": [committed(each.group_id) for each in request.groups]
    }
    cluster = WireCluster(connection(broker.address))
    described, commits = cluster.describe_with_commits(["a", "b"])
    assert described.found.keys() == commits.found.keys() == {"a", "b"}
    assert (broker.asked[ApiKey.DESCRIBE_GROUPS], broker.asked[ApiKey.OFFSET_FETCH]) == (1, 1)
    cluster.close()


def test_commits_that_were_refused_for_now_are_asked_for_again(broker: ScriptedBroker) -> None:
    loading = {"error_code": ErrorCode.coordinator_load_in_progress, "topics": ()}

    def fetch(request: Any) -> Mapping[str, Any]:
        is_first = broker.asked[ApiKey.OFFSET_FETCH] == 1
        return {"groups": [committed(each.group_id) | (loading if is_first else {}) for each in request.groups]}

    broker.answers[ApiKey.OFFSET_FETCH] = fetch
    cluster = WireCluster(connection(broker.address))
    _, commits = cluster.describe_with_commits(["a", "b"])
    assert commits.found.keys() == {"a", "b"}
    assert not commits.refused
    assert (broker.asked[ApiKey.DESCRIBE_GROUPS], broker.asked[ApiKey.OFFSET_FETCH]) == (1, 2)
    cluster.close()


def test_of_a_group_that_cannot_be_described_no_commits_are_told(broker: ScriptedBroker) -> None:
    denied = {"error_code": ErrorCode.group_authorization_failed}
    broker.answers[ApiKey.DESCRIBE_GROUPS] = lambda _: {"groups": [described("a"), described("b") | denied]}
    broker.answers[ApiKey.OFFSET_FETCH] = lambda request: {
        "groups": [committed(each.group_id) for each in request.groups]
    }
    cluster = WireCluster(connection(broker.address))
    groups, commits = cluster.describe_with_commits(["a", "b"])
    assert groups.found.keys() == commits.found.keys() == {"a"}
    assert [refusal.error for refusal in groups.refused] == [ErrorCode.group_authorization_failed]
    assert not commits.refused
    cluster.close()
