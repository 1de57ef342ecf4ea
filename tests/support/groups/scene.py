"""A coordinator with a manual clock, which stores the reply to every ticket.

def test_a_follower_that_syncs_first_waits_for_the_leader(scene):
    leader, follower = scene.stable_group(2)
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid5

from kcoord.errors import ErrorCode
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects, Event, answer
from kcoord.groups.instant import Instant
from kcoord.groups.records import Record
from kcoord.groups.replies import (
    CommitReply,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribedGroup,
    DescribeGroupsReply,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    LeaveReply,
    ListGroupsReply,
    OffsetLine,
    Reply,
    SyncReply,
)
from kcoord.groups.requests import (
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    ListGroups,
    RequestedGroup,
    Sync,
    TopicPartitions,
)
from kcoord.settings import Settings
from kcoord.tickets import Ticket
from tests.support.groups.commits import CommittedTopic, Line, commit_of

START = 1_000.0
WALL_START_MS = 1_700_000_000_000
ONE_PROTOCOL = (("range", b"subscription"),)

T = TypeVar("T", bound=Reply)


def subscription(*topics: str) -> bytes:
    """Returns the version 0 subscription of a consumer to these topics."""
    names = [name.encode() for name in topics]
    listed = b"".join(len(name).to_bytes(2) + name for name in names)
    return bytes(2) + len(names).to_bytes(4) + listed + (-1).to_bytes(4, signed=True)


class SomeTopics:
    """The existing topics, by name and number of partitions."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = dict(partitions)
        self.made = 0

    @property
    def deletion_epoch(self) -> int:
        return hash((self.made, *self.partitions.items()))

    def topic_id(self, name: str) -> UUID | None:
        return uuid5(UUID(int=self.made), name) if name in self.partitions else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name in self.partitions if self.topic_id(name) == topic_id), None)

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        return self.topic_id(name) == topic_id and partition < self.partitions_of(name)

    def partitions_of(self, name: str) -> int:
        return self.partitions.get(name, 0)


@dataclass(frozen=True, slots=True)
class Asking(Generic[T]):
    """A request that was sent, and its reply once there is one."""

    ticket: Ticket
    _answers: dict[Ticket, Reply]

    @property
    def is_parked(self) -> bool:
        return self.ticket not in self._answers

    @property
    def reply(self) -> T:
        assert not self.is_parked, "the request is not answered yet"
        return self._answers[self.ticket]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member that takes part in a generation."""

    member_id: str
    instance_id: str | None
    generation: int


class Scene:
    """A coordinator with a manual clock. Settings are given by field names: Scene(group_max_size=2)."""

    def __init__(self, *, owns: Callable[[str], bool] = lambda group_id: True, **settings: Any) -> None:
        self.settings = Settings(**{"group_initial_rebalance_delay_ms": 0, **settings})
        self.topics = SomeTopics(t=4, u=2)
        self._owns = owns
        self._ids = count(1)
        self._tickets = count(1)
        self.now = START
        self.answers: dict[Ticket, Reply] = {}
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.effects: list[Effects] = []
        self.coordinator = self._coordinator()

    def at(self) -> Instant:
        return Instant(self.now, WALL_START_MS + round((self.now - START) * 1000))

    def pass_time(self, seconds: float) -> None:
        """Advances the clock, and ticks at the instant of each deadline before that."""
        until = self.now + seconds
        while (deadline := self.coordinator.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.take(self.coordinator.tick(self.at()))
            after = self.coordinator.deadline()
            assert after is None or after > self.now, "after a tick, the next deadline is in the future"
        self.now = until

    def take(self, effects: Effects) -> None:
        self.effects.append(effects)
        self.records += effects.records
        self.events += effects.events
        for ticket, reply in effects.replies:
            assert ticket not in self.answers, "a ticket is answered once"
            self.answers[ticket] = reply

    def restart(self) -> None:
        """Replaces the coordinator by a new one that replays the records."""
        self.coordinator = self._coordinator()
        for record in self.records:
            self.coordinator.replay(record)
        self.take(self.coordinator.resume(self.at()))

    # Requests.

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        group_id: str = "g",
        client_id: str = "client",
        host: str = "/127.0.0.1",
        principal: str = "",
        protocols: tuple[tuple[str, bytes], ...] = ONE_PROTOCOL,
        protocol_type: str = "consumer",
        session_timeout: float = 10.0,
        rebalance_timeout: float = 60.0,
        reason: str | None = None,
        needs_known_id: bool = False,
        can_skip_assignment: bool = True,
    ) -> Asking[JoinReply]:
        request = Join(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host=host,
            session_timeout=session_timeout,
            rebalance_timeout=rebalance_timeout,
            protocol_type=protocol_type,
            protocols=protocols,
            reason=reason,
            needs_known_id=needs_known_id,
            can_skip_assignment=can_skip_assignment,
            principal=principal,
        )
        return self._ask(self.coordinator.join, request)

    def sync(
        self,
        member_id: str,
        generation: int,
        plan: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        group_id: str = "g",
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asking[SyncReply]:
        request = Sync(
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            protocol_type=protocol_type,
            protocol=protocol,
            plan=plan or {},
        )
        return self._ask(self.coordinator.sync, request)

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = "g"
    ) -> HeartbeatReply:
        request = Heartbeat(group_id=group_id, member_id=member_id, instance_id=instance_id, generation=generation)
        asking: Asking[HeartbeatReply] = self._ask(self.coordinator.heartbeat, request)
        return asking.reply

    def leave(self, *members: str | LeavingMember, group_id: str = "g") -> LeaveReply:
        leaving = tuple(LeavingMember(member_id=each) if isinstance(each, str) else each for each in members)
        asking: Asking[LeaveReply] = self._ask(self.coordinator.leave, Leave(group_id=group_id, members=leaving))
        return asking.reply

    def commit(
        self,
        offsets: dict[tuple[str | UUID, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        group_id: str = "g",
        metadata: str = "",
        leader_epoch: int = -1,
        retention: float | None = None,
        **holder: str,
    ) -> CommitReply:
        topics: dict[str | UUID, list[Line]] = {}
        for (topic, partition), offset in offsets.items():
            topics.setdefault(topic, []).append(Line(partition, offset, metadata, leader_epoch))
        request = commit_of(
            list(topics.items()),
            group_id=group_id,
            member_id=member_id,
            instance_id=instance_id,
            generation=generation,
            retention=retention,
            **holder,
        )
        asking: Asking[CommitReply] = self._ask(self.coordinator.commit, request)
        return asking.reply

    def commit_topics(self, *topics: CommittedTopic, generation: int = -1, group_id: str = "g") -> CommitReply:
        """Commits without a member, topic by topic as given."""
        request = commit_of(topics, group_id=group_id, generation=generation)
        asking: Asking[CommitReply] = self._ask(self.coordinator.commit, request)
        return asking.reply

    def fetch(
        self, topics: dict[str | UUID, list[int]] | None, *, group_id: str = "g", is_by_id: bool = False
    ) -> FetchOffsetsReply:
        asked = (
            None
            if topics is None
            else tuple(
                TopicPartitions(
                    name=topic if isinstance(topic, str) else None,
                    topic_id=None if isinstance(topic, str) else topic,
                    partitions=tuple(partitions),
                )
                for topic, partitions in topics.items()
            )
        )
        request = FetchOffsets(groups=(RequestedGroup(group_id=group_id, topics=asked),), is_by_id=is_by_id)
        asking: Asking[FetchOffsetsReply] = self._ask(self.coordinator.fetch_offsets, request)
        return asking.reply

    def fetch_groups(self, *groups: RequestedGroup) -> FetchOffsetsReply:
        asking: Asking[FetchOffsetsReply] = self._ask(
            self.coordinator.fetch_offsets, FetchOffsets(groups=groups, is_by_id=False)
        )
        return asking.reply

    def offset(self, topic: str = "t", partition: int = 0, *, group_id: str = "g") -> OffsetLine:
        """Returns the group's committed offset of one partition."""
        return self.fetch({topic: [partition]}, group_id=group_id).groups[0].topics[0].partitions[0]

    def delete_offsets(self, topics: dict[str, list[int]], *, group_id: str = "g") -> DeleteOffsetsReply:
        asked = tuple(
            TopicPartitions(name=name, topic_id=None, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
        request = DeleteOffsets(group_id=group_id, topics=asked)
        asking: Asking[DeleteOffsetsReply] = self._ask(self.coordinator.delete_offsets, request)
        return asking.reply

    def list_groups(self, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> ListGroupsReply:
        request = ListGroups(states=states, types=types)
        asking: Asking[ListGroupsReply] = self._ask(self.coordinator.list_groups, request)
        return asking.reply

    def describe(self, group_id: str = "g") -> DescribedGroup:
        request = DescribeGroups(group_ids=(group_id,))
        asking: Asking[DescribeGroupsReply] = self._ask(self.coordinator.describe_groups, request)
        return asking.reply.groups[0]

    def describe_groups(self, *group_ids: str, include_operations: bool = False) -> DescribeGroupsReply:
        request = DescribeGroups(group_ids=group_ids, include_operations=include_operations)
        asking: Asking[DescribeGroupsReply] = self._ask(self.coordinator.describe_groups, request)
        return asking.reply

    def delete_groups(self, *group_ids: str) -> DeleteGroupsReply:
        asking: Asking[DeleteGroupsReply] = self._ask(self.coordinator.delete_groups, DeleteGroups(group_ids=group_ids))
        return asking.reply

    # What happens elsewhere.

    def delete_topic(self, name: str) -> None:
        topic_id = self.topics.topic_id(name)
        assert topic_id is not None, "there is no such topic"
        del self.topics.partitions[name]
        self.take(self.coordinator.topic_deleted(name, topic_id))

    def kill_group(self, group_id: str = "g") -> None:
        """Makes the group Dead but leaves it registered, as for a caller that found it a moment before."""
        group = self.coordinator.groups[group_id]
        self.take(self.coordinator.unload(self.at()))
        self.coordinator.groups[group_id] = group

    # Whole passages.

    def state(self, group_id: str = "g") -> str:
        return self.describe(group_id).group_state

    def completing_group(self, members: int, *, group_id: str = "g", static: bool = False) -> list[Joined]:
        """Makes a group whose members have joined and not synced, the leader first. Static ones are called i0, i1, …"""
        instances = [f"i{number}" if static else None for number in range(members)]
        askings = [self.join("", instance, group_id=group_id) for instance in instances]
        if members > 1:
            first = askings[0].reply
            askings[0] = self.join(first.member_id, instances[0], group_id=group_id)
        assert self.state(group_id) == "CompletingRebalance"
        return [
            Joined(member_id=asking.reply.member_id, instance_id=instance, generation=asking.reply.generation_id)
            for asking, instance in zip(askings, instances, strict=True)
        ]

    def stable_group(self, members: int, *, group_id: str = "g", static: bool = False, **joining: Any) -> list[Joined]:
        """Makes a Stable group and returns its members, the leader first. Static ones are called i0, i1, …"""
        instances = [f"i{number}" if static else None for number in range(members)]
        first = self.join("", instances[0], group_id=group_id, **joining)
        ids = [first.reply.member_id]
        rest = [self.join("", instance, group_id=group_id, **joining) for instance in instances[1:]]
        if rest:
            again = self.join(ids[0], instances[0], group_id=group_id, **joining)
            ids += [asking.reply.member_id for asking in rest]
            generation = again.reply.generation_id
        else:
            generation = first.reply.generation_id
        plan = {member_id: f"assignment of {number}".encode() for number, member_id in enumerate(ids)}
        for member_id, instance in reversed(list(zip(ids, instances, strict=True))):
            self.sync(member_id, generation, plan, instance_id=instance, group_id=group_id)
        assert self.describe(group_id).group_state == "Stable"
        return [
            Joined(member_id=member_id, instance_id=instance, generation=generation)
            for member_id, instance in zip(ids, instances, strict=True)
        ]

    def ask(self, decide: Callable[[Coordinator, Any, Ticket, Instant], Effects | Reply], request: Any) -> Asking[Any]:
        """Sends any request to the coordinator's function that decides it."""
        return self._ask(lambda *asked: decide(self.coordinator, *asked), request)

    def _ask(self, decide: Callable[[Any, Ticket, Instant], Effects | Reply], request: Any) -> Asking[Any]:
        ticket = Ticket(next(self._tickets))
        effects = decide(request, ticket, self.at())
        self.take(effects if isinstance(effects, Effects) else answer(ticket, effects))
        return Asking(ticket, self.answers)

    def _coordinator(self) -> Coordinator:
        return Coordinator(
            settings=self.settings,
            topics=self.topics,
            fresh_id=lambda: f"{next(self._ids):036d}",
            refusal=lambda group_id: None if self._owns(group_id) else ErrorCode.not_coordinator,
        )
