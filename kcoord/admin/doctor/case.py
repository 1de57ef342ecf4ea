"""One group as the doctor knows it: its observations from the first snapshot to the last, and other facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.groups.group_snapshot import GroupSnapshot, PartitionLag, Snapshot
from kcoord.admin.groups.rates import COMMIT_INTERVAL
from kcoord.admin.model import Group, GroupType, Member, Topic, TopicPartition
from kcoord.assignors.plan import Plan, Subscriber
from kcoord.assignors.sticky import assign_sticky

MIN_SPAN: Final = 2 * COMMIT_INTERVAL  # a shorter time than two commits proves nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts that snapshots do not have. What is not in a mapping is unknown."""

    topics: Mapping[str, Topic] = field(default_factory=dict)
    missing_topics: frozenset[str] = frozenset()  # topics that do not exist, according to the cluster
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    consumer_config: Mapping[str, str] | None = None  # the properties of a consumer, if given


class Observation(NamedTuple):
    """A group in one snapshot."""

    at: float
    seen: GroupSnapshot


@dataclass(frozen=True, kw_only=True)
class Case:
    """One group. There is at least one observation; the oldest comes first."""

    observations: tuple[Observation, ...]
    snapshots: tuple[Snapshot, ...]
    facts: Facts

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]

    @property
    def group(self) -> Group:
        return self.last.seen.group

    @property
    def span(self) -> float:
        """Seconds from the first observation to the last."""
        return self.last.at - self.first.at

    @property
    def is_observed_long_enough(self) -> bool:
        return self.span >= MIN_SPAN

    @property
    def is_stable(self) -> bool:
        """Whether the group is Stable in the last snapshot, and of a type in which each partition has one owner."""
        return self.group.state == "Stable" and self.group.type in (GroupType.CLASSIC, GroupType.CONSUMER)

    @cached_property
    def subscribers(self) -> tuple[Subscriber, ...] | None:
        """The subscription and assignment of each member; None if those of some member are unknown."""
        members = self.group.members
        if not members or any(member.assignment is None or member.subscription is None for member in members):
            return None
        return tuple(
            Subscriber(
                member_id=member.member_id,
                instance_id=member.instance_id,
                topics=_wanted(member),
                owned=member.assignment or (),
            )
            for member in members
        )

    @cached_property
    def subscribed(self) -> frozenset[str]:
        """The topics that some member names or has partitions of. The matches of a pattern show only in the
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
        """The plan of a sticky assignor, as even as possible; None if too little is known, or the group is not
        stable."""
        if not self.is_stable or self.subscribers is None or self.partition_counts is None:
            return None
        return assign_sticky(self.subscribers, self.partition_counts)

    @cached_property
    def histories(self) -> dict[TopicPartition, list[PartitionLag]]:
        """The successive states of each partition, from each snapshot that has it."""
        found: dict[TopicPartition, list[PartitionLag]] = {}
        for observation in self.observations:
            for seen in observation.seen.partitions:
                found.setdefault(seen.tp, []).append(seen)
        return found

    def member(self, member_id: str) -> Member:
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
    """Returns how many records can still be read, None if unknown. Records that were deleted before the start of the
    log do not count, though Kafka's tool counts them as lag."""
    if seen.lag is None or seen.bounds is None:
        return seen.lag
    return min(seen.lag, seen.bounds.end - seen.bounds.start)


def partition_facts(tp: TopicPartition, **more: Any) -> dict[str, Any]:
    """Names a partition with the keys that every document of kcoord uses."""
    return {"topic": tp.topic, "partition": tp.partition, **more}


def member_facts(member: Member, **more: Any) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        **more,
    }


def _wanted(member: Member) -> frozenset[str]:
    return frozenset((*(member.subscription or ()), *(tp.topic for tp in member.assignment or ())))
