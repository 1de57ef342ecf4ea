"""Replays the changes of a group through a strategy, and counts what each of them would have cost.

A strategy starts from its own previous plan, whatever the group had, and is played until its plan comes to rest before
the next change begins. What is counted:

| figure             | means                                                                                      |
|--------------------|--------------------------------------------------------------------------------------------|
| rebalances         | how often all members had to join: a cooperative strategy joins again to hand partitions   |
|                    | over; never for a strategy of the coordinator (KIP-848)                                    |
| moved              | partitions that got another owner than they had; a static member that comes back is the    |
|                    | same one                                                                                   |
| started            | partitions that nobody had before                                                          |
| paused             | partitions that somebody read before and nobody for a while: all of them under an eager    |
|                    | strategy, otherwise those that moved, or that nobody has any more                          |
| partition_ms       | each paused partition times how long the group committed nothing around the recorded       |
|                    | rebalance; under a strategy of the coordinator times the heartbeat interval, after which a |
|                    | member knows                                                                               |
| least_partition_ms | each paused partition times how long the log shows that the recorded rebalance took        |

Both times are those of the recorded rebalance, whose members may have had another strategy: nobody knows how long
another one would have taken.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kcoord.assignors.comparison import Outcome, play
from kcoord.assignors.plan import MemberPlan, Plan, Topics, count_partitions, spread
from kcoord.assignors.replaying.changes import Change, ChangeKind
from kcoord.assignors.replaying.recording import Generation, Owners, RecordedMember
from kcoord.assignors.strategies import RebalanceStyle, Strategy

DEFAULT_HEARTBEAT_MS: Final = 5000
"""Kafka's default of group.consumer.heartbeat.interval.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one change of a group cost, as the table of this module says. A time is None if it is not known how long the
    recorded rebalance took. `spread` is how many partitions more one member has than another one after it."""

    generation: int | None
    at_ms: int | None
    members: int
    rebalances: int = 0
    moved: int = 0
    started: int = 0
    paused: int = 0
    least_partition_ms: int | None = 0
    partition_ms: int | None = 0
    spread: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What all changes of a group cost together. `untimed` are those that paused partitions for a time that is not
    known: they are not in `partition_ms`."""

    rebalances: int
    moved: int
    started: int
    paused: int
    least_partition_ms: int | None
    partition_ms: int | None
    untimed: int
    spread: int
    failures: int

    @classmethod
    def of(cls, costs: Sequence[Cost]) -> "Total":
        """Returns the sums of what single changes cost, and the largest spread. A time is None if it is known of no
        change that paused something."""
        pausing = [each for each in costs if each.paused]
        return cls(
            rebalances=sum(each.rebalances for each in costs),
            moved=sum(each.moved for each in costs),
            started=sum(each.started for each in costs),
            paused=sum(each.paused for each in costs),
            least_partition_ms=_sum_of_known([each.least_partition_ms for each in pausing or costs]),
            partition_ms=_sum_of_known([each.partition_ms for each in pausing or costs]),
            untimed=sum(each.partition_ms is None for each in pausing),
            spread=max((each.spread for each in costs), default=0),
            failures=sum(each.failure is not None for each in costs),
        )


def replay(changes: Iterable[Change], strategy: Strategy, *, heartbeat_ms: int = DEFAULT_HEARTBEAT_MS) -> list[Cost]:
    """Returns what each change would have cost, had the group always had this strategy. Changes that are no rebalance
    have no row."""
    plan: Plan = {}
    members: Sequence[RecordedMember] = ()
    costs: list[Cost] = []
    for number, change in enumerate(changes):
        remembered = plan.keys()
        plan = _with_new_ids(plan, members, change.members)
        members = change.members
        if change.kind is ChangeKind.RETURNED:
            continue
        if change.kind is ChangeKind.EMPTIED:
            plan = {}
            continue
        # A client that was restarted has forgotten what it got before: only a coordinator still knows it.
        known = plan if strategy.is_server_side else {each: plan[each] for each in plan.keys() & remembered}
        subscribers = [each.as_subscriber(known.get(each.member_id, {}), number) for each in members]
        outcome = play(strategy.assign, strategy.style, subscribers, Topics(counts=change.counts), plan)
        if outcome.failure is None:
            plan = outcome.plan
        if change.kind.is_rebalance:
            costs.append(_cost(change, strategy, outcome, plan, heartbeat_ms))
    return costs


def recorded_costs(changes: Iterable[Change]) -> list[Cost]:
    """Returns what each recorded rebalance cost by the assignments in the log, counted as those of a replay are: the
    rebalances that handed partitions over have rows of their own."""
    before: Owners = {}
    last: Owners = {}
    costs: list[Cost] = []
    for change in changes:
        for each in change.recorded:
            if change.kind.is_rebalance:
                costs.append(_recorded_cost(each, before, last))
            before = each.owners
            last = last | before if each.members else {}
    return costs


def _with_new_ids(plan: Plan, before: Iterable[RecordedMember], now: Iterable[RecordedMember]) -> Plan:
    """Returns the plan with the new member ids of static members that came back."""
    ids = {each.instance_id: each.member_id for each in now if each.instance_id is not None}
    new = {each.member_id: ids.get(each.instance_id or "", each.member_id) for each in before}
    renamed: dict[str, MemberPlan] = {new.get(member_id, member_id): held for member_id, held in plan.items()}
    return renamed


def _cost(change: Change, strategy: Strategy, outcome: Outcome, plan: Plan, heartbeat_ms: int) -> Cost:
    paused = len(outcome.paused)
    is_incremental = strategy.style is RebalanceStyle.INCREMENTAL
    return Cost(
        generation=change.first.number,
        at_ms=change.first.written_ms,
        members=len(change.members),
        rebalances=outcome.rebalances,
        moved=len(outcome.moved),
        started=len(outcome.started),
        paused=paused,
        least_partition_ms=None if is_incremental else _times(paused, change.first.took_ms),
        partition_ms=_times(paused, heartbeat_ms if is_incremental else change.first.pause_ms),
        spread=spread(plan),
        failure=outcome.failure,
    )


def _recorded_cost(generation: Generation, before: Owners, last: Owners) -> Cost:
    now = generation.owners
    moved = [partition for partition, owner in now.items() if last.get(partition, owner) != owner]
    interrupted = [partition for partition, owner in before.items() if now.get(partition) != owner]
    paused = len(before) if generation.rebalance_style is RebalanceStyle.EAGER else len(interrupted)
    shares = [count_partitions(each.assigned) for each in generation.members]
    return Cost(
        generation=generation.number,
        at_ms=generation.written_ms,
        members=len(generation.members),
        rebalances=0 if generation.rebalance_style is RebalanceStyle.INCREMENTAL else 1,
        moved=len(moved),
        started=len(now.keys() - last.keys()),
        paused=paused,
        least_partition_ms=_times(paused, generation.took_ms),
        partition_ms=_times(paused, generation.pause_ms),
        spread=max(shares, default=0) - min(shares, default=0),
    )


def _times(paused: int, milliseconds: int | None) -> int | None:
    if milliseconds is None:
        return None if paused else 0
    return paused * milliseconds


def _sum_of_known(amounts: Sequence[int | None]) -> int | None:
    known = [each for each in amounts if each is not None]
    return sum(known) if known or not amounts else None
