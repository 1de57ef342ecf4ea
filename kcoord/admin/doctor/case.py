"""One group as the doctor knows it: its observations from the first snapshot to the last, and other facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot
from kcoord.admin.groups.rates import COMMIT_INTERVAL
from kcoord.admin.groups.subscribers import subscribers_of
from kcoord.admin.model import Group, GroupType, Member, Topic, TopicPartition
from kcoord.assignors.plan import AssignorFailed, Plan, Subscriber, Topics
from kcoord.assignors.sticky.sticky import assign_sticky

MIN_SPAN: Final = 2 * COMMIT_INTERVAL  # a shorter time than two commits proves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that the doctor knows besides snapshots: topics, configs of topics and groups, and a consumer's
    properties. What is not in a mapping is unknown."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    missing_topics: frozenset[str] = frozenset()  # topics that do not exist, according to the cluster
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    consumer_config: Mapping[str, str] | None = None  # the properties of a consumer, if given


class Observation(NamedTuple):
    """A group in one snapshot, at the time `at` in seconds since 1970."""

    at: float
    seen: GroupSnapshot


@dataclass(frozen=True, kw_only=True)
class Case:
    """One group as the doctor examines it: at least one observation, the oldest first, and the facts."""

    observations: tuple[Observation, ...]
    snapshots: tuple[Snapshot, ...]
    facts: Facts

    @property
    def first(self) -> Observation:
        """The oldest observation of the group."""
        return self.observations[0]

    @property
    def last(self) -> Observation:
        """The newest observation of the group."""
        return self.observations[-1]

    @property
    def group(self) -> Group:
        """The group in the last snapshot."""
        return self.last.seen.group

    @property
    def span(self) -> float:
        """The time from the first observation of the group to the last, in seconds."""
        return self.last.at - self.first.at

    @property
    def is_observed_long_enough(self) -> bool:
        """Whether the observations span enough time to judge rates and rebalances."""
        return self.span >= MIN_SPAN

    @property
    def is_stable(self) -> bool:
        """Whether the group is Stable in the last snapshot, and of a type in which each partition has one owner."""
        return self.group.state == "Stable" and self.group.type in (GroupType.CLASSIC, GroupType.CONSUMER)

    @cached_property
    def subscribers(self) -> tuple[Subscriber, ...] | None:
        """The members with subscription and assignment, as the assignors take them; None if those of some member are
        unknown."""
        return subscribers_of(self.group.members)

    @cached_property
    def subscribed(self) -> frozenset[str]:
        """The topics that some member subscribes to or has partitions of. The matches of a pattern show only in the
        assignment."""
        return frozenset(topic for member in self.group.members for topic in _wanted(member))

    @cached_property
    def partition_counts(self) -> dict[str, int] | None:
        """The partition counts of all subscribed topics; None if some are unknown. A topic that does not exist has
        none."""
        known = {name: self.facts.topics[name] for name in self.subscribed if name in self.facts.topics}
        if self.subscribed - known.keys() - self.facts.missing_topics:
            return None
        return {name: len(topic.leaders) for name, topic in known.items()}

    @cached_property
    def even_plan(self) -> Plan | None:
        """The assignment that a sticky assignor would make, as even as possible; None if too little is known, the group
        is not stable, or Kafka's assignor would fail."""
        if not self.is_stable or self.subscribers is None or self.partition_counts is None:
            return None
        try:
            return assign_sticky(self.subscribers, Topics(counts=self.partition_counts))
        except AssignorFailed:
            return None

    @cached_property
    def histories(self) -> dict[TopicPartition, list[PartitionLag]]:
        """The lag of the group in each partition over time, from each snapshot that has the partition."""
        found: dict[TopicPartition, list[PartitionLag]] = {}
        for observation in self.observations:
            for seen in observation.seen.partitions:
                found.setdefault(seen.tp, []).append(seen)
        return found

    def member(self, member_id: str) -> Member:
        """Returns the group's member of this id."""
        return next(member for member in self.group.members if member.member_id == member_id)

    def finding(
        self,
        severity: Severity,
        code: Code,
        title: str,
        *,
        evidence: Iterable[str],
        advice: str,
        **facts: Any,
    ) -> Finding:
        """Makes a finding about this group. `facts` are the complete evidence, for programs."""
        return Finding(
            severity=severity,
            code=code,
            group=self.group.name,
            title=title,
            evidence=tuple(evidence),
            advice=advice,
            facts=facts,
        )


def unread_records(seen: PartitionLag) -> int | None:
    """Returns how many records of a partition the group can still read, None if unknown. Records that were deleted
    before the log start do not count, though Kafka's tool counts them as lag."""
    if seen.lag is None or seen.bounds is None:
        return seen.lag
    return min(seen.lag, seen.bounds.end - seen.bounds.start)


def partition_facts(tp: TopicPartition, **more: Any) -> dict[str, Any]:
    """Returns a partition as a JSON object, with the keys that all output of kcoord uses, and further keys."""
    return {"topic": tp.topic, "partition": tp.partition, **more}


def member_facts(member: Member, **more: Any) -> dict[str, Any]:
    """Returns a member as a JSON object, with the keys that all output of kcoord uses, and further keys."""
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        **more,
    }


def _wanted(member: Member) -> frozenset[str]:
    return frozenset((*(member.subscription or ()), *(tp.topic for tp in member.assignment or ())))
