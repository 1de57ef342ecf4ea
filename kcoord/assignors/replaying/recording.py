"""What was recorded of a group, generation by generation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kcoord.assignors.plan import Partition, Subscriber, TopicPartitions, list_partitions
from kcoord.assignors.strategies import STRATEGIES, RebalanceStyle

Owners: TypeAlias = dict[Partition, str]  # by partition: the instance id or member id that has it


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMember:
    """A member of a group in one generation, with what the generation assigned to it.

    `claims` is whether its subscription has partitions that it still owns: it does not give up everything before it
    joins. `last_commit_ms` is when one of its partitions was last committed before the next generation was written.
    """

    member_id: str
    topics: Sequence[str]
    assigned: TopicPartitions = field(default_factory=dict)
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None = None
    rack: str | None = None
    claims: bool = False
    last_commit_ms: int | None = None

    @property
    def identity(self) -> str:
        """What the coordinator knows the member by when it comes back: its instance id, or else its member id."""
        return self.member_id if self.instance_id is None else self.instance_id

    def as_subscriber(self, owned: TopicPartitions, generation: int | None) -> Subscriber:
        """Returns the member as an assignor sees it, with the partitions that it owns since a generation."""
        return Subscriber(
            member_id=self.member_id,
            instance_id=self.instance_id,
            topics=tuple(self.topics),
            owned=owned,
            generation=generation,
            field_generation=generation,
            rack=self.rack,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A group as its coordinator wrote it: at the end of a rebalance, or when it was empty or deleted. Times are in
    milliseconds since 1970, and None if they are unknown.

    `joined_ms` is when the last member had joined, so that the plan could be made. `took_ms` is how long the rebalance
    took at least, `pause_ms` for how long the group committed nothing around it.
    """

    number: int | None
    written_ms: int | None = None
    joined_ms: int | None = None
    took_ms: int | None = None
    pause_ms: int | None = None
    protocol: str | None = None
    style: RebalanceStyle | None = None
    """How its members rebalanced, if that is known from elsewhere than the protocol's name and the subscriptions."""
    members: tuple[RecordedMember, ...] = ()
    is_deletion: bool = False
    has_beginning: bool = False
    """Whether the recording has the group from its beginning, if that is known from elsewhere than the numbers of its
    generations."""

    @property
    def rebalance_style(self) -> RebalanceStyle:
        """What the members had to give up. A protocol that is none of Kafka's is cooperative if members bring
        partitions that they own, otherwise eager."""
        if self.style is not None:
            return self.style
        if strategy := STRATEGIES.get(self.protocol or ""):
            return strategy.style
        return RebalanceStyle.COOPERATIVE if any(each.claims for each in self.members) else RebalanceStyle.EAGER

    @property
    def owners(self) -> Owners:
        """The owner of each partition that was assigned."""
        return {partition: each.identity for each in self.members for partition in list_partitions(each.assigned)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The generations of one group, in the order in which they were written."""

    group: str
    generations: tuple[Generation, ...]

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols that the members voted for, in the order in which they first appear."""
        return tuple(dict.fromkeys(each.protocol for each in self.generations if each.members and each.protocol))


def grown_counts(counts: Mapping[str, int], generations: Iterable[Generation]) -> dict[str, int]:
    """Returns the number of partitions of each topic: one more than the highest partition that was assigned so far. A
    topic never has fewer partitions than before."""
    grown = dict(counts)
    for generation in generations:
        for member in generation.members:
            for topic, partitions in member.assigned.items():
                grown[topic] = max(grown.get(topic, 0), *(number + 1 for number in partitions), 0)
    return grown
