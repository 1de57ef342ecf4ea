"""The cases of Kafka's AbstractStickyAssignorTest and StickyAssignorTest that expect no certain plan: only that it is
valid and balanced, how large the shares are, or that members retain what they had.

Those that draw random groups (testReassignmentWithRandomSubscriptionsAndChanges,
testLargeAssignmentWithMultipleConsumersLeavingAndRandomSubscription) are left out: test_as_java draws groups too, and
compares whole plans. So are those that only measure time (testLargeAssignmentAndGroupWithUniformSubscription,
testLargeAssignmentAndGroupWithNonEqualSubscription, testAssignmentAndGroupWithNonEqualSubscriptionNotTimeout): the
benchmark tests.bench.assignors does that.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import Final

import pytest

from tests.assignors.vectors.vectors import (
    Joining,
    PlanOf,
    Written,
    at_rest,
    case_of,
    check_valid_and_balanced,
    partitions,
    written,
)

BOTH: Final = pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
_EQUAL: Final = pytest.mark.parametrize("are_equal", [True, False], ids=["same topics", "mixed topics"])


def _plan(plan_of: PlanOf, strategy: str, sizes: Mapping[str, int], members: Mapping[str, Joining]) -> Written:
    """Returns the plan with which the group comes to rest."""
    case = case_of(strategy, sizes, members)
    plan = at_rest(plan_of, case, members, plan_of(case))
    check_valid_and_balanced(plan, members)
    return written(plan)


def _set(share: str) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in partitions(share).items() for number in numbers}


def _sizes(plan: Written) -> list[int]:
    return sorted(len(_set(share)) for share in plan.values())


def _owning(topics: str, share: str, generation: int = 1) -> Joining:
    return Joining(topics=topics, owned=share, generation=generation)


@BOTH
def test_topics_stay_balanced_one_by_one(plan_of: PlanOf, strategy: str) -> None:
    """testTopicBalanceAfterReassignment"""
    topics, sizes = "topic1 topic2", {"topic1": 12, "topic2": 12}
    plan: Written = {}
    for members in (("1",), ("1", "2"), ("1", "2", "3", "4"), ("3", "4")):
        joining = {f"consumer{each}": _owning(topics, plan.get(f"consumer{each}", "")) for each in members}
        plan = _plan(plan_of, strategy, sizes, joining)
        even = 12 // len(members)
        assert {tuple(map(len, partitions(share).values())) for share in plan.values()} == {(even, even)}


@BOTH
def test_a_group_that_round_robin_serves_badly_is_balanced(plan_of: PlanOf, strategy: str) -> None:
    """testPoorRoundRobinAssignmentScenario"""
    every, three = "topic1 topic2 topic3 topic4 topic5", "topic1 topic3 topic5"
    members = {f"consumer{number}": Joining(topics=every if number in (1, 4) else three) for number in range(1, 5)}
    sizes = {f"topic{number}": number % 2 + 1 for number in range(1, 6)}
    assert _sizes(_plan(plan_of, strategy, sizes, members)) == [2, 2, 2, 2]


@BOTH
def test_a_topic_comes_and_another_one_goes(plan_of: PlanOf, strategy: str) -> None:
    """testAddRemoveTopicTwoConsumers"""
    first = _plan(plan_of, strategy, {"topic": 3}, {f"consumer{each}": Joining(topics="topic") for each in "12"})
    assert _sizes(first) == [1, 2]
    both = {member_id: _owning("topic topic2", share) for member_id, share in first.items()}
    second = _plan(plan_of, strategy, {"topic": 3, "topic2": 3}, both)
    assert _sizes(second) == [3, 3]
    assert all(_set(first[each]) < _set(second[each]) for each in first)
    third = _plan(
        plan_of, strategy, {"topic2": 3}, {member_id: _owning("topic2", share) for member_id, share in second.items()}
    )
    assert _sizes(third) == [1, 2]
    assert all(_set(third[each]) < _set(second[each]) for each in first)


@BOTH
def test_one_of_many_members_with_different_topics_leaves(plan_of: PlanOf, strategy: str) -> None:
    """testReassignmentAfterOneConsumerLeaves"""
    topics = [f"t{number:02}" for number in range(1, 20)]
    sizes = {topic: number for number, topic in enumerate(topics, start=1)}
    wanted = {f"c{number:02}": " ".join(topics[:number]) for number in range(1, 20)}
    plan = _plan(plan_of, strategy, sizes, {each: Joining(topics=wanted[each]) for each in wanted})
    del wanted["c10"]
    again = _plan(plan_of, strategy, sizes, {each: _owning(wanted[each], plan[each]) for each in wanted})
    assert sum(_sizes(again)) == sum(sizes.values())


@BOTH
def test_a_member_comes(plan_of: PlanOf, strategy: str) -> None:
    """testReassignmentAfterOneConsumerAdded. The other members do not send what they own, as in Kafka's test."""
    members = {f"c{number:02}": Joining(topics="topic") for number in range(1, 10)}
    assert _sizes(_plan(plan_of, strategy, {"topic": 20}, members)) == [2] * 7 + [3] * 2
    assert _sizes(_plan(plan_of, strategy, {"topic": 20}, members | {"c10": Joining(topics="topic")})) == [2] * 10


@BOTH
def test_one_of_several_members_with_the_same_topics_leaves(plan_of: PlanOf, strategy: str) -> None:
    """testSameSubscriptions"""
    sizes = {f"t{number:02}": number for number in range(1, 15)}
    members = [f"c{number}" for number in range(1, 9)]
    plan = _plan(plan_of, strategy, sizes, {each: Joining(topics=" ".join(sizes)) for each in members})
    rest = [each for each in members if each != "c5"]
    again = _plan(plan_of, strategy, sizes, {each: _owning(" ".join(sizes), plan[each]) for each in rest})
    assert _sizes(again) == [15] * 7
    assert all(_set(plan[each]) < _set(again[each]) for each in rest)


@BOTH
@pytest.mark.parametrize("generations", list(permutations((1, 2, 3))), ids=str)
def test_a_partition_that_three_generations_claim_has_one_owner(
    plan_of: PlanOf, strategy: str, generations: tuple[int, int, int]
) -> None:
    """testSubscriptionNotEqualAndAssignSamePartitionWith3Generation"""
    claims = ("topic:0,2", "topic:1-3", "topic:2,4,5")
    members = {
        f"consumer{number}": _owning("topic", claim, generation)
        for number, (claim, generation) in enumerate(zip(claims, generations, strict=True), start=1)
    }
    members["consumer4"] = _owning("topic1", "topic1:0", 2)
    plan = written(plan_of(case_of(strategy, {"topic": 6, "topic1": 1}, members)))
    assert len(set().union(*map(_set, plan.values()))) == sum(_sizes(plan))
    assert set(_sizes(plan)) <= {1, 2}


@BOTH
def test_a_member_subscribes_to_one_topic_more(plan_of: PlanOf, strategy: str) -> None:
    """testNewSubscription"""
    sizes = {f"t{number}": 1 for number in range(1, 5)}
    members = {"c0": "", "c1": "t1", "c2": "t2 t3 t4"}
    assert _sizes(_plan(plan_of, strategy, sizes, {each: Joining(topics=members[each]) for each in members})) == [
        0,
        1,
        3,
    ]
    members["c0"] = "t1"
    assert _sizes(_plan(plan_of, strategy, sizes, {each: Joining(topics=members[each]) for each in members})) == [
        0,
        1,
        3,
    ]


@BOTH
def test_partitions_move_to_where_others_came_from(plan_of: PlanOf, strategy: str) -> None:
    """testMoveExistingAssignments"""
    members = {
        "consumer1": _owning("topic1 topic2", "topic1:0"),
        "consumer2": _owning("topic1 topic2 topic3 topic4", "topic2:0 topic3:0"),
        "consumer3": _owning("topic2 topic3 topic4 topic5 topic6", "topic4:0 topic5:0 topic6:0"),
    }
    assert _sizes(_plan(plan_of, strategy, {f"topic{number}": 1 for number in range(1, 7)}, members)) == [1, 2, 3]


@BOTH
def test_a_member_leaves_and_the_others_retain_their_partition(plan_of: PlanOf, strategy: str) -> None:
    """testStickiness"""
    members = {f"consumer{number}": Joining(topics="topic1") for number in range(1, 5)}
    plan = _plan(plan_of, strategy, {"topic1": 3}, members)
    assert _sizes(plan) == [0, 1, 1, 1]
    del plan["consumer1"]
    owning = {member_id: _owning("topic1", share) for member_id, share in plan.items()}
    again = _plan(plan_of, strategy, {"topic1": 3}, owning)
    assert _sizes(again) == [1, 1, 1]
    assert all(_set(plan[each]) <= _set(again[each]) for each in plan)


@_EQUAL
def test_a_member_comes_back_with_an_old_generation(plan_of: PlanOf, are_equal: bool) -> None:
    """testAssignmentWithMultipleGenerations1"""
    sizes = {"topic": 6, "topic2": 6}
    wanted = {"consumer1": "topic topic2", "consumer2": "topic topic2" if are_equal else "topic"}
    wanted["consumer3"] = "topic topic2"
    first = _plan(plan_of, "sticky", sizes, {each: Joining(topics=wanted[each]) for each in wanted})
    assert _sizes(first) == [4, 4, 4]
    two = {each: _owning(wanted[each], first[each]) for each in ("consumer1", "consumer2")}
    second = _plan(plan_of, "sticky", sizes, two)
    assert _sizes(second) == [6, 6]
    assert _set(first["consumer2"]) < _set(second["consumer2"])
    assert not are_equal or _set(first["consumer1"]) < _set(second["consumer1"])
    assert _set(second["consumer2"]) & _set(first["consumer3"])
    members = {
        "consumer2": _owning(wanted["consumer2"], second["consumer2"], 2),
        "consumer3": _owning(wanted["consumer3"], first["consumer3"], 1),
    }
    assert _sizes(_plan(plan_of, "sticky", sizes, members)) == [6, 6]


@_EQUAL
def test_two_members_come_back_with_an_old_generation(plan_of: PlanOf, are_equal: bool) -> None:
    """testAssignmentWithMultipleGenerations2"""
    sizes = {"topic": 4, "topic2": 4, "topic3": 4}
    every = "topic topic2 topic3"
    wanted = {"consumer1": every if are_equal else "topic", "consumer2": every}
    wanted["consumer3"] = every if are_equal else "topic topic2"
    first = _plan(plan_of, "sticky", sizes, {each: Joining(topics=wanted[each]) for each in wanted})
    assert _sizes(first) == [4, 4, 4]
    alone = _plan(plan_of, "sticky", sizes, {"consumer2": _owning(every, first["consumer2"])})
    assert _sizes(alone) == [12]
    members = {each: _owning(wanted[each], first[each]) for each in wanted}
    members["consumer2"] = _owning(every, alone["consumer2"], 2)
    assert _sizes(_plan(plan_of, "sticky", sizes, members)) == [4, 4, 4]


@_EQUAL
def test_the_newer_of_conflicting_generations_retain_theirs(plan_of: PlanOf, are_equal: bool) -> None:
    """testAssignmentWithConflictingPreviousGenerations"""
    every = "topic topic2 topic3"
    members = {
        "consumer1": _owning(every, "topic:0-2 topic2:2,3 topic3:0") if are_equal else _owning("topic", "topic:0-3"),
        "consumer2": _owning(every if are_equal else "topic topic2", "topic:0,1 topic2:0-3", 2),
        "consumer3": _owning(every, "topic:2,3 topic3:0-3", 2),
    }
    plan = _plan(plan_of, "sticky", {"topic": 4, "topic2": 4, "topic3": 4}, members)
    assert _sizes(plan) == [4, 4, 4]
    assert all(_set(plan[each]) < _set(members[each].owned) for each in ("consumer2", "consumer3"))
