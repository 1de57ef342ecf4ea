"""A simulated consumer. It behaves as real consumers do, with random delays and mistakes.

find the coordinator ─► join ─► sync ─► fetch offsets ─► heartbeats and commits ─┐
         ▲               ▲                                                        │
         │               └──────── REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, … ◄──┤
         └──────────────── NOT_COORDINATOR, a connection that broke ◄─────────────┘
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.member import Protocols
from kcoord.groups.classic.protocols import topics_of
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import CommitReply, FetchOffsetsReply, HeartbeatReply, JoinedMember, JoinReply, SyncReply
from kcoord.groups.requests import (
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    RequestedGroup,
    Sync,
    TopicPartitions,
)
from tests.simulation.environment import Environment
from tests.simulation.link import Call, Link
from tests.simulation.server import TOPICS, Server
from tests.support.groups.commits import Line, commit_of
from tests.support.groups.subscriptions import subscription_to

GARBAGE: Final = b"\x00\x01\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of a consumer, which all its lives have in common."""

    name: str
    group_id: str
    instance_id: str | None
    session_timeout: float
    rebalance_timeout: float
    prefers_sticky: bool
    is_garbled: bool  # its subscription cannot be parsed
    needs_known_id: bool
    can_skip_assignment: bool
    is_two_handed: bool  # commits over a separate connection


class Consumer:
    """One life: a process from start to end. Answers to requests of an earlier turn are ignored."""

    def __init__(self, environment: Environment, server: Server, traits: Traits, topics: tuple[str, ...]) -> None:
        self.traits = traits
        self.is_alive = True
        self.is_in_group = False
        self.member_id = ""
        self.generation = -1
        self.assignment = b""
        self.owned: dict[tuple[str, int], int] = {}  # partitions, and the offset that comes next
        self.topics = topics
        self._environment = environment
        self._server = server
        self._turn = 0
        self._sleeps_until = 0.0
        self._must_rejoin = False
        self._link: Link | None = None
        self._commit_link: Link | None = None
        self._find_coordinator()

    # Events from outside.

    def end(self) -> None:
        """Dies without leaving the group."""
        self._environment.note(self.traits.name, "ends")
        self.is_alive = self.is_in_group = False
        self._hang_up()

    def sleep(self, seconds: float) -> None:
        """Pauses in the middle of everything, as for a garbage collection, without noticing it."""
        self._environment.note(self.traits.name, f"sleeps {seconds:.1f} s")
        self._sleeps_until = self._environment.now + seconds

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics
        if self.is_in_group:
            self._join()

    def leave(self) -> None:
        if not self.is_in_group:
            self.end()
            return
        self._begin_turn()
        leaving = LeavingMember(member_id=self.member_id, instance_id=self.traits.instance_id)
        self._ask(Coordinator.leave, Leave(group_id=self.traits.group_id, members=(leaving,)), lambda reply: self.end())

    # Joining the group.

    def _find_coordinator(self) -> None:
        self._begin_turn()
        self._hang_up()
        self._after(self._environment.rng.expovariate(10), self._connect)

    def _connect(self) -> None:
        nodes = list(self._server.cluster.nodes)
        is_misled = self._environment.goes_wrong(0.05)
        node_id = self._environment.rng.choice(nodes) if is_misled else self._server.node_of(self.traits.group_id)
        self._link = self._server.connect(node_id, self._closed)
        self._commit_link = self._server.connect(node_id, self._closed) if self.traits.is_two_handed else self._link
        if self.is_in_group:
            self._take_part()
        else:
            self._join()

    def _join(self) -> None:
        self._begin_turn()
        self.is_in_group = False
        self.owned = {}
        traits = self.traits
        request = Join(
            group_id=traits.group_id,
            member_id=self.member_id,
            instance_id=traits.instance_id,
            client_id=traits.name,
            client_host="/127.0.0.1",
            session_timeout=traits.session_timeout,
            rebalance_timeout=traits.rebalance_timeout,
            protocol_type="consumer",
            protocols=self._protocols(),
            needs_known_id=traits.needs_known_id,
            can_skip_assignment=traits.can_skip_assignment,
        )
        self._ask(Coordinator.join, request, self._joined)
        if self._environment.goes_wrong(0.1):
            self._after(self._environment.rng.uniform(0, traits.rebalance_timeout), self._find_coordinator)

    def _protocols(self) -> Protocols:
        subscription = GARBAGE if self.traits.is_garbled else subscription_to(self.topics)
        names = ("sticky", "range") if self.traits.prefers_sticky else ("range", "sticky")
        return tuple((name, subscription) for name in names)

    def _joined(self, reply: JoinReply) -> None:
        if reply.error_code is ErrorCode.member_id_required:
            self.member_id = reply.member_id
            self._join()
            return
        if reply.error_code:
            self._despair(reply.error_code)
            return
        self._begin_turn()
        self.member_id = reply.member_id
        self.generation = reply.generation_id
        is_leader = reply.leader == reply.member_id and not reply.skip_assignment
        plan = self._plan(reply.members) if is_leader else {}
        delay = self._environment.rng.expovariate(20)
        if self._environment.goes_wrong(0.05):
            delay += self._environment.rng.uniform(0, 1.5 * self.traits.rebalance_timeout)
        self._after(delay, lambda: self._sync(plan, reply.protocol_name))
        self._beat_later()

    def _plan(self, members: tuple[JoinedMember, ...]) -> dict[str, bytes]:
        """Assigns partitions round-robin to subscribers. A hasty leader forgets a member."""
        known = members[1:] if self._environment.goes_wrong(0.05) else members
        subscriptions = {member.member_id: topics_of(member.metadata) or set() for member in known}
        parts: dict[str, list[str]] = {member_id: [] for member_id in subscriptions}
        for topic, partitions in TOPICS.items():
            takers = [member_id for member_id, topics in subscriptions.items() if topic in topics]
            for partition in range(partitions if takers else 0):
                parts[takers[partition % len(takers)]].append(f"{topic}-{partition}")
        return {member_id: " ".join(part).encode() for member_id, part in parts.items()}

    def _sync(self, plan: dict[str, bytes], protocol: str | None) -> None:
        request = Sync(
            group_id=self.traits.group_id,
            member_id=self.member_id,
            instance_id=self.traits.instance_id,
            generation=self.generation,
            protocol_type="consumer",
            protocol=protocol,
            plan=plan,
        )
        self._ask(Coordinator.sync, request, self._synced)

    def _synced(self, reply: SyncReply) -> None:
        if reply.error_code:
            self._despair(reply.error_code)
            return
        if self.is_in_group:  # it asked twice
            return
        self.assignment = reply.assignment
        names = [part.rsplit("-", 1) for part in reply.assignment.decode().split()]
        self.owned = {(topic, int(partition)): 0 for topic, partition in names}
        self._fetch()

    def _fetch(self) -> None:
        topics = [
            TopicPartitions(name=topic, topic_id=None, partitions=tuple(p for of, p in self.owned if of == topic))
            for topic in TOPICS
        ]
        asked = RequestedGroup(group_id=self.traits.group_id, topics=tuple(topics))
        self._ask(Coordinator.fetch_offsets, FetchOffsets(groups=(asked,), is_by_id=False), self._fetched)

    def _fetched(self, reply: FetchOffsetsReply) -> None:
        (group,) = reply.groups
        if group.error_code:
            self._despair(group.error_code)
            return
        if self.is_in_group:
            return
        for topic in group.topics:
            for line in topic.partitions:
                self.owned[topic.name or "", line.partition_index] = max(line.committed_offset, 0)
        self.is_in_group = True
        self._commit_later()

    # Life in the group.

    def _take_part(self) -> None:
        """Continues as a member after a reconnect."""
        self._beat_later()
        self._commit_later()

    def _beat_later(self) -> None:
        self._after(self.traits.session_timeout * self._environment.rng.uniform(0.2, 0.4), self._beat)

    def _beat(self) -> None:
        request = Heartbeat(
            group_id=self.traits.group_id,
            member_id=self.member_id,
            instance_id=self.traits.instance_id,
            generation=self.generation,
        )
        self._ask(Coordinator.heartbeat, request, self._beaten)
        self._beat_later()

    def _beaten(self, reply: HeartbeatReply) -> None:
        if reply.error_code:
            self._despair(reply.error_code)

    def _commit_later(self) -> None:
        self._after(self._environment.rng.expovariate(0.5), self._commit)

    def _commit(self) -> None:
        for partition in self.owned:
            self.owned[partition] += self._environment.rng.randint(0, 3)
        self._send_commit()
        self._commit_later()

    def _send_commit(self) -> None:
        topics = [
            (topic, [Line(partition, offset) for (of, partition), offset in self.owned.items() if of == topic])
            for topic in TOPICS
        ]
        request = commit_of(
            topics,
            group_id=self.traits.group_id,
            member_id=self.member_id,
            instance_id=self.traits.instance_id,
            generation=self.generation,
        )
        self._ask(Coordinator.commit, request, self._committed, self._commit_link)

    def _committed(self, reply: CommitReply) -> None:
        errors = [line.error_code for topic in reply.topics for line in topic.partitions if line.error_code]
        if errors:
            self._despair(errors[0])

    def _despair(self, error: ErrorCode) -> None:
        """Handles an error as consumers do. That no other error occurs is part of the test."""
        match error:
            case ErrorCode.rebalance_in_progress:
                self._join_when_ready()
            case ErrorCode.unknown_member_id:
                self.member_id = ""
                self._join()
            case ErrorCode.illegal_generation | ErrorCode.group_id_not_found:
                self.member_id = self._environment.rng.choice([self.member_id, ""])
                self._join()
            case ErrorCode.not_coordinator | ErrorCode.coordinator_not_available:
                self._find_coordinator()
            case (
                ErrorCode.fenced_instance_id | ErrorCode.inconsistent_group_protocol | ErrorCode.group_max_size_reached
            ):
                self.end()
            case _:
                raise AssertionError(f"{self.traits.name} does not know what to do about {error!r}")

    def _join_when_ready(self) -> None:
        """Finishes and commits current work before joining again; heartbeats go on meanwhile."""
        if self._must_rejoin:
            return
        self._must_rejoin = True
        if self.is_in_group and self._environment.rng.random() < 0.5:
            self._send_commit()
        delay = self._environment.rng.expovariate(5)
        if self._environment.goes_wrong(0.08):
            delay += self._environment.rng.uniform(0, 2 * self.traits.rebalance_timeout)
        self._after(delay, self._join)

    # Turns, and talking.

    def _begin_turn(self) -> None:
        self._turn += 1
        self._must_rejoin = False

    def _after(self, delay: float, action: Callable[[], None]) -> None:
        turn = self._turn
        self._environment.later(delay, lambda: self._do(turn, action))

    def _do(self, turn: int, action: Callable[[], None]) -> None:
        if not self.is_alive or turn != self._turn:
            return
        if self._environment.now < self._sleeps_until:
            self._environment.later(self._sleeps_until - self._environment.now, lambda: self._do(turn, action))
        else:
            action()

    def _ask(
        self, decide: Callable[..., Any], request: object, then: Callable[[Any], None], link: Link | None = None
    ) -> None:
        turn = self._turn
        call = Call(
            who=self.traits.name,
            decide=decide,
            request=request,
            then=lambda reply: self._do(turn, lambda: then(reply)),
        )
        used = link or self._link
        if used is None or not used.is_open:
            self._after(0.0, self._find_coordinator)
            return
        used.send(call)
        if self._environment.goes_wrong(0.02):  # sent again over another connection, though nothing was lost
            self._server.connect(used.node_id, lambda closed: None).send(call)

    def _closed(self, link: Link) -> None:
        if self.is_alive and link in (self._link, self._commit_link):
            self._begin_turn()
            self._after(0.0, self._find_coordinator)

    def _hang_up(self) -> None:
        links = [link for link in (self._link, self._commit_link) if link is not None]
        self._link = self._commit_link = None
        for link in links:
            link.drop()
