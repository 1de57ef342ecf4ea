"""The cases with racks (KIP-881) of Kafka's RangeAssignorTest and AbstractStickyAssignorTest: those whose names begin
with testRackAware or testCoPartitioned, and testUniformSubscriptionTransferOwnershipListIsRight. Beside them is
testUseRackAwareAssignment of AbstractPartitionAssignorTest.

Kafka's tests also set a flag by which assignors consider racks where that makes no difference. It is not part of their
interface, so kcoord's have none: of testUseRackAwareAssignment, the half without the flag is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from kcoord.assignors.plan import TopicPartitions, Topics, list_partitions
from kcoord.assignors.racks import needs_rack_awareness
from kcoord.assignors.sticky.sticky import plan_sticky
from tests.assignors.cases import Case
from tests.assignors.vectors.vectors import Joining, PlanOf, case_of, normal, partitions, racks_of_replicas, written

UNEVEN: Final = {"t1": 6, "t2": 7, "t3": 2}
EVEN: Final = {"t1": 5, "t2": 5, "t3": 5}
PAIRS: Final = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
THREE_PAIRS: Final = {"t1": 6, "t2": 6, "t3": 2, "t4": 2, "t5": 4, "t6": 4}

_ALL: Final = ("t1 t2 t3",) * 3
_NOT_ALL: Final = ("t1 t2 t3", "t1 t2 t3", "t1 t3")
_TWO_PAIRS: Final = ("t1 t2", "t1 t2", "t3 t4", "t3 t4")
_ALL_PAIRS: Final = ("t1 t2 t3 t4",) * 4
_NINE: Final = ("t1 t2 t3 t4 t5 t6 t7 t8 t9",) * 3
_ABBA: Final = "abba"
_NOT_ANY: Final = -1
"""Where Kafka's test does not count the members that get partitions from other racks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racks:
    """How many replicas each partition has, the racks of brokers, and those of members; `-` is none."""

    replicas: int
    brokers: str
    members: str


THE_SAME: Final = (
    (Racks(replicas=3, brokers="---", members="abc"), _NOT_ANY),
    (Racks(replicas=3, brokers="abc", members="---"), _NOT_ANY),
    (Racks(replicas=3, brokers="abc", members="abc"), 0),
    (Racks(replicas=4, brokers="abcd", members="abc"), 0),
    (Racks(replicas=3, brokers="abc", members="def"), _NOT_ANY),
    (Racks(replicas=3, brokers="abc", members="-ef"), _NOT_ANY),
)
"""Where racks make no difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackCase:
    test: str
    sizes: Mapping[str, int]
    topics: Sequence[str]
    racks: Racks
    plan: Sequence[str]
    in_other_racks: int
    owned: Sequence[str] = ()

    def __str__(self) -> str:
        racks = self.racks
        return f"{self.test}, {racks.replicas} in {racks.brokers} for {racks.members}{', owning' if self.owned else ''}"

    def case(self, strategy: str) -> Case:
        """Makes the case for a strategy. Kafka's tests have no user data here, so StickyAssignor knows of no owners."""
        owned = self.owned if self.owned and strategy == "cooperative-sticky" else [""] * len(self.topics)
        members = {
            f"consumer{number}": Joining(topics=topics, owned=has, rack=None if rack == "-" else rack)
            for number, (topics, has, rack) in enumerate(zip(self.topics, owned, self.racks.members, strict=True))
        }
        return case_of(strategy, self.sizes, members, self._racks_of_partitions())

    def count_in_other_racks(self, plan: Mapping[str, TopicPartitions]) -> int:
        """Counts the partitions that a member in a rack got, and that have no replica in it."""
        racks = self._racks_of_partitions()
        return sum(
            rack not in (racks[topic][partition] if racks else ())
            for number, rack in enumerate(self.racks.members)
            if rack != "-"
            for topic, partition in list_partitions(plan[f"consumer{number}"])
        )

    def _racks_of_partitions(self) -> dict[str, list[set[str]]]:
        if "-" in self.racks.brokers:
            return {}
        return racks_of_replicas(self.sizes, self.racks.replicas, self.racks.brokers)


def _cases(
    test: str, sizes: Mapping[str, int], topics: Sequence[str], *plans: tuple[Racks, int, str], same: str = ""
) -> list[RackCase]:
    """Returns the cases of one of Kafka's tests: `same` is its plan where racks make no difference. The shares of
    members are parted by bars."""
    outcomes = [(racks, count, same) for racks, count in (THE_SAME if same else ())] + list(plans)
    return [
        RackCase(
            test=test,
            sizes=sizes,
            topics=topics,
            racks=racks,
            in_other_racks=count,
            plan=[*map(str.strip, plan.split("|"))],
        )
        for racks, count, plan in outcomes
    ]


def _racks(replicas: int, brokers: str, members: str) -> Racks:
    return Racks(replicas=replicas, brokers=brokers, members=members)


_UNEVEN_RANGES: Final = "t1:0,1 t2:0-2 t3:0 | t1:2,3 t2:3,4 t3:1 | t1:4,5 t2:5,6"
_UNEVEN_RANGES_NOT_ALL: Final = "t1:0,1 t2:0-3 t3:0 | t1:2,3 t2:4-6 t3:1 | t1:4,5"
_EVEN_RANGES: Final = "t1:0,1 t2:0,1 t3:0,1 | t1:2,3 t2:2,3 t3:2,3 | t1:4 t2:4 t3:4"
_EVEN_RANGES_NOT_ALL: Final = "t1:0,1 t2:0-2 t3:0,1 | t1:2,3 t2:3,4 t3:2,3 | t1:4 t3:4"
_RANGES_OF_PAIRS: Final = "t1:0-2 t2:0-2 | t1:3-5 t2:3-5 | t3:0 t4:0 | t3:1 t4:1"
_RANGES_OF_ALL_PAIRS: Final = "t1:0,1 t2:0,1 t3:0 t4:0 | t1:2,3 t2:2,3 t3:1 t4:1 | t1:4 t2:4 | t1:5 t2:5"
_RANGES_OF_THREE_PAIRS: Final = (
    "t1:0,1 t2:0,1 t3:0 t4:0 t5:0,1 t6:0,1 | t1:2,3 t2:2,3 t3:1 t4:1 t5:2 t6:2 | t1:4,5 t2:4,5 t5:3 t6:3"
)

OF_RANGE: Final = [
    *_cases(
        "testRackAwareAssignmentWithUniformSubscription",
        UNEVEN,
        _ALL,
        (_racks(1, "abc", "abc"), 0, "t1:0,3 t2:0,3,6 | t1:1,4 t2:1,4 t3:0 | t1:2,5 t2:2,5 t3:1"),
        (_racks(2, "abc", "abc"), 1, "t1:0,2 t2:0,2,3 t3:1 | t1:1,3 t2:1,4 t3:0 | t1:4,5 t2:5,6"),
        (_racks(3, "ab", "abc"), 4, _UNEVEN_RANGES),
        same=_UNEVEN_RANGES,
    ),
    *_cases(
        "testRackAwareAssignmentWithNonEqualSubscription",
        UNEVEN,
        _NOT_ALL,
        (_racks(1, "abc", "abc"), 2, "t1:0,3 t2:0,2,3,6 | t1:1,4 t2:1,4,5 t3:0 | t1:2,5 t3:1"),
        (_racks(2, "abc", "abc"), 0, "t1:0,2 t2:0,2,3,5 t3:1 | t1:1,3 t2:1,4,6 t3:0 | t1:4,5"),
        (_racks(3, "ab", "abc"), 2, _UNEVEN_RANGES_NOT_ALL),
        same=_UNEVEN_RANGES_NOT_ALL,
    ),
    *_cases(
        "testRackAwareAssignmentWithUniformPartitions",
        EVEN,
        _ALL,
        (_racks(1, "abc", "abc"), 10, _EVEN_RANGES),
        (_racks(2, "abc", "abc"), 5, _EVEN_RANGES),
        (_racks(3, "ab", "abc"), 3, _EVEN_RANGES),
        same=_EVEN_RANGES,
    ),
    *_cases(
        "testRackAwareAssignmentWithUniformPartitionsNonEqualSubscription",
        EVEN,
        _NOT_ALL,
        (_racks(1, "abc", "abc"), 9, "t1:0,1 t2:0,1,4 t3:0,1 | t1:2,3 t2:2,3 t3:2,3 | t1:4 t3:4"),
        (_racks(2, "abc", "abc"), 0, "t1:2 t2:0,1,3 t3:2 | t1:0,3 t2:2,4 t3:0,3 | t1:1,4 t3:1,4"),
        (_racks(3, "ab", "abc"), 2, _EVEN_RANGES_NOT_ALL),
        same=_EVEN_RANGES_NOT_ALL,
    ),
    *_cases(
        "testRackAwareAssignmentWithCoPartitioning, topics in pairs",
        PAIRS,
        _TWO_PAIRS,
        (_racks(3, "ab", _ABBA), _NOT_ANY, _RANGES_OF_PAIRS),
        (_racks(2, "ab", _ABBA), 0, _RANGES_OF_PAIRS),
        (_racks(1, "ab", _ABBA), 0, "t1:0,2,4 t2:0,2,4 | t1:1,3,5 t2:1,3,5 | t3:1 t4:1 | t3:0 t4:0"),
    ),
    *_cases(
        "testRackAwareAssignmentWithCoPartitioning, all topics",
        PAIRS,
        _ALL_PAIRS,
        (_racks(3, "ab", _ABBA), _NOT_ANY, _RANGES_OF_ALL_PAIRS),
        (_racks(2, "ab", _ABBA), 0, _RANGES_OF_ALL_PAIRS),
        (
            _racks(1, "ab", _ABBA),
            0,
            "t1:0,2 t2:0,2 t3:0 t4:0 | t1:1,3 t2:1,3 t3:1 t4:1 | t1:5 t2:5 | t1:4 t2:4",
        ),
        (
            _racks(1, "abc", _ABBA),
            6,
            "t1:0,3 t2:0,3 t3:0 t4:0 | t1:1,4 t2:1,4 t3:1 t4:1 | t1:2 t2:2 | t1:5 t2:5",
        ),
    ),
    *_cases(
        "testCoPartitionedAssignmentWithSameSubscription",
        THREE_PAIRS,
        _NINE,
        (_racks(3, "---", "abc"), _NOT_ANY, _RANGES_OF_THREE_PAIRS),
        (_racks(3, "abc", "abc"), 0, _RANGES_OF_THREE_PAIRS),
        (
            _racks(2, "abc", "abc"),
            0,
            "t1:0,2 t2:0,2 t3:0 t4:0 t5:1 t6:1 | t1:1,3 t2:1,3 t3:1 t4:1 t5:2 t6:2 | t1:4,5 t2:4,5 t5:0,3 t6:0,3",
        ),
    ),
]

_ROUND: Final = "t1:0,3 t2:0,3,6 | t1:1,4 t2:1,4 t3:0 | t1:2,5 t2:2,5 t3:1"
_MIXED: Final = "t1:5 t2:0,2,4,6 | t1:3 t2:1,3,5 t3:0 | t1:0,1,2,4 t3:1"
_MIXED_WITH_ONE_REPLICA: Final = "t1:3 t2:0,2,3,6 | t1:4 t2:1,4,5 t3:0 | t1:0,1,2,5 t3:1"
_OWNED: Final = "t1:0-4 | t1:5 t2:0-3 | t2:4-6 t3:0,1"

OF_BOTH_STICKY: Final = [
    *_cases(
        "testRackAwareAssignmentWithUniformSubscription",
        UNEVEN,
        _ALL,
        (_racks(1, "abc", "abc"), 0, _ROUND),
        (_racks(2, "abc", "abc"), 0, _ROUND),
        (_racks(3, "ab", "abc"), 5, _ROUND),
        same=_ROUND,
    ),
    *_cases(
        "testRackAwareAssignmentWithNonEqualSubscription",
        UNEVEN,
        _NOT_ALL,
        (_racks(1, "abc", "abc"), 4, _MIXED_WITH_ONE_REPLICA),
        (_racks(2, "abc", "abc"), 0, "t1:3 t2:0,2,5,6 | t1:0 t2:1,3,4 t3:0 | t1:1,2,4,5 t3:1"),
        (_racks(3, "ab", "abc"), 5, _MIXED),
        same=_MIXED,
    ),
]


def _owning(owned: str, case: RackCase) -> RackCase:
    return RackCase(
        test=case.test,
        sizes=case.sizes,
        topics=case.topics,
        racks=case.racks,
        plan=case.plan,
        in_other_racks=case.in_other_racks,
        owned=owned.split("|"),
    )


def _owning_cases(test: str, topics: Sequence[str], *plans: tuple[str, Racks, int, str]) -> list[RackCase]:
    return [_owning(owned, *_cases(test, UNEVEN, topics, (racks, count, plan))) for owned, racks, count, plan in plans]


_GIVING_UP: Final = "t1:2-4 | t2:0-3 | t3:0,1"
_AFTER_GIVING_UP: Final = "t1:2-4 t2:4,5 | t2:0-3,6 | t1:0,1,5 t3:0,1"

OF_COOPERATIVE: Final = [
    *(_owning("|".join(each.plan), each) for each in OF_BOTH_STICKY),
    *_owning_cases(
        "testRackAwareAssignmentWithUniformSubscription",
        _ALL,
        (_OWNED, _racks(1, "abc", "abc"), 0, "t1:0,3 | t2:1 | t2:5 t3:1"),
    ),
    *_owning_cases(
        "testRackAwareAssignmentWithNonEqualSubscription",
        _NOT_ALL,
        (_OWNED, _racks(1, "abc", "abc"), 0, "t1:3 | t2:1 | t3:1"),
        ("t1:3 | t2:1 | t3:1", _racks(1, "abc", "abc"), 4, _MIXED_WITH_ONE_REPLICA),
        (_OWNED, _racks(3, "abc", "abc"), 0, _GIVING_UP),
        (_GIVING_UP, _racks(3, "abc", "abc"), 0, _AFTER_GIVING_UP),
    ),
]

_PLAYED: Final = [
    *(("range", each) for each in OF_RANGE),
    *((strategy, each) for each in OF_BOTH_STICKY for strategy in ("sticky", "cooperative-sticky")),
    *(("cooperative-sticky", each) for each in OF_COOPERATIVE),
]


@pytest.mark.parametrize(("strategy", "case"), _PLAYED, ids=[f"{strategy}: {case}" for strategy, case in _PLAYED])
def test_the_plan_is_that_of_kafkas_test(plan_of: PlanOf, strategy: str, case: RackCase) -> None:
    plan = plan_of(case.case(strategy))
    expected = {f"consumer{number}": text for number, text in enumerate(case.plan)}
    assert written(plan) == normal(expected)
    if case.in_other_racks != _NOT_ANY:
        in_sets = {member_id: partitions(text) for member_id, text in written(plan).items()}
        assert case.count_in_other_racks(in_sets) == case.in_other_racks


@pytest.mark.parametrize("ids", [("consumer1", "consumer2", "consumer3"), ("consumer1", "consumer5", "consumer4")])
def test_static_members_with_racks_have_the_same_plan_under_other_member_ids(
    plan_of: PlanOf, ids: tuple[str, str, str]
) -> None:
    """testRackAwareStaticMemberRangeAssignmentPersistentAfterMemberIdChanges"""
    members = {
        member_id: Joining(topics="topic1 topic2", instance_id=f"instance{number}", rack=rack)
        for number, (member_id, rack) in enumerate(zip(ids, "abc", strict=True), start=1)
    }
    racks = {topic: racks_of_replicas({topic: 5}, 2, "abcabc")[topic] for topic in ("topic1", "topic2")}
    plan = plan_of(case_of("range", {"topic1": 5, "topic2": 5}, members, racks))
    shares = ("topic1:0,2 topic2:0,2", "topic1:1,3 topic2:1,3", "topic1:4 topic2:4")
    assert written(plan) == dict(zip(ids, shares, strict=True))


def test_what_two_members_exchange_for_the_sake_of_racks_is_transferred() -> None:
    """testUniformSubscriptionTransferOwnershipListIsRight"""
    members = {
        "c0": Joining(topics="topic1", owned="topic1:0,1", generation=1, rack="a"),
        "c1": Joining(topics="topic1", owned="topic1:2,3", generation=1, rack="b"),
    }
    racks = racks_of_replicas({"topic1": 4}, 1, "ab")
    case = case_of("cooperative-sticky", {"topic1": 4}, members, racks)
    transferred = plan_sticky(case.subscribers(), Topics(counts=case.counts, racks=racks)).transferred
    assert transferred is not None
    assert len(transferred) == 2


_HERE: Final = [set("abc")] * 10
_PARTLY: Final = [{"abc"[number % 3]} for number in range(10)]


@pytest.mark.parametrize(
    ("members", "replicas", "is_needed"),
    [
        ("", _HERE, False),
        ("abc", [set[str]()] * 10, False),
        ("d", _HERE, False),
        ("abc", _HERE, False),
        ("ab", _HERE, False),
        ("ad", _HERE, False),
        ("abc", _PARTLY, True),
        ("ab", _PARTLY, True),
        ("ad", _PARTLY, True),
    ],
)
def test_racks_are_considered_where_some_partition_is_not_in_all_of_them(
    members: str, replicas: list[set[str]], is_needed: bool
) -> None:
    """testUseRackAwareAssignment"""
    assert needs_rack_awareness(members, replicas) == is_needed
