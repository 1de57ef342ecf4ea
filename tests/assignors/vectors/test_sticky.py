"""The cases of Kafka's AbstractStickyAssignorTest, StickyAssignorTest and CooperativeStickyAssignorTest.

Each is played by both sticky assignors unless Kafka has it for one, and in three configurations, as in Kafka: without
racks of brokers, without racks of members, and with both, where all partitions have replicas in all racks. A
cooperative group is played until nobody has to give up anything any more, as in Kafka.

The cases with racks that matter are in test_racks, those of subscriptions and user data in test_subscriptions. Cases
that expect no plan, only that it is valid and balanced, are in test_sticky_balance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pytest

from kcoord.assignors.plan import Partition, Topics, group_by_topic
from kcoord.assignors.sticky.sticky import plan_sticky
from tests.assignors.cases import Case
from tests.assignors.vectors.vectors import (
    AS_ASSIGNED,
    RACKS,
    Joining,
    PlanOf,
    Written,
    all_racks,
    at_rest,
    case_of,
    check_valid_and_balanced,
    normal,
    written,
)

BOTH: Final = ("sticky", "cooperative-sticky")
_STICKY: Final = ("sticky",)
_COOPERATIVE: Final = ("cooperative-sticky",)
_TWO: Final = "topic1 topic2"
_FOUR: Final = "topic topic2 topic3 topic1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rebalance of a group: who joins with what, and what is expected. `first` is the first plan of a cooperative
    group if it is not yet at rest. `transferred` is what a cooperative assignor must not hand out yet, by its new
    owner; None where Kafka finds that out by comparing plans."""

    sizes: Mapping[str, int]
    members: Mapping[str, Joining]
    plan: Mapping[str, str]
    first: Mapping[str, str] | None = None
    transferred: Mapping[str, str] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One of Kafka's tests: one rebalance after the other."""

    test: str
    steps: Sequence[Step]
    strategies: Sequence[str] = BOTH

    def __str__(self) -> str:
        return self.test


def _one(
    test: str,
    sizes: Mapping[str, int],
    members: Mapping[str, Joining],
    plan: Mapping[str, str],
    *,
    first: Mapping[str, str] | None = None,
    transferred: Mapping[str, str] | None = MappingProxyType({}),
    strategies: Sequence[str] = BOTH,
) -> Story:
    step = Step(sizes=sizes, members=members, plan=plan, first=first, transferred=transferred)
    return Story(test=test, steps=[step], strategies=strategies)


def _of(topics: str, *owned: str, generation: int | None = 1) -> dict[str, Joining]:
    """Returns members consumer1, consumer2 … who all want these topics, and what each owns."""
    return {
        f"consumer{number}": Joining(topics=topics, owned=each, generation=generation)
        for number, each in enumerate(owned, start=1)
    }


def _plan(*shares: str) -> dict[str, str]:
    return {f"consumer{number}": share for number, share in enumerate(shares, start=1)}


def _without_generation(topics: str, count: int) -> dict[str, Joining]:
    return {f"consumer{number}": Joining(topics=topics) for number in range(1, count + 1)}


_CLAIMED_TWICE: Final = (
    "testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWith"
)
_SAME_CLAIM: Final = "topic:0,2 topic2:1"

STORIES: Final = [
    _one("testOneConsumerNoTopic", {}, {"consumer": Joining(topics="")}, {"consumer": ""}),
    _one("testOneConsumerNonexistentTopic", {"topic": 0}, {"consumer": Joining(topics="topic")}, {"consumer": ""}),
    _one("testOneConsumerOneTopic", {"topic": 3}, {"consumer": Joining(topics="topic")}, {"consumer": "topic:0-2"}),
    _one(
        "testOnlyAssignsPartitionsFromSubscribedTopics",
        {"topic": 2},
        {"consumer": Joining(topics="topic", owned="topic:0,1 other:0,1", generation=1)},
        {"consumer": "topic:0,1"},
    ),
    _one(
        "testOneConsumerMultipleTopics",
        {"topic1": 1, "topic2": 2},
        {"consumer": Joining(topics=_TWO)},
        {"consumer": "topic1:0 topic2:0,1"},
    ),
    _one("testTwoConsumersOneTopicOnePartition", {"topic": 1}, _without_generation("topic", 2), _plan("topic:0", "")),
    _one(
        "testTwoConsumersOneTopicTwoPartitions",
        {"topic": 2},
        _without_generation("topic", 2),
        _plan("topic:0", "topic:1"),
    ),
    _one(
        "testMultipleConsumersMixedTopicSubscriptions",
        {"topic1": 3, "topic2": 2},
        {
            "consumer1": Joining(topics="topic1"),
            "consumer2": Joining(topics=_TWO),
            "consumer3": Joining(topics="topic1"),
        },
        _plan("topic1:0,2", "topic2:0,1", "topic1:1"),
        transferred=None,
    ),
    _one(
        "testTwoConsumersTwoTopicsSixPartitions",
        {"topic1": 3, "topic2": 3},
        _without_generation(_TWO, 2),
        _plan("topic1:0,2 topic2:1", "topic1:1 topic2:0,2"),
    ),
    _one(
        "testConsumerOwningMinQuotaExpectedMaxQuota",
        {"topic1": 2, "topic2": 3},
        _of(_TWO, "topic1:0 topic2:1", "topic1:1 topic2:2"),
        _plan("topic1:0 topic2:0,1", "topic1:1 topic2:2"),
    ),
    _one(
        "testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers",
        {"topic1": 2, "topic2": 2},
        _of(_TWO, "topic1:0 topic2:0", "topic1:1 topic2:1", ""),
        _plan("topic1:0", "topic1:1 topic2:1", "topic2:0"),
        first=_plan("topic1:0", "topic1:1 topic2:1", ""),
        transferred={"consumer3": "topic2:0"},
    ),
    _one(
        "testAllConsumersAreUnderMinQuota",
        {"topic1": 2, "topic2": 3},
        _of(_TWO, "topic1:0", "topic1:1", ""),
        _plan("topic1:0 topic2:1", "topic1:1 topic2:2", "topic2:0"),
    ),
    Story(
        test="testAddRemoveConsumerOneTopic",
        steps=[
            Step(sizes={"topic": 3}, members=_without_generation("topic", 1), plan=_plan("topic:0-2")),
            Step(
                sizes={"topic": 3},
                members=_of("topic", AS_ASSIGNED, ""),
                plan=_plan("topic:0,1", "topic:2"),
                first=_plan("topic:0,1", ""),
                transferred={"consumer2": "topic:2"},
            ),
            Step(
                sizes={"topic": 3},
                members={"consumer2": Joining(topics="topic", owned=AS_ASSIGNED, generation=1)},
                plan={"consumer2": "topic:0-2"},
            ),
        ],
    ),
    Story(
        test="testAddRemoveTwoConsumersTwoTopics",
        steps=[
            Step(
                sizes={"topic1": 3, "topic2": 4},
                members=_without_generation(_TWO, 2),
                plan=_plan("topic1:0,2 topic2:1,3", "topic1:1 topic2:0,2"),
            ),
            Step(
                sizes={"topic1": 3, "topic2": 4},
                members=_of(_TWO, AS_ASSIGNED, AS_ASSIGNED, "", ""),
                plan=_plan("topic1:0 topic2:1", "topic1:1 topic2:0", "topic1:2 topic2:3", "topic2:2"),
                first=_plan("topic1:0 topic2:1", "topic1:1 topic2:0", "", ""),
                transferred={"consumer3": "topic1:2 topic2:3", "consumer4": "topic2:2"},
            ),
            Step(
                sizes={"topic1": 3, "topic2": 4},
                members={
                    "consumer3": Joining(topics=_TWO, owned=AS_ASSIGNED, generation=1),
                    "consumer4": Joining(topics=_TWO, owned=AS_ASSIGNED, generation=1),
                },
                plan={"consumer3": "topic1:0,2 topic2:1,3", "consumer4": "topic1:1 topic2:0,2"},
            ),
        ],
    ),
    _one(
        "testAllConsumersReachExpectedQuotaAndAreConsideredFilled",
        {"topic": 4},
        _of("topic", "topic:0,1", "topic:2", ""),
        _plan("topic:0,1", "topic:2", "topic:3"),
    ),
    *(
        _one(
            f"testOwnedPartitionsAreInvalidatedForConsumerWith{name}",
            {"topic": 3, "topic2": 3},
            {
                "consumer1": Joining(topics="topic topic2", owned=_SAME_CLAIM, generation=10),
                "consumer2": Joining(topics="topic topic2", owned=_SAME_CLAIM, generation=generation),
            },
            _plan(_SAME_CLAIM, "topic:1 topic2:0,2"),
        )
        for name, generation in (("StaleGeneration", 9), ("NoGeneration", -1))
    ),
    _one(
        "testOwnedPartitionsAreInvalidatedForConsumerWithMultipleGeneration",
        {"topic": 3, "topic2": 3},
        {
            "consumer1": Joining(topics="topic topic2", owned="topic:0,1 topic2:1", generation=10),
            "consumer2": Joining(topics="topic topic2", owned="topic:0 topic2:1,2", generation=8),
        },
        _plan("topic:0,1 topic2:1", "topic:2 topic2:0,2"),
    ),
    _one(
        "testPartitionsTransferringOwnershipIncludeThePartitionClaimedByMultipleConsumersInSameGeneration",
        {"topic": 3},
        _of("topic", "topic:0,1", "topic:0,2", ""),
        _plan("topic:1", "topic:2", "topic:0"),
        first=_plan("topic:1", "topic:2", ""),
        transferred={"consumer3": "topic:0"},
    ),
    _one(
        f"{_CLAIMED_TWICE}EqualPartitionsPerConsumer",
        {"topic": 3},
        _of("topic", "topic:0,1", "topic:0,2", ""),
        _plan("topic:1", "topic:2", "topic:0"),
        first=_plan("topic:1", "topic:2", ""),
        transferred={"consumer3": "topic:0"},
    ),
    _one(
        f"{_CLAIMED_TWICE}UnequalPartitionsPerConsumer",
        {"topic": 4},
        _of("topic", "topic:0,1", "topic:0,2", ""),
        _plan("topic:1,3", "topic:2", "topic:0"),
        first=_plan("topic:1,3", "topic:2", ""),
        transferred={"consumer3": "topic:0"},
    ),
    _one(
        "testEnsurePartitionsAssignedToHighestGeneration",
        {"topic": 3, "topic2": 3, "topic3": 3},
        {
            "consumer1": Joining(topics="topic topic2 topic3", owned="topic:0 topic2:0 topic3:0", generation=10),
            "consumer2": Joining(topics="topic topic2 topic3", owned="topic:1 topic2:1 topic3:1", generation=9),
            "consumer3": Joining(topics="topic topic2 topic3", owned="topic2:1 topic3:0,2", generation=8),
        },
        _plan("topic:0 topic2:0 topic3:0", "topic:1 topic2:1 topic3:1", "topic:2 topic2:2 topic3:2"),
    ),
    _one(
        "testNoReassignmentOnCurrentMembers",
        {"topic": 3, "topic1": 3, "topic2": 3, "topic3": 3},
        {
            "consumer1": Joining(topics=_FOUR, generation=-1),
            "consumer2": Joining(topics=_FOUR, owned="topic:0 topic2:0 topic1:0", generation=9),
            "consumer3": Joining(topics=_FOUR, owned="topic3:2 topic2:2 topic1:1", generation=8),
            "consumer4": Joining(topics=_FOUR, owned="topic3:1 topic:1,2", generation=7),
        },
        _plan(
            "topic1:2 topic2:1 topic3:0",
            "topic:0 topic2:0 topic1:0",
            "topic3:2 topic2:2 topic1:1",
            "topic3:1 topic:1,2",
        ),
    ),
    *(
        _one(
            f"testAssignorWithOldVersionSubscriptions of {strategy}",
            {"topic1": 3},
            {
                "consumer1": Joining(topics="topic1", owned="topic1:0", generation=1, version=oldest),
                "consumer2": Joining(topics="topic1", owned="topic1:1", generation=1, version=1),
                "consumer3": Joining(topics="topic1", generation=1),
            },
            _plan("topic1:0", "topic1:1", "topic1:2"),
            strategies=[strategy],
        )
        for strategy, oldest in (("sticky", 0), ("cooperative-sticky", 1))
    ),
    _one(
        "testAssignmentUpdatedForDeletedTopic",
        {"topic1": 1, "topic3": 100},
        {"consumer": Joining(topics="topic1 topic2 topic3")},
        {"consumer": "topic1:0 topic3:0-99"},
    ),
    Story(
        test="testNoExceptionThrownWhenOnlySubscribedTopicDeleted",
        steps=[
            Step(sizes={"topic": 3}, members=_without_generation("topic", 1), plan=_plan("topic:0-2")),
            Step(sizes={}, members=_of("topic", AS_ASSIGNED), plan=_plan("")),
        ],
    ),
    _one(
        "testSchemaBackwardCompatibility",
        {"topic": 3},
        {
            "consumer1": Joining(topics="topic", owned="topic:0,2", generation=1),
            "consumer2": Joining(topics="topic", owned="topic:1", version=0),
            "consumer3": Joining(topics="topic"),
        },
        _plan("topic:0", "topic:1", "topic:2"),
        strategies=_STICKY,
        transferred={"consumer3": "topic:2"},
    ),
]

_PLAYED: Final = [(strategy, story) for story in STORIES for strategy in story.strategies]


@pytest.mark.parametrize("have_members_racks", [False, True], ids=["members without racks", "members with racks"])
@pytest.mark.parametrize("have_brokers_racks", [False, True], ids=["brokers without racks", "brokers with racks"])
@pytest.mark.parametrize(("strategy", "story"), _PLAYED, ids=[f"{strategy}: {story}" for strategy, story in _PLAYED])
def test_the_plans_are_those_of_kafkas_test(
    plan_of: PlanOf, strategy: str, story: Story, have_brokers_racks: bool, have_members_racks: bool
) -> None:
    assigned: Written = {}
    for step in story.steps:
        members = _joining(step.members, assigned, have_members_racks)
        racks = all_racks(step.sizes) if have_brokers_racks else {}
        case = case_of(strategy, step.sizes, members, racks)
        first = plan_of(case)
        if step.first is not None and strategy == "cooperative-sticky":
            assert written(first) == normal(step.first)
        plan = at_rest(plan_of, case, members, first)
        assert written(plan) == normal(step.plan)
        check_valid_and_balanced(plan, members)
        assigned = written(plan)


@pytest.mark.parametrize(("strategy", "story"), _PLAYED, ids=[f"{strategy}: {story}" for strategy, story in _PLAYED])
def test_what_moves_to_another_member_is_transferred(strategy: str, story: Story) -> None:
    assigned: Written = {}
    for step in story.steps:
        members = _joining(step.members, assigned, have_members_racks=False)
        case = case_of(strategy, step.sizes, members)
        transferred = plan_sticky(case.subscribers(), Topics(counts=step.sizes)).transferred
        assert _by_new_owner(transferred) == (None if step.transferred is None else normal(step.transferred))
        assigned = written(at_rest(Case.plan, case, members, case.plan()))


def _joining(members: Mapping[str, Joining], assigned: Written, have_members_racks: bool) -> dict[str, Joining]:
    return {
        member_id: replace(
            each,
            owned=assigned[member_id] if each.owned == AS_ASSIGNED else each.owned,
            rack=RACKS[number % 3] if have_members_racks else None,
        )
        for number, (member_id, each) in enumerate(members.items())
    }


def _by_new_owner(transferred: Mapping[Partition, str] | None) -> Written | None:
    if transferred is None:
        return None
    new_owners = sorted(set(transferred.values()))
    return written(
        {each: group_by_topic(tp for tp, owner in transferred.items() if owner == each) for each in new_owners}
    )
