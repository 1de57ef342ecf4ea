"""Compares strategies for one group: who gets what, how even it is, what moves and what pauses.

A plan alone does not show what a rebalance costs. An eager strategy stops every partition, whether it moves or not; a
cooperative one stops what moves, in one rebalance, and its new owner starts in a second one; a coordinator that plans
itself (KIP-848) stops what moves, member by member, without a rebalance of the group. So each strategy is played until
its plan does not change any more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, sqrt
from typing import Final

from kcoord.assignors.plan import (
    AssignorFailed,
    Partition,
    Plan,
    Subscriber,
    TopicPartitions,
    Topics,
    count_partitions,
    list_partitions,
    with_owned,
)
from kcoord.assignors.strategies import Assign, RebalanceStyle

_MOST_REBALANCES: Final = 10
"""A strategy whose plan still changes then does not settle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """How evenly something is shared among members: the least and the most that one has, and the standard deviation."""

    least: float
    most: float
    deviation: float

    @classmethod
    def of(cls, amounts: Collection[float]) -> "Balance":
        """Returns the balance of what each member has."""
        if not amounts:
            return cls(least=0, most=0, deviation=0)
        mean = fsum(amounts) / len(amounts)
        return cls(
            least=min(amounts),
            most=max(amounts),
            deviation=sqrt(fsum((amount - mean) ** 2 for amount in amounts) / len(amounts)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a strategy makes of a group: the plan on which it comes to rest, and what it cost to get there.

    `moved` are partitions that have another owner than before, `started` those that had none, `stopped` those that have
    none any more. `paused` are partitions that nobody reads for a while, of those that were read before. `rebalances`
    is how many the group needs: 0 if its members change one by one, and 10 if it is not at rest by then. `before` is
    the assignment that the group came from. `failure` is the exception of Kafka's assignor, and then there is no plan.
    """

    plan: Plan = field(default_factory=dict)
    before: Mapping[str, TopicPartitions] = field(default_factory=dict)
    moved: frozenset[Partition] = frozenset()
    started: frozenset[Partition] = frozenset()
    stopped: frozenset[Partition] = frozenset()
    paused: frozenset[Partition] = frozenset()
    rebalances: int = 0
    failure: str | None = None

    def balance(self, weights: Mapping[Partition, float] | None = None) -> Balance:
        """Returns how evenly partitions are shared; with weights, such as their lag, how evenly these are."""
        return balance_of(self.plan, weights)


def balance_of(assignment: Mapping[str, TopicPartitions], weights: Mapping[Partition, float] | None = None) -> Balance:
    """Returns how evenly an assignment shares partitions among members; with weights, such as their lag, how evenly it
    shares these."""
    if weights is None:
        return Balance.of([count_partitions(held) for held in assignment.values()])
    return Balance.of([weight_of(held, weights) for held in assignment.values()])


def weight_of(held: TopicPartitions, weights: Mapping[Partition, float]) -> float:
    """Returns the sum of the weights of partitions; one without a weight counts 0."""
    return fsum(weights.get(partition, 0) for partition in list_partitions(held))


def changes_of(outcome: Outcome) -> tuple[dict[str, list[Partition]], dict[str, list[Partition]]]:
    """Returns the partitions that each member gains by an outcome, and those that it loses, by member id."""
    before, after = owners(outcome.before), owners(outcome.plan)
    gained: dict[str, list[Partition]] = {}
    lost: dict[str, list[Partition]] = {}
    for partition in sorted(outcome.moved | outcome.started | outcome.stopped):
        if partition in after:
            gained.setdefault(after[partition], []).append(partition)
        if partition in before:
            lost.setdefault(before[partition], []).append(partition)
    return gained, lost


def play(
    assign: Assign,
    style: RebalanceStyle,
    subscribers: Sequence[Subscriber],
    topics: Topics,
    now: Mapping[str, TopicPartitions],
) -> Outcome:
    """Returns what becomes of a group whose members are these, and whose assignment is `now`, in which members that
    have left may still be."""
    members, rebalances = list(subscribers), 0
    try:
        plan = assign(members, topics)
        while style is RebalanceStyle.COOPERATIVE and rebalances < _MOST_REBALANCES:
            rebalances += 1
            members = [with_owned(each, plan[each.member_id]) for each in members]
            following = assign(members, topics)
            if _same(following, plan):
                break
            plan = following
    except AssignorFailed as failed:
        return Outcome(failure=str(failed))
    if style is RebalanceStyle.EAGER:
        rebalances = 1
    before, after = owners(now), owners(plan)
    moved = frozenset(each for each in before.keys() & after.keys() if before[each] != after[each])
    stopped = frozenset(before.keys() - after.keys())
    return Outcome(
        plan=plan,
        before=now,
        moved=moved,
        started=frozenset(after.keys() - before.keys()),
        stopped=stopped,
        paused=frozenset(before) if style is RebalanceStyle.EAGER else moved | stopped,
        rebalances=rebalances,
    )


def owners(plan: Mapping[str, TopicPartitions]) -> dict[Partition, str]:
    """Returns the owner of each partition by an assignment."""
    return {partition: member_id for member_id, held in plan.items() for partition in list_partitions(held)}


def _same(one: Plan, other: Plan) -> bool:
    return {member: set(list_partitions(held)) for member, held in one.items()} == {
        member: set(list_partitions(held)) for member, held in other.items()
    }
