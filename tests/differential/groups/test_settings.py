"""Groups with other settings: an initial delay, and a retention that is checked every second."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.testing.cluster import Cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.differential.conftest import NewGroupPair
from tests.differential.groups.support.group_clusters import KAFKA_SETTINGS, SETTINGS, GroupCluster
from tests.differential.groups.support.group_pair import GroupPair, parked
from tests.differential.groups.support.group_requests import (
    Group,
    MemberId,
    Profile,
    committed,
    fetch_of,
    leave_of,
    subscription,
)
from tests.differential.groups.support.group_sequences import TOPICS
from tests.differential.groups.support.group_side import GroupSide
from tests.support.differential.pair import wait_until

ORDERS, PAYMENTS = TOPICS
OURS = Group()
A_MOMENT = timedelta(seconds=5)  # longer than the steps take during which nothing may be removed yet

OTHER_SETTINGS = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": "3000",
    "offsets.retention.check.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def clusters(
    kafka_cluster_factory: Callable[..., Cluster], kcoord_cluster_factory: Callable[..., EmbeddedCluster]
) -> Iterator[tuple[GroupCluster, GroupCluster]]:
    kafka = kafka_cluster_factory(properties={**OTHER_SETTINGS, **KAFKA_SETTINGS})
    kcoord = kcoord_cluster_factory(settings=OTHER_SETTINGS)
    yield GroupCluster.at(kafka.bootstrap), GroupCluster.at(kcoord.bootstrap)
    kafka.stop()
    kcoord.stop()


@pytest.fixture
def new_groups(clusters: tuple[GroupCluster, GroupCluster]) -> Iterator[NewGroupPair]:
    made: list[GroupPair] = []

    def new(*actors: Profile) -> GroupPair:
        sides = [cluster.side() for cluster in clusters]
        for side in sides:
            side.patience = 0.0  # a join phase does not end at once here
        made.append(GroupPair(sides[0], sides[1], actors))
        return made[-1]

    yield new
    for pair in made:
        pair.delete_groups()


def test_only_a_group_that_was_empty_waits_for_more_members(new_groups: NewGroupPair) -> None:
    pair = new_groups(Profile(), Profile(), Profile(instance_id="static"), Profile())
    assert pair.join(0, 3) is parked
    assert pair.join(1, 3) is parked
    assert pair.join(2, 9) is parked
    answers = pair.wait_for_all()
    assert [answer["generation_id"] for answer in answers.values()] == [1, 1, 1]
    assert [len(answer["members"]) for answer in answers.values()] == [3, 0, 0]
    assert pair.join(3, 3) is parked
    assert pair.join(1, 3, MemberId(1)) is parked
    assert pair.join(2, 9, MemberId(2)) is parked
    assert pair.join(0, 3, MemberId(0))["generation_id"] == 2


def test_a_group_that_is_emptied_while_it_waits(new_groups: NewGroupPair) -> None:
    pair = new_groups(Profile(instance_id="static"), Profile())
    assert pair.join(0, 9) is parked
    waiting = len(pair.taken)
    pair.ask(1, ApiKey.LEAVE_GROUP, 5, **leave_of(OURS, ("", "static")))
    assert pair.came[waiting]["error_code"] == "unknown_member_id"
    assert pair.join(1, 3) is parked
    (answer,) = pair.wait_for_all().values()
    assert len(answer["members"]) == 1


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offsets_may_be_committed_for_a_while(new_groups: NewGroupPair, version: int) -> None:
    """Their group is removed with the last of them."""
    pair = new_groups(Profile())
    for topic, retention in ((ORDERS, A_MOMENT), (PAYMENTS, timedelta(hours=1))):
        topics = [committed(topic, {0: 7})]
        pair.ask(0, ApiKey.OFFSET_COMMIT, version, **_alone(OURS), topics=topics, retention_time=retention)
        pair.ask(0, ApiKey.OFFSET_COMMIT, version, **_alone(Group(1)), topics=topics[:1], retention_time=A_MOMENT)
    for side in (pair.kafka, pair.kcoord):
        _wait_until_offset_is_gone(side, OURS, ORDERS)
        _wait_until_group_is_gone(side, Group(1))
    fetched = pair.ask(
        0, ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": group, "topics": None} for group in (OURS, Group(1))]
    )
    assert [topic["name"] for topic in fetched["groups"][0]["topics"]] == [PAYMENTS]


def test_offsets_of_topics_in_use_do_not_expire(new_groups: NewGroupPair) -> None:
    pair = new_groups(Profile(protocols=[("range", subscription(ORDERS))]))
    assert pair.join(0, 3) is parked
    pair.wait_for_all()
    pair.sync(0, 5)
    topics = [committed(topic, {0: 7}) for topic in TOPICS]
    pair.ask(0, ApiKey.OFFSET_COMMIT, 4, **pair.actors[0].as_member(0, topics=topics, retention_time=A_MOMENT))
    for side in (pair.kafka, pair.kcoord):
        _wait_until_offset_is_gone(side, OURS, PAYMENTS)
    fetched = pair.ask(0, ApiKey.OFFSET_FETCH, 9, **fetch_of(OURS, None))
    assert [topic["name"] for topic in fetched["groups"][0]["topics"]] == [ORDERS]


def test_empty_groups_that_never_had_offsets_go(new_groups: NewGroupPair) -> None:
    pair = new_groups(Profile())
    pair.join(0, 9)
    for side in (pair.kafka, pair.kcoord):
        _wait_until_group_is_gone(side, OURS)
    assert pair.join(0, 9, MemberId(0))["error_code"] == "unknown_member_id"


def _alone(group: Group) -> dict[str, object]:
    return {"group_id": group, "member_id": "", "generation_id_or_member_epoch": -1}


def _wait_until_offset_is_gone(side: GroupSide, group: Group, topic: str) -> None:
    with Client(*side.address) as client:
        asked = side.memory.resolved(fetch_of(group, {topic: [0]}))
        wait_until(lambda: client.ask(ApiKey.OFFSET_FETCH, 7, **asked).topics[0].partitions[0].committed_offset < 0)


def _wait_until_group_is_gone(side: GroupSide, group: Group) -> None:
    with Client(*side.address) as client:
        asked = side.memory.resolved([group])
        wait_until(lambda: client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=asked).groups[0].group_state == "Dead")
