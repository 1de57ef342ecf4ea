"""The cases of Kafka's RoundRobinAssignorTest, and of AbstractPartitionAssignorTest about the order of members."""

from random import Random
from typing import Final

import pytest

from kcoord.assignors.plan import Subscriber, in_member_order
from tests.assignors.vectors.vectors import Joining, PlanOf, Vector, case_of, normal, written

_BOTH: Final = "topic1 topic2"

CASES: Final = [
    Vector(
        test="testOneConsumerNoTopic",
        sizes={},
        members={"consumer": Joining(topics="")},
        plan={"consumer": ""},
    ),
    Vector(
        test="testOneConsumerNonexistentTopic",
        sizes={},
        members={"consumer": Joining(topics="topic")},
        plan={"consumer": ""},
    ),
    Vector(
        test="testOneConsumerOneTopic",
        sizes={"topic": 3},
        members={"consumer": Joining(topics="topic")},
        plan={"consumer": "topic:0-2"},
    ),
    Vector(
        test="testOnlyAssignsPartitionsFromSubscribedTopics",
        sizes={"topic": 3, "other": 3},
        members={"consumer": Joining(topics="topic")},
        plan={"consumer": "topic:0-2"},
    ),
    Vector(
        test="testOneConsumerMultipleTopics",
        sizes={"topic1": 1, "topic2": 2},
        members={"consumer": Joining(topics=_BOTH)},
        plan={"consumer": "topic1:0 topic2:0,1"},
    ),
    Vector(
        test="testTwoConsumersOneTopicOnePartition",
        sizes={"topic": 1},
        members={"consumer1": Joining(topics="topic"), "consumer2": Joining(topics="topic")},
        plan={"consumer1": "topic:0", "consumer2": ""},
    ),
    Vector(
        test="testTwoConsumersOneTopicTwoPartitions",
        sizes={"topic": 2},
        members={"consumer1": Joining(topics="topic"), "consumer2": Joining(topics="topic")},
        plan={"consumer1": "topic:0", "consumer2": "topic:1"},
    ),
    Vector(
        test="testMultipleConsumersMixedTopics",
        sizes={"topic1": 3, "topic2": 2},
        members={
            "consumer1": Joining(topics="topic1"),
            "consumer2": Joining(topics=_BOTH),
            "consumer3": Joining(topics="topic1"),
        },
        plan={"consumer1": "topic1:0", "consumer2": "topic1:1 topic2:0,1", "consumer3": "topic1:2"},
    ),
    Vector(
        test="testTwoDynamicConsumersTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={"consumer1": Joining(topics=_BOTH), "consumer2": Joining(topics=_BOTH)},
        plan={"consumer1": "topic1:0,2 topic2:1", "consumer2": "topic1:1 topic2:0,2"},
    ),
    Vector(
        test="testTwoStaticConsumersTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={
            "consumer-b": Joining(topics=_BOTH, instance_id="instance1"),
            "consumer-a": Joining(topics=_BOTH, instance_id="instance2"),
        },
        plan={"consumer-b": "topic1:0,2 topic2:1", "consumer-a": "topic1:1 topic2:0,2"},
    ),
    Vector(
        test="testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={
            "consumer-b": Joining(topics=_BOTH, instance_id="instance1"),
            "consumer-a": Joining(topics=_BOTH),
        },
        plan={"consumer-b": "topic1:0,2 topic2:1", "consumer-a": "topic1:1 topic2:0,2"},
    ),
    *(
        Vector(
            test=f"testStaticMemberRoundRobinAssignmentPersistent, {dynamic} is dynamic",
            sizes={"topic1": 3, "topic2": 3},
            members={
                "consumer1": Joining(topics=_BOTH, instance_id="instance1"),
                "consumer2": Joining(topics=_BOTH, instance_id="instance2"),
                "consumer3": Joining(topics=_BOTH, instance_id="instance3"),
                dynamic: Joining(topics=_BOTH),
            },
            plan={
                "consumer1": "topic1:0 topic2:1",
                "consumer2": "topic1:1 topic2:2",
                "consumer3": "topic1:2",
                dynamic: "topic2:0",
            },
        )
        for dynamic in ("consumer4", "consumer5")
    ),
    *(
        Vector(
            test=f"testStaticMemberRoundRobinAssignmentPersistentAfterMemberIdChanges, {second} and {third}",
            sizes={"topic1": 5, "topic2": 5},
            members={
                "consumer1": Joining(topics=_BOTH, instance_id="instance1"),
                second: Joining(topics=_BOTH, instance_id="instance2"),
                third: Joining(topics=_BOTH, instance_id="instance3"),
            },
            plan={
                "consumer1": "topic1:0,3 topic2:1,4",
                second: "topic1:1,4 topic2:2",
                third: "topic1:2 topic2:0,3",
            },
        )
        for second, third in (("consumer2", "consumer3"), ("consumer5", "consumer4"))
    ),
]


@pytest.mark.parametrize("vector", CASES, ids=str)
def test_the_plan_is_that_of_kafkas_test(plan_of: PlanOf, vector: Vector) -> None:
    assert written(plan_of(case_of("roundrobin", vector.sizes, vector.members))) == normal(vector.plan)


@pytest.mark.parametrize(
    ("instances", "order"),
    [
        ({"a": None, "b": None, "c": None}, "abc"),
        ({"a": "y", "b": "z", "c": "x"}, "cab"),
        ({"a": None, "b": "y", "c": "x"}, "cba"),
    ],
)
def test_static_members_are_sorted_before_others(instances: dict[str, str | None], order: str) -> None:
    """testMemberInfoSortingWithoutGroupInstanceId, testMemberInfoSortingWithAllGroupInstanceId and
    testMemberInfoSortingSomeGroupInstanceId"""
    assert "".join(_sorted(instances)) == order


def test_many_members_are_sorted() -> None:
    """testMergeSortManyMemberInfo"""
    rng = Random(7)
    ids = [str(number) for number in range(100, 200)]
    static = set(rng.sample(ids, 50))
    members = {each: each if each in static else None for each in rng.sample(ids, len(ids))}
    assert _sorted(members) == sorted(static) + [each for each in ids if each not in static]


def _sorted(instances: dict[str, str | None]) -> list[str]:
    members = [Subscriber(member_id=each, topics=(), instance_id=instance) for each, instance in instances.items()]
    return [each.member_id for each in in_member_order(members)]
