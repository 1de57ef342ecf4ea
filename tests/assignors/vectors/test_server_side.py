"""The cases of the tests of Kafka's server-side assignors (KIP-848): RangeAssignorTest,
UniformHomogeneousAssignmentBuilderTest and UniformHeterogeneousAssignmentBuilderTest, with CommonAssignorTests.

Left out is testAssignmentReuse: it is about which Java object is returned. So are the tests of topics that do not
exist, where Kafka's assignors throw an exception: a group coordinator asks for topics that exist alone, and
test_bad_input has what kcoord's assignors do with others.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest

from kcoord.assignors.plan import shares, spread
from kcoord.protocol.uuids import parse_uuid
from tests.assignors.vectors.vectors import (
    Joining,
    PlanOf,
    Vector,
    case_of,
    check_valid_and_balanced,
    normal,
    partitions,
    written,
)

_IDS: Final = {
    "t1": parse_uuid("T1-A4s3VTwiI5CTbEp6POw"),
    "t2": parse_uuid("T2-B4s3VTwiI5YHbPp6YUe"),
    "t3": parse_uuid("T3-CU8fVTLCz5YMkLoDQsa"),
    "t4": parse_uuid("T4-Tw9fVTLCz5HbPp6YQsa"),
}
"""The topic ids of Kafka's tests of the uniform assignor, which goes by their hashes."""


def _of(**members: str | tuple[str, str]) -> dict[str, Joining]:
    """Returns members by their topics, or by their topics and what they have."""
    return {
        member_id: Joining(topics=each) if isinstance(each, str) else Joining(topics=each[0], owned=each[1])
        for member_id, each in members.items()
    }


def _vector(test: str, sizes: str, members: Mapping[str, Joining], **plan: str) -> Vector:
    """Returns a case. Sizes are written as partitions are: `t1:3` is a topic with three."""
    counts = {topic: numbers[0] for topic, numbers in partitions(sizes).items()}
    return Vector(test=test, sizes=counts, members=members, plan=plan)


RANGE: Final = [
    _vector("testOneMemberNoTopic", "", _of(A=""), A=""),
    _vector(
        "testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions",
        "t1:3 t3:2",
        _of(A="t1 t3", B="t1 t3"),
        A="t1:0,1 t3:0",
        B="t1:2 t3:1",
    ),
    _vector(
        "testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions",
        "t1:3 t2:3 t3:2",
        _of(A="t1 t2", B="t3", C="t2 t3"),
        A="t1:0-2 t2:0,1",
        B="t3:0",
        C="t2:2 t3:1",
    ),
    _vector(
        "testFirstAssignmentNumMembersGreaterThanNumPartitions",
        "t1:3 t3:2",
        _of(A="t1 t3", B="t1 t3", C="t1 t3"),
        A="t1:0 t3:0",
        B="t1:1 t3:1",
        C="t1:2",
    ),
    _vector(
        "testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded",
        "t1:2 t2:2",
        _of(A=("t1 t2", "t1:0 t2:0"), B=("t1 t2", "t1:1 t2:1"), C="t1 t2"),
        A="t1:0 t2:0",
        B="t1:1 t2:1",
        C="",
    ),
    _vector(
        "testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics",
        "t1:4 t2:4",
        _of(A=("t1 t2", "t1:0,1 t2:0,1"), B=("t1 t2", "t1:2 t2:2")),
        A="t1:0,1 t2:0,1",
        B="t1:2,3 t2:2,3",
    ),
    _vector(
        "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:3 t2:3",
        _of(A=("t1 t2", "t1:0,1 t2:0,1"), B=("t1 t2", "t1:2 t2:2"), C="t1 t2"),
        A="t1:0 t2:0",
        B="t1:1 t2:1",
        C="t1:2 t2:2",
    ),
    _vector(
        "testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:4 t2:3",
        _of(A=("t1 t2", "t1:0,1 t2:0,1"), B=("t1 t2", "t1:2 t2:2"), C="t1"),
        A="t1:0,1 t2:0,1",
        B="t1:2 t2:2",
        C="t1:3",
    ),
    _vector(
        "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:3 t2:3",
        _of(B=("t1 t2", "t1:2 t2:2")),
        B="t1:0-2 t2:0-2",
    ),
    _vector(
        "testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
        "t1:3 t2:3 t3:2",
        _of(A=("t1", "t1:0-2 t2:0"), B=("t1 t2 t3", "t2:1"), C=("t2", "t2:2 t3:0,1")),
        A="t1:0,1",
        B="t1:2 t2:0,1 t3:0,1",
        C="t2:2",
    ),
]

SAME_TOPICS: Final = [
    _vector("testOneMemberNoTopicSubscription", "", _of(A=""), A=""),
    _vector(
        "testFirstAssignmentTwoMembersTwoTopicsNoMemberRacks",
        "t1:3 t3:2",
        _of(A="t1 t3", B="t1 t3"),
        A="t3:0,1",
        B="t1:0-2",
    ),
    _vector(
        "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
        "t3:2",
        _of(A="t3", B="t3", C="t3"),
        A="",
        B="t3:0",
        C="t3:1",
    ),
    _vector(
        "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics",
        "t1:6 t2:5",
        _of(A=("t1 t2", "t1:0,2 t2:0"), B=("t1 t2", "t1:1 t2:1,2")),
        A="t1:0,2 t2:0,3,4",
        B="t1:1,3-5 t2:1,2",
    ),
    _vector(
        "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
        "t1:3 t2:3",
        _of(A=("t1 t2", "t1:0 t2:0"), B=("t1 t2", "t1:1 t2:1")),
        A="t1:0 t2:0,2",
        B="t1:1,2 t2:1",
    ),
    _vector(
        "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:2 t2:2",
        _of(A=("t2", "t1:0 t2:0"), B=("t2", "t1:1 t2:1")),
        A="t2:0",
        B="t2:1",
    ),
]

# In these two, Kafka's test gives an assignment to a member as a map that has topics in the order of their names.
ORDERED: Final = [
    _vector(
        "testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment",
        "t1:3 t2:3",
        _of(A=("t1 t2", "t1:0,1 t2:0,1"), B=("t1 t2", "t1:2 t2:2")),
        A="t1:0,1 t2:0",
        B="t1:2 t2:1,2",
    ),
    _vector(
        "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:3 t2:3",
        _of(A=("t1 t2", "t1:0,2 t2:0"), B=("t1 t2", "t1:1 t2:1,2"), C="t1 t2"),
        A="t1:0,2",
        B="t1:1 t2:1",
        C="t2:0,2",
    ),
]

MIXED_TOPICS: Final = [
    _vector("testTwoMembersNoTopicSubscription", "", _of(A="", B=""), A="", B=""),
    _vector(
        "testFirstAssignmentTwoMembersTwoTopics",
        "t1:3 t3:6",
        _of(A="t1 t3", B="t3"),
        A="t1:0-2 t3:4",
        B="t3:0-3,5",
    ),
    _vector(
        "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
        "t1:2 t3:1",
        _of(A="t3", B="t3", C="t1"),
        A="t3:0",
        B="",
        C="t1:0,1",
    ),
    _vector(
        "testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment",
        "t1:6 t2:4 t3:4",
        _of(
            A=("t1", "t1:0-2"),
            B=("t1 t2", "t1:3 t2:0"),
            C=("t1 t2 t3", "t1:4,5 t2:1-3 t3:0-3"),
        ),
        A="t1:0-2,5",
        B="t1:3 t2:0-3",
        C="t1:4 t3:0-3",
    ),
    _vector(
        "testReassignmentWhenPartitionsAreAddedForTwoMembers",
        "t1:6 t2:5 t3:3 t4:3",
        _of(A=("t1 t3", "t1:0-3 t3:0,1"), B=("t1 t2 t3 t4", "t2:0-2 t4:0-2")),
        A="t1:0-5 t3:0-2",
        B="t2:0-4 t4:0-2",
    ),
    _vector(
        "testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics",
        "t1:6 t2:7",
        _of(A=("t1", "t1:0,2 t2:0"), B=("t1 t2", "t1:1 t2:1,2"), C="t1 t2"),
        A="t1:0,2-5",
        B="t1:1 t2:1,2,6",
        C="t2:0,3-5",
    ),
    _vector(
        "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics",
        "t1:3 t2:8 t3:3",
        _of(A=("t1 t3", "t1:0-2 t3:0,1"), B=("t2", "t2:3-6")),
        A="t1:0-2 t3:0-2",
        B="t2:0-7",
    ),
    _vector(
        "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
        "t1:3 t2:5",
        _of(A=("t1", "t1:0,2 t2:1,3"), B=("t1 t2", "t1:1 t2:0,2,4")),
        A="t1:0-2",
        B="t2:0-4",
    ),
    _vector(
        "testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions",
        "t1:3",
        _of(A="t1", B=""),
        A="t1:0-2",
        B="",
    ),
]


@pytest.mark.parametrize("vector", RANGE, ids=str)
def test_the_ranges_are_those_of_kafkas_test(plan_of: PlanOf, vector: Vector) -> None:
    assert written(plan_of(case_of("server-range", vector.sizes, vector.members))) == normal(vector.plan)


@pytest.mark.parametrize("vector", [*SAME_TOPICS, *MIXED_TOPICS], ids=str)
def test_the_uniform_plan_is_that_of_kafkas_test(plan_of: PlanOf, vector: Vector) -> None:
    case = case_of("uniform", vector.sizes, vector.members, topic_ids=_IDS)
    assert written(plan_of(case)) == normal(vector.plan)


@pytest.mark.parametrize("vector", ORDERED, ids=str)
def test_the_uniform_plan_goes_by_the_order_of_topics(plan_of: PlanOf, vector: Vector) -> None:
    """The ids are those of `case_of`: a HashMap has them in the order of the names."""
    assert written(plan_of(case_of("uniform", vector.sizes, vector.members))) == normal(vector.plan)


@pytest.mark.parametrize("others", [{}, {"C": "instanceC", "B": None}], ids=["static", "mixed"])
def test_a_static_member_has_the_same_ranges_under_another_member_id(
    plan_of: PlanOf, others: Mapping[str, str | None]
) -> None:
    """testStaticMembership and testMixedStaticMembership"""
    rest = others or {"B": "instanceB"}
    plans = []
    for member_id in ("A", "memberA1"):
        instances = {member_id: "instanceA", **rest}
        members = {each: Joining(topics="t1", instance_id=instance) for each, instance in instances.items()}
        plans.append(written(plan_of(case_of("server-range", {"t1": 5}, members))))
    assert plans[0].pop("A") == plans[1].pop("memberA1") != ""
    assert plans[0] == plans[1]


@pytest.mark.parametrize("strategy", ["server-range", "uniform"])
def test_a_plan_stays_as_it_is_in_whatever_order_members_come(plan_of: PlanOf, strategy: str) -> None:
    """testReassignmentStickiness"""
    sizes = {"t1": 2, "t2": 5, "t3": 7}
    members = _of(A="t1 t2 t3", B="t1 t2 t3", C="t1 t2 t3")
    first = written(plan_of(case_of(strategy, sizes, members)))
    owning = {member_id: replace(each, owned=first[member_id]) for member_id, each in members.items()}
    for order in permutations(owning):
        assert written(plan_of(case_of(strategy, sizes, {each: owning[each] for each in order}))) == first


def test_a_large_group_is_balanced(plan_of: PlanOf) -> None:
    """testValidityAndBalanceForLargeSampleSet"""
    sizes = {f"topic-{number}": 3 for number in range(1, 101)}
    members = {f"member{number}": Joining(topics=" ".join(sizes)) for number in range(1, 51)}
    plan = plan_of(case_of("uniform", sizes, members))
    check_valid_and_balanced(plan, members)
    in_lists = {member_id: partitions(text) for member_id, text in written(plan).items()}
    assert sum(shares(in_lists)) == 300
    assert spread(in_lists) <= 1


def test_balancing_ends_where_a_topic_has_no_partitions_left_to_move(plan_of: PlanOf) -> None:
    """testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions. Its group counts as one of mixed topics,
    though both members are subscribed to the same; a third one, with a topic of its own, makes it one here."""
    members = _of(A=("t1 t2 t3", "t1:0,1 t2:0,1 t3:0,1"), B="t1 t2 t3", C=("t4", "t4:0-2"))
    case = case_of("uniform", {"t1": 2, "t2": 2, "t3": 2, "t4": 3}, members, topic_ids=_IDS)
    assert written(plan_of(case)) == normal({"A": "t2:0 t3:0,1", "B": "t1:0,1 t2:1", "C": "t4:0-2"})
