"""Cases of Kafka's own tests of its assignors, as data: the members of a group, and the plan that Kafka expects.

Partitions are written as `t1:0,1 t2:0-3`: of t1 those with the numbers 0 and 1, of t2 those from 0 to 3.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kcoord.assignors.plan import TopicPartitions
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    write_cooperative_user_data,
    write_sticky_user_data,
)
from tests.assignors.cases import Case, CaseMember

AS_ASSIGNED: Final = "what the step before assigned"
RACKS: Final = "abcdef"
_NEWEST: Final = 3
_GENERATION: Final = 1
_MOST_REBALANCES: Final = 4
"""How many rebalances more Kafka's tests allow a cooperative group to come to rest."""

Plans = Mapping[str, TopicPartitions] | Mapping[str, Mapping[str, set[int]]]
PlanOf = Callable[[Case], Plans]
"""Plans for a case: kcoord's assignors do, and Kafka's."""
Written = dict[str, str]
"""A plan as text, by member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a member joins with. `generation` is None if it does not know one, and -1 if it sends that it does not."""

    topics: str
    owned: str = ""
    generation: int | None = None
    instance_id: str | None = None
    rack: str | None = None
    version: int = _NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """One case: `test` is the name of Kafka's test, `plan` is what it expects of each member."""

    test: str
    sizes: Mapping[str, int]
    members: Mapping[str, Joining]
    plan: Mapping[str, str]
    racks: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.test


def partitions(text: str) -> dict[str, list[int]]:
    """Reads partitions, by topic."""
    by_topic: dict[str, list[int]] = {}
    for part in text.split():
        topic, _, numbers = part.rpartition(":")
        by_topic[topic] = [number for each in numbers.split(",") for number in _run(each)]
    return by_topic


def written(plan: Plans) -> Written:
    """Returns a plan as text. Topics and numbers are sorted, and each number is written out."""
    return {member_id: _written_partitions(held) for member_id, held in plan.items()}


def normal(plan: Mapping[str, str]) -> Written:
    """Returns a plan that is given as text in the form of `written`."""
    return written({member_id: partitions(text) for member_id, text in plan.items()})


def case_of(
    strategy: str,
    sizes: Mapping[str, int],
    members: Mapping[str, Joining],
    racks: Mapping[str, Sequence[Collection[str]]] | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> Case:
    """Makes the case of these members for a strategy."""
    topics = {*sizes, *(topic for each in members.values() for topic in each.topics.split())}
    numbered = {topic: UUID(int=number) for number, topic in enumerate(sorted(topics), start=1)}
    return Case(
        strategy=strategy,
        counts=sizes,
        members=[_case_member(strategy, member_id, each) for member_id, each in members.items()],
        topic_ids=topic_ids or numbered,
        racks={topic: [list(each) for each in by_partition] for topic, by_partition in (racks or {}).items()},
    )


def racks_of_replicas(sizes: Mapping[str, int], replicas: int, racks: Sequence[str]) -> dict[str, list[set[str]]]:
    """Returns the racks of each partition, as Kafka's tests distribute replicas: to one broker after the other, of
    which each is in the rack at its position, over the partitions of all topics."""
    by_topic: dict[str, list[set[str]]] = {}
    first = 0
    for topic, size in sizes.items():
        by_topic[topic] = [
            {racks[(first + number + replica) % len(racks)] for replica in range(replicas)} for number in range(size)
        ]
        first += size
    return by_topic


def all_racks(sizes: Mapping[str, int], racks: str = "abc") -> dict[str, list[set[str]]]:
    """Returns the racks of partitions that all have a replica in each rack."""
    return {topic: [set(racks)] * size for topic, size in sizes.items()}


def at_rest(plan_of: PlanOf, case: Case, members: Mapping[str, Joining], plan: Plans) -> Plans:
    """Returns the plan in which nobody has to give up anything any more, after a cooperative group has rebalanced as
    often as necessary. Of another group this is its first plan."""
    rebalances = 0
    while case.strategy == "cooperative-sticky" and _has_revoked(members, plan):
        rebalances += 1
        assert rebalances <= _MOST_REBALANCES
        members = {
            member_id: Joining(
                topics=each.topics, rack=each.rack, generation=_GENERATION, owned=_written_partitions(plan[member_id])
            )
            for member_id, each in members.items()
        }
        case = case_of(case.strategy, case.counts, members, case.racks)
        plan = plan_of(case)
    return plan


def check_valid_and_balanced(plan: Plans, members: Mapping[str, Joining]) -> None:
    """Checks what Kafka's tests check of each plan: members have only topics that they are subscribed to, no partition
    has two owners, and of two members that have the same topic neither has two partitions more than the other."""
    owned = [(topic, number) for held in plan.values() for topic, numbers in held.items() for number in numbers]
    assert len(owned) == len(set(owned))
    for member_id, held in plan.items():
        assert set(held) <= set(members[member_id].topics.split())
    sizes = {member_id: sum(map(len, held.values())) for member_id, held in plan.items()}
    assert not [
        (one, other)
        for one in plan
        for other in plan
        if sizes[one] > sizes[other] + 1 and plan[one].keys() & plan[other].keys()
    ]


def _case_member(strategy: str, member_id: str, joining: Joining) -> CaseMember:
    owned = partitions(joining.owned)
    return CaseMember(
        member_id=member_id,
        instance_id=joining.instance_id,
        version=joining.version,
        target=owned,
        subscription=Subscription(
            topics=tuple(joining.topics.split()),
            user_data=_user_data(strategy, joining),
            owned=owned,
            generation=joining.generation,
            rack=joining.rack,
        ),
    )


def _user_data(strategy: str, joining: Joining) -> bytes | None:
    if strategy == "sticky" and (joining.owned or joining.generation is not None):
        data = OwnedPartitions(owned=partitions(joining.owned), generation=joining.generation)
        return write_sticky_user_data(data)
    if strategy == "cooperative-sticky" and joining.generation is not None:
        # From version 2 on, the generation has a field. Kafka's tests leave the one of the user data unknown then.
        return write_cooperative_user_data(joining.generation if joining.version < 2 else -1)
    return None


def _has_revoked(members: Mapping[str, Joining], plan: Plans) -> bool:
    return any(
        set(numbers) - set(plan[member_id].get(topic, ()))
        for member_id, each in members.items()
        for topic, numbers in partitions(each.owned).items()
    )


def _run(numbers: str) -> range:
    first, _, last = numbers.partition("-")
    return range(int(first), int(last or first) + 1)


def _written_partitions(by_topic: Mapping[str, Collection[int]]) -> str:
    return " ".join(f"{topic}:{','.join(map(str, sorted(by_topic[topic])))}" for topic in sorted(by_topic))
