"""A group to compare strategies for, and what-ifs: more members, fewer, more partitions, racks.

A scenario has the group before and after a change. What moves depends on what the members have before. For a group of a
live cluster that is its present assignment, so the comparison tells what it costs to change the strategy as well. For a
group that was only described, each strategy starts from its own plan, so the comparison tells what the change alone
costs under each strategy.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kcoord.assignors.comparison import Outcome, play
from kcoord.assignors.plan import AssignorFailed, Partition, Subscriber, TopicPartitions, Topics, with_owned
from kcoord.assignors.strategies import Assign, RebalanceStyle
from kcoord.exceptions import InvalidInput
from kcoord.java_hashing import string_order


class UnlikelyScenario(InvalidInput, ValueError):
    """Raised for a what-if that does not fit the group: it names an unknown member or topic, or takes partitions
    away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedGroup:
    """The members of a group with what they have, and the topics of its cluster."""

    members: tuple[Subscriber, ...]
    topics: Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A group before and after a change.

    `current` is the assignment before the change, or None if each strategy starts from its own plan for `before`.
    `lags` and `rates` are the records that are not consumed yet and the records per second that are written, by
    partition; None if they are unknown.
    """

    before: AssignedGroup
    after: AssignedGroup
    current: Mapping[str, TopicPartitions] | None = None
    lags: Mapping[Partition, float] | None = None
    rates: Mapping[Partition, float] | None = None

    @classmethod
    def of(
        cls, members: Iterable[Subscriber], topics: Topics, current: Mapping[str, TopicPartitions] | None = None
    ) -> "Scenario":
        """Returns the scenario of a group in which nothing changes yet."""
        group = AssignedGroup(members=tuple(members), topics=topics)
        return cls(before=group, after=group, current=current)

    @property
    def is_changed(self) -> bool:
        """Whether some what-if has changed the group."""
        return self.before != self.after

    def outcome(self, assign: Assign, style: RebalanceStyle) -> Outcome:
        """Returns what a strategy makes of the change."""
        current = self.current
        members = self.after.members
        if current is None:
            if not self.is_changed:
                return play(assign, style, members, self.after.topics, {})
            try:
                current = assign(self.before.members, self.before.topics)
            except AssignorFailed as failed:
                return Outcome(failure=str(failed))
            members = tuple(
                with_owned(each, current[each.member_id]) if each.member_id in current else each for each in members
            )
        return play(assign, style, members, self.after.topics, current)


def repeated_id(members: Iterable[Subscriber]) -> str | None:
    """Returns a member id or an instance id that two members have, or None if each has its own."""
    known = list(members)
    for ids in ([each.member_id for each in known], [each.instance_id for each in known if each.instance_id]):
        if repeated := next((each for each, count in Counter(ids).items() if count > 1), None):
            return repeated
    return None


def add_members(scenario: Scenario, count: int) -> Scenario:
    """Adds members that have the subscription that most members have, or of equally frequent ones that of the first
    member. Their ids sort behind all others, since some strategies depend on the order of ids: an id that a client gets
    may sort elsewhere."""
    members = scenario.after.members
    if not members:
        raise UnlikelyScenario("the group has no members whose subscription new ones could have")
    ((topics, _),) = Counter(tuple(sorted(each.topics)) for each in members).most_common(1)
    last = max((each.member_id for each in members), key=string_order)
    prefix = "" if string_order(last) < string_order("new-") else f"{last}-"
    digits = len(str(count))
    added = [Subscriber(member_id=f"{prefix}new-{number:0{digits}}", topics=topics) for number in range(1, count + 1)]
    return _with_members(scenario, (*members, *added))


def remove_members(scenario: Scenario, names: Collection[str]) -> Scenario:
    """Removes members. A name is a member id, an instance id, or the beginning of one member id alone."""
    members = scenario.after.members
    removed = {_find_member(members, name).member_id for name in names}
    return _with_members(scenario, tuple(each for each in members if each.member_id not in removed))


def set_partitions(scenario: Scenario, counts: Mapping[str, int]) -> Scenario:
    """Sets how many partitions topics have. They may only grow, as in Kafka."""
    topics = scenario.after.topics
    for topic, count in counts.items():
        if topic not in topics.counts:
            raise UnlikelyScenario(f"there is no topic {topic!r}; topics are {', '.join(topics.counts)}")
        if count < topics.counts.get(topic, 0):
            raise UnlikelyScenario(
                f"topic {topic} has {topics.counts[topic]} partitions: Kafka cannot make it {count}, only more"
            )
    return _with_topics(scenario, replace(topics, counts={**topics.counts, **counts}))


def set_racks(scenario: Scenario, racks: Sequence[str], *, replicas: int) -> Scenario:
    """Puts the members into these racks in turn. Replicas stay in the racks that are known; partitions of other topics
    get as many replicas as given, in racks that follow each other."""
    if replicas > len(racks):
        raise UnlikelyScenario(f"{replicas} replicas of a partition need as many racks: there are {len(racks)}")
    topics = scenario.after.topics
    spread = {
        topic: [
            frozenset(racks[(partition + replica) % len(racks)] for replica in range(replicas))
            for partition in range(count)
        ]
        for topic, count in topics.counts.items()
    }
    members = [
        replace(each, rack=racks[index % len(racks)])
        for index, each in enumerate(sorted(scenario.after.members, key=lambda each: each.member_id))
    ]
    known = {topic: [*racks, *spread[topic][len(racks) :]] for topic, racks in topics.racks.items() if topic in spread}
    return _with_topics(_with_members(scenario, members), replace(topics, racks={**spread, **known}))


def _find_member(members: Iterable[Subscriber], name: str) -> Subscriber:
    known = list(members)
    for found in (
        [each for each in known if name in (each.member_id, each.instance_id)],
        [each for each in known if each.member_id.startswith(name)],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            raise UnlikelyScenario(f"{name!r} could be {', '.join(sorted(each.member_id for each in found))}")
    raise UnlikelyScenario(f"there is no member {name!r}; members are {', '.join(each.member_id for each in known)}")


def _with_members(scenario: Scenario, members: Iterable[Subscriber]) -> Scenario:
    return replace(scenario, after=replace(scenario.after, members=tuple(members)))


def _with_topics(scenario: Scenario, topics: Topics) -> Scenario:
    return replace(scenario, after=replace(scenario.after, topics=topics))
