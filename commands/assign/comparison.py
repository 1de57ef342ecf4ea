"""A group with what each strategy makes of it: what `kcoord assign compare` shows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcoord.admin.formatting import format_count
from kcoord.admin.groups.group_scenario import LiveScenario
from kcoord.admin.model import Group, GroupType
from kcoord.assignors.comparison import Outcome
from kcoord.assignors.plan import Plan, list_partitions
from kcoord.assignors.scenario import AssignedGroup, Scenario
from kcoord.assignors.strategies import STRATEGIES

from .leaders import LeaderOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Strategies compared for a group. `present` is the strategy by which a live group plans now. `labels` are short
    names of members by member id, where there are any. `leaders` are the plans of other libraries, `client_strategies`
    the list of a client about which the libraries were asked."""

    scenario: Scenario
    outcomes: Mapping[str, Outcome]
    group: str | None = None
    present: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    leaders: Sequence[LeaderOutcome] = ()
    client_strategies: Sequence[str] = ()

    def label(self, member_id: str) -> str:
        """Returns the name under which a member is shown."""
        return self.labels.get(member_id, member_id)

    @property
    def title(self) -> str:
        """The group in a few words: how many members and partitions, before the change and after it."""
        name = f"group {self.group}" if self.group is not None else "a group"
        text = f"{name} of {_size(self.scenario.after)}"
        return text + (f"; before: {_size(self.scenario.before)}" if self.scenario.is_changed else "")


def headline(strategy: str, outcome: Outcome) -> str:
    """Returns the headline of a strategy's plan: how even it is, and what it costs."""
    if outcome.failure is not None:
        return f"{strategy}: Kafka's assignor fails: {outcome.failure}"
    balance = outcome.balance()
    sizes = f"{balance.least:g} to {balance.most:g} partitions"
    if balance.least == balance.most:
        sizes = format_count(round(balance.least), "partition")
    text = f"{strategy}: {sizes} per member"
    if any(outcome.before.values()):
        text += f", {len(outcome.moved):,} move, {len(outcome.paused):,} pause"
    return text + (f", {len(outcome.stopped):,} have no reader any more" if outcome.stopped else "")


def compare(scenario: Scenario, names: Sequence[str]) -> dict[str, Outcome]:
    """Returns what each of these strategies makes of a scenario."""
    return {name: scenario.outcome(STRATEGIES[name].assign, STRATEGIES[name].style) for name in names}


def present_strategy(group: Group) -> str | None:
    """Returns the name of the strategy by which a live group plans, or None if it is none of Kafka's."""
    name = "server-range" if group.type is GroupType.CONSUMER and group.protocol == "range" else group.protocol
    return name if name in STRATEGIES else None


def member_labels(live: LiveScenario) -> dict[str, str]:
    """Returns short names of the members: the instance id of a static one, the client id if no other member has it."""
    members = live.seen.group.members
    clients = Counter(member.client_id for member in members)
    return {
        member.member_id: member.instance_id or member.client_id
        for member in members
        if member.instance_id or (member.client_id and clients[member.client_id] == 1)
    }


def added_labels(scenario: Scenario) -> dict[str, str]:
    """Returns short names of the members that a what-if adds."""
    known = {each.member_id for each in scenario.before.members}
    added = [each.member_id for each in scenario.after.members if each.member_id not in known]
    return {member_id: f"new-{number}" for number, member_id in enumerate(added, start=1)}


def local_partitions(group: AssignedGroup, plan: Plan) -> int | None:
    """Counts the partitions that their owner can read from a replica in its own rack; None if no racks are known."""
    racks = {each.member_id: each.rack for each in group.members}
    if not group.topics.racks or not any(racks.values()):
        return None
    return sum(
        racks.get(member_id) in by_partition[number]
        for member_id, held in plan.items()
        for topic, number in list_partitions(held)
        if number < len(by_partition := group.topics.racks.get(topic, ()))
    )


def _size(group: AssignedGroup) -> str:
    partitions = sum(group.topics.counts.values())
    return f"{format_count(len(group.members), 'member')}, {format_count(partitions, 'partition')}"
