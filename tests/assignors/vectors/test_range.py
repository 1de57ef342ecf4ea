"""The cases of Kafka's RangeAssignorTest without racks. Each is played in three configurations, as in Kafka: without
racks of brokers, without racks of members, and with both, where all partitions have replicas in all racks.

Kafka's tests set a flag by which the assignor considers racks even then. It is not part of its interface, so kcoord's
has none; the plans are to be the same with it and without it. The cases with racks that matter are in test_racks.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.assignors.vectors.vectors import RACKS, Joining, PlanOf, Vector, all_racks, case_of, normal, written

ONE: Final = {"topic1": 3}
_BOTH: Final = "topic1 topic2"

CASES: Final = [
    Vector(
        test="testOneConsumerNoTopic",
        sizes={},
        members={"consumer1": Joining(topics="")},
        plan={"consumer1": ""},
    ),
    Vector(
        test="testOneConsumerNonexistentTopic",
        sizes={},
        members={"consumer1": Joining(topics="topic1")},
        plan={"consumer1": ""},
    ),
    Vector(
        test="testOneConsumerOneTopic",
        sizes=ONE,
        members={"consumer1": Joining(topics="topic1")},
        plan={"consumer1": "topic1:0-2"},
    ),
    Vector(
        test="testOnlyAssignsPartitionsFromSubscribedTopics",
        sizes={"topic1": 3, "other": 3},
        members={"consumer1": Joining(topics="topic1")},
        plan={"consumer1": "topic1:0-2"},
    ),
    Vector(
        test="testOneConsumerMultipleTopics",
        sizes={"topic1": 1, "topic2": 2},
        members={"consumer1": Joining(topics=_BOTH)},
        plan={"consumer1": "topic1:0 topic2:0,1"},
    ),
    Vector(
        test="testTwoConsumersOneTopicOnePartition",
        sizes={"topic1": 1},
        members={"consumer1": Joining(topics="topic1"), "consumer2": Joining(topics="topic1")},
        plan={"consumer1": "topic1:0", "consumer2": ""},
    ),
    Vector(
        test="testTwoConsumersOneTopicTwoPartitions",
        sizes={"topic1": 2},
        members={"consumer1": Joining(topics="topic1"), "consumer2": Joining(topics="topic1")},
        plan={"consumer1": "topic1:0", "consumer2": "topic1:1"},
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
        test="testTwoConsumersTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={"consumer1": Joining(topics=_BOTH), "consumer2": Joining(topics=_BOTH)},
        plan={"consumer1": "topic1:0,1 topic2:0,1", "consumer2": "topic1:2 topic2:2"},
    ),
    Vector(
        test="testTwoStaticConsumersTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={
            "consumer-b": Joining(topics=_BOTH, instance_id="instance1"),
            "consumer-a": Joining(topics=_BOTH, instance_id="instance2"),
        },
        plan={"consumer-b": "topic1:0,1 topic2:0,1", "consumer-a": "topic1:2 topic2:2"},
    ),
    Vector(
        test="testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions",
        sizes={"topic1": 3, "topic2": 3},
        members={
            "consumer-b": Joining(topics=_BOTH, instance_id="instance1"),
            "consumer-a": Joining(topics=_BOTH),
        },
        plan={"consumer-b": "topic1:0,1 topic2:0,1", "consumer-a": "topic1:2 topic2:2"},
    ),
    *(
        Vector(
            test=f"testStaticMemberRangeAssignmentPersistent, {dynamic} is dynamic",
            sizes={"topic1": 5, "topic2": 4},
            members={
                "consumer1": Joining(topics=_BOTH, instance_id="instance1"),
                "consumer2": Joining(topics=_BOTH, instance_id="instance2"),
                "consumer3": Joining(topics=_BOTH, instance_id="instance3"),
                dynamic: Joining(topics=_BOTH),
            },
            plan={
                "consumer1": "topic1:0,1 topic2:0",
                "consumer2": "topic1:2 topic2:1",
                "consumer3": "topic1:3 topic2:2",
                dynamic: "topic1:4 topic2:3",
            },
        )
        for dynamic in ("consumer4", "consumer5")
    ),
    *(
        Vector(
            test=f"testStaticMemberRangeAssignmentPersistentAfterMemberIdChanges, {second} and {third}",
            sizes={"topic1": 5, "topic2": 5},
            members={
                "consumer1": Joining(topics=_BOTH, instance_id="instance1"),
                second: Joining(topics=_BOTH, instance_id="instance2"),
                third: Joining(topics=_BOTH, instance_id="instance3"),
            },
            plan={
                "consumer1": "topic1:0,1 topic2:0,1",
                second: "topic1:2,3 topic2:2,3",
                third: "topic1:4 topic2:4",
            },
        )
        for second, third in (("consumer2", "consumer3"), ("consumer5", "consumer4"))
    ),
]


@pytest.mark.parametrize("have_members_racks", [False, True], ids=["members without racks", "members with racks"])
@pytest.mark.parametrize("have_brokers_racks", [False, True], ids=["brokers without racks", "brokers with racks"])
@pytest.mark.parametrize("vector", CASES, ids=str)
def test_the_plan_is_that_of_kafkas_test(
    plan_of: PlanOf, vector: Vector, have_brokers_racks: bool, have_members_racks: bool
) -> None:
    members: Mapping[str, Joining] = vector.members
    if have_members_racks:
        members = {
            member_id: replace(each, rack=RACKS[index]) for index, (member_id, each) in enumerate(members.items())
        }
    racks = all_racks(vector.sizes, RACKS) if have_brokers_racks else {}
    assert written(plan_of(case_of("range", vector.sizes, members, racks))) == normal(vector.plan)
