"""Random lives of two groups: the invariants hold after every step, for all requests in any order.

The rules do not know which requests are valid. They send them as members, as strangers with wrong ids and generations,
and as operators; a witness checks the results.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kcoord.errors import ErrorCode
from kcoord.groups.classic.member import Protocols
from kcoord.groups.classic.prevalidated import PrevalidatedCommit, PrevalidatedHeartbeat
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import Effects
from kcoord.groups.records import CommitInfo
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.groups.requests import Commit, Heartbeat, LeavingMember
from tests.groups.witness import Witness
from tests.support.groups import invariants
from tests.support.groups.commits import Line, commit_of
from tests.support.groups.scene import Asking, Scene
from tests.support.groups.subscriptions import subscription_to

RETENTION_MINUTES: Final = 2
LONGER_THAN_ANY_DEADLINE: Final = 10_000.0


groups = st.sampled_from(["g", "g", "g", "h"])
picks = st.integers(0, 40)
drifts = st.sampled_from([0, 0, 0, 0, 0, -1, 1])
topic_lists = st.lists(st.sampled_from(["t", "u"]), max_size=2, unique=True)
subscriptions = st.one_of(
    topic_lists.map(subscription_to),
    topic_lists.map(lambda topics: subscription_to(topics)[:-6]),
    st.binary(max_size=12),
)
offers = st.one_of(
    subscriptions.map(lambda subscription: (("range", subscription),)),
    subscriptions.map(lambda subscription: (("sticky", subscription), ("range", b""))),
    st.lists(st.tuples(st.sampled_from(["range", "sticky"]), subscriptions), max_size=2).map(tuple),
)
rebalance_timeouts = st.sampled_from([-1.0, 0.0, 6.0, 10.0, 60.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A client that has sent a join, and the member id in its answer."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    protocols: Protocols = (("range", b""),)
    protocol_type: str = "consumer"


STRANGER: Final = Known(group_id="g", member_id="stranger")


class GroupLife(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3_000]), max_size=st.sampled_from([2, 4, 1000]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.scene = Scene(
            group_initial_rebalance_delay_ms=delay_ms,
            group_max_size=max_size,
            offsets_retention_minutes=RETENTION_MINUTES,
            offset_metadata_max_bytes=10,
        )
        self.witness = Witness(self.scene)
        self.joins: list[tuple[Asking[JoinReply], Known]] = []
        self.heartbeats: list[tuple[PrevalidatedHeartbeat, Heartbeat]] = []
        self.commits: list[tuple[PrevalidatedCommit, Commit]] = []

    @invariant()
    def all_is_sound(self) -> None:
        self.witness.check()

    # Members come, take part and go.

    @rule(
        group_id=groups,
        instance_id=st.sampled_from([None, None, "i", "j"]),
        protocols=offers,
        protocol_type=st.sampled_from(["consumer", "consumer", "consumer", "connect", ""]),
        session_timeout=st.sampled_from([6.0, 10.0, 45.0]),
        rebalance_timeout=rebalance_timeouts,
        needs_known_id=st.booleans(),
        can_skip_assignment=st.booleans(),
    )
    def join_as_new(
        self, group_id: str, instance_id: str | None, protocols: Protocols, protocol_type: str, **how: float | bool
    ) -> None:
        joining = Known(group_id=group_id, instance_id=instance_id, protocols=protocols, protocol_type=protocol_type)
        self.join(joining, **how)

    @rule(pick=picks, protocols=st.none() | offers, rebalance_timeout=rebalance_timeouts)
    def join_with_id(self, pick: int, protocols: Protocols | None, rebalance_timeout: float) -> None:
        known = self.pick(pick)
        offered = known.protocols if protocols is None else protocols
        self.join(replace(known, protocols=offered), rebalance_timeout=rebalance_timeout)

    @rule(group_id=groups, instance_ids=st.lists(st.sampled_from([None, "i", "j"]), min_size=1, max_size=3))
    def some_join(self, group_id: str, instance_ids: list[str | None]) -> None:
        """Joins new members with ordinary fields; static members may return."""
        for instance_id in instance_ids:
            self.join(Known(group_id=group_id, instance_id=instance_id))

    @rule(group_id=groups, and_sync=st.booleans())
    def all_join_again(self, group_id: str, and_sync: bool) -> None:
        for member in self.members(group_id):
            self.join(member)
        if and_sync:
            self.all_sync_as(group_id, self.members(group_id))

    @rule(
        pick=picks,
        drift=drifts,
        assignment=st.binary(max_size=3),
        planned=st.sets(picks, max_size=4),
        protocol=st.sampled_from([None, None, "range", "sticky"]),
    )
    def sync(self, pick: int, drift: int, assignment: bytes, planned: set[int], protocol: str | None) -> None:
        known = self.pick(pick)
        plan = {self.pick(each).member_id: assignment for each in planned}
        may = self.is_member(known, drift)
        asking = self.sync_as(known, self.generation(known.group_id) + drift, plan, protocol)
        assert may or not asking.is_parked, "only a member of this generation waits for its assignment"

    @rule(group_id=groups, leader_is_last=st.booleans())
    def all_sync(self, group_id: str, leader_is_last: bool) -> None:
        members = self.members(group_id)
        self.all_sync_as(group_id, members[::-1] if leader_is_last else members)

    @rule(pick=picks, drift=drifts)
    def heartbeat(self, pick: int, drift: int) -> None:
        known = self.pick(pick)
        may = self.is_member(known, drift)
        reply = self.scene.heartbeat(
            known.member_id,
            self.generation(known.group_id) + drift,
            instance_id=known.instance_id,
            group_id=known.group_id,
        )
        assert may == (reply.error_code in (ErrorCode.none, ErrorCode.rebalance_in_progress))
        must_rejoin = reply.error_code is ErrorCode.rebalance_in_progress
        assert not may or must_rejoin == (self.state(known.group_id) is State.PREPARING_REBALANCE)
        request = Heartbeat(known.group_id, known.member_id, known.instance_id, self.generation(known.group_id) + drift)
        if prevalidated := self.scene.coordinator.prevalidate_heartbeat(request, reply):
            self.heartbeats.append((prevalidated, request))

    @rule(pick=picks)
    def heartbeat_again(self, pick: int) -> None:
        """A prevalidated heartbeat has the effect of a decided one."""
        if not self.heartbeats:
            return
        prevalidated, request = self.heartbeats[-1 - pick % len(self.heartbeats)]
        is_valid = prevalidated.heartbeat(self.scene.now)
        group = self.scene.coordinator.groups.get(request.group_id)
        is_as_it_was = group is not None and group.state is State.STABLE and group.generation == request.generation
        assert not is_valid or is_as_it_was
        if is_valid:
            assert group is not None
            member = group.members[request.member_id]
            assert member.session.at == self.scene.now + member.session_timeout
            assert self.scene.ask(Coordinator.heartbeat, request).reply.error_code is ErrorCode.none

    @rule(group_id=groups, leavers=st.lists(st.tuples(picks, st.booleans(), st.booleans()), max_size=3))
    def leave(self, group_id: str, leavers: list[tuple[int, bool, bool]]) -> None:
        leaving = [
            LeavingMember(
                member_id=self.pick(pick).member_id if by_id else "",
                instance_id=self.pick(pick).instance_id if by_instance else None,
            )
            for pick, by_id, by_instance in leavers
        ]
        reply = self.scene.leave(*leaving, group_id=group_id)
        assert len(reply.members) == len(leaving)

    # Offsets.

    @rule(
        pick=picks,
        drift=drifts,
        partition=st.integers(-1, 4),
        offset=st.integers(0, 1000),
        metadata=st.sampled_from(["", "", "", "too long to be kept"]),
        retention=st.sampled_from([None, None, 1.0, 500.0]),
    )
    def commit(
        self, pick: int, drift: int, partition: int, offset: int, metadata: str, retention: float | None
    ) -> None:
        known = self.pick(pick)
        generation = self.generation(known.group_id) + drift
        is_alone = generation < 0 and not self.members(known.group_id)
        may = is_alone or self.is_member(known, drift)
        reply = self.scene.commit(
            {("t", partition): offset, ("u", 0): offset},
            member_id=known.member_id,
            instance_id=known.instance_id,
            generation=generation,
            group_id=known.group_id,
            metadata=metadata,
            retention=retention,
        )
        has_committed = self.witness.committed(known.group_id, reply, offset)
        assert may or not has_committed, "a fenced member never commits"
        lines = [(name, [Line(index, offset, metadata)]) for name, index in (("t", partition), ("u", 0))]
        request = commit_of(
            lines,
            group_id=known.group_id,
            member_id=known.member_id,
            instance_id=known.instance_id,
            generation=generation,
            retention=retention,
        )
        if prevalidated := self.scene.coordinator.prevalidate_commit(request, reply):
            self.commits.append((prevalidated, request))

    @rule(pick=picks, offset=st.integers(0, 1000))
    def commit_again(self, pick: int, offset: int) -> None:
        """A prevalidated commit has the effect of a decided one."""
        if not self.commits:
            return
        prevalidated, request = self.commits[-1 - pick % len(self.commits)]
        record = prevalidated.commit((offset, offset), self.scene.at())
        if record is None:
            return
        self.scene.take(Effects((), (record,)))
        decided = self.scene.ask(Coordinator.commit, request._replace(offsets=(offset, offset))).reply
        assert self.witness.committed(request.group_id, decided, offset), "who would be refused does not commit"
        assert all(line.error_code is ErrorCode.none for topic in decided.topics for line in topic.partitions)

    @rule(group_id=groups, offset=st.integers(0, 1000))
    def commit_without_member(self, group_id: str, offset: int) -> None:
        is_in_use = bool(self.members(group_id))
        reply = self.scene.commit({("t", 1): offset}, group_id=group_id)
        has_committed = self.witness.committed(group_id, reply, offset)
        assert not (is_in_use and has_committed), "nobody commits past the members"

    @rule(group_id=groups, topic=st.sampled_from(["t", "u", "none"]))
    def delete_offsets(self, group_id: str, topic: str) -> None:
        reply = self.scene.delete_offsets({topic: [0, 1]}, group_id=group_id)
        for line in reply.topics:
            for deleted in line.partitions:
                if deleted.error_code is ErrorCode.none:
                    self.witness.offsets.pop((group_id, topic, deleted.partition_index), None)

    @rule()
    def expire_offsets(self) -> None:
        before = {key: self.stored(*key) for key in self.witness.offsets}
        groups = dict(self.scene.coordinator.groups)
        since = {group_id: group.since_ms for group_id, group in groups.items() if group.is_empty}
        self.scene.take(self.scene.coordinator.expire_offsets(self.scene.at()))
        for key, stored in before.items():
            if self.stored(*key) is None:
                assert stored is not None
                assert groups[key[0]].state in (State.EMPTY, State.STABLE)
                # In an empty group it counts how long it is empty, even for an offset that was committed since.
                times = [stored.committed_at_ms, since.get(key[0]) or stored.committed_at_ms]
                has_expired = (stored.expires_at_ms or inf) <= self.scene.at().wall_ms
                assert has_expired or self.scene.at().wall_ms - min(times) >= RETENTION_MINUTES * 60_000
                del self.witness.offsets[key]

    @rule(name=st.sampled_from(["t", "u"]))
    def make_topic_anew(self, name: str) -> None:
        topic_id = self.scene.topics.topic_id(name)
        assert topic_id is not None
        of_topic = {key: self.stored(*key) for key in self.witness.offsets if key[1] == name}
        self.scene.take(self.scene.coordinator.topic_deleted(name, topic_id))
        self.scene.topics.made += 1
        for key, stored in of_topic.items():
            if stored is not None and stored.topic_id == topic_id:
                del self.witness.offsets[key]

    # Operators.

    @rule(group_ids=st.lists(groups, max_size=2))
    def delete_groups(self, group_ids: list[str]) -> None:
        in_use = {group_id for group_id in group_ids if self.members(group_id)}
        for line in self.scene.delete_groups(*group_ids).results:
            if line.error_code is ErrorCode.none:
                assert line.group_id not in in_use
                self.witness.offsets_are_gone(line.group_id)

    @rule(group_id=groups)
    def describe(self, group_id: str) -> None:
        described = self.scene.describe(group_id)
        listed = {line.group_id: line.group_state for line in self.scene.list_groups().groups}
        assert described.group_state == listed.get(group_id, State.DEAD)
        shown = {member.member_id for member in described.members}
        assert shown == {member.member_id for member in self.members(group_id)}

    # Time, and what befalls the coordinator.

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.9, 10.0, 61.0, 130.0]), is_late=st.booleans())
    def pass_time(self, seconds: float, is_late: bool) -> None:
        """Advances the clock. In a busy process several deadlines may have passed when the tick comes."""
        if not is_late:
            self.scene.pass_time(seconds)
            return
        self.scene.now += seconds
        self.scene.take(self.scene.coordinator.tick(self.scene.at()))
        invariants.check_after_tick(self.scene.coordinator, self.scene.now)

    @rule(is_crash=st.booleans(), max_size=st.sampled_from([1, 3, 1000]))
    def start_again(self, is_crash: bool, max_size: int) -> None:
        if is_crash:
            self.witness.crashed()
        else:
            self.scene.take(self.scene.coordinator.unload(self.scene.at()))
            self.witness.check_tickets()
        if is_crash:  # connections end with the process
            self.heartbeats.clear()
            self.commits.clear()
        self.scene.settings = replace(self.scene.settings, group_max_size=max_size)
        self.scene.restart()
        self.witness.started_again()

    def teardown(self) -> None:
        self.scene.take(self.scene.coordinator.unload(self.scene.at()))
        self.witness.check_tickets()
        self.scene.now += LONGER_THAN_ANY_DEADLINE
        self.scene.take(self.scene.coordinator.tick(self.scene.at()))
        assert self.scene.coordinator.deadline() is None, "nothing is remembered of groups that are gone"

    # What the rules share.

    def join(self, joining: Known, **how: Any) -> None:
        asking = self.scene.join(
            joining.member_id,
            joining.instance_id,
            group_id=joining.group_id,
            protocols=joining.protocols,
            protocol_type=joining.protocol_type,
            **how,
        )
        self.joins.append((self.witness.asked(asking), joining))

    def sync_as(
        self, known: Known, generation: int, plan: dict[str, bytes], protocol: str | None = None
    ) -> Asking[SyncReply]:
        asking = self.scene.sync(
            known.member_id,
            generation,
            plan,
            instance_id=known.instance_id,
            group_id=known.group_id,
            protocol=protocol,
        )
        return self.witness.asked(asking)

    def all_sync_as(self, group_id: str, members: list[Known]) -> None:
        plan = {member.member_id: f"part of {member.member_id}".encode() for member in members}
        before = self.state(group_id)
        askings = [self.sync_as(member, self.generation(group_id), plan) for member in members]
        if before is State.COMPLETING_REBALANCE:
            assert self.state(group_id) is State.STABLE
            assert [asking.reply.assignment for asking in askings] == [plan[member.member_id] for member in members]

    def pick(self, pick: int) -> Known:
        """Picks a member, a client that joined recently under the id that it got, or a stranger."""
        answered = [(asking.reply, joining) for asking, joining in self.joins if not asking.is_parked][-8:]
        joined = [replace(joining, member_id=reply.member_id) for reply, joining in answered]
        known = [STRANGER, *self.members("g"), *joined, *self.members("h")]
        return known[pick % len(known)]

    def members(self, group_id: str) -> list[Known]:
        """Returns the members of a group, the leader first."""
        group = self.scene.coordinator.groups.get(group_id)
        if group is None:
            return []
        members = sorted(group.members.values(), key=lambda member: not group.is_leader(member.member_id))
        return [
            Known(
                group_id=group_id,
                member_id=member.member_id,
                instance_id=member.instance_id,
                protocols=member.protocols,
                protocol_type=group.protocol_type or "",
            )
            for member in members
        ]

    def generation(self, group_id: str) -> int:
        group = self.scene.coordinator.groups.get(group_id)
        return group.generation if group else 0

    def state(self, group_id: str) -> State:
        group = self.scene.coordinator.groups.get(group_id)
        return group.state if group else State.DEAD

    def is_member(self, known: Known, drift: int) -> bool:
        """Whether the client is a member with its instance id, if any, in the generation that it names."""
        ids = {member.member_id: member.instance_id for member in self.members(known.group_id)}
        is_itself = known.instance_id is None or ids.get(known.member_id) == known.instance_id
        return known.member_id in ids and is_itself and not drift

    def stored(self, group_id: str, topic: str, partition: int) -> CommitInfo | None:
        """Returns the commit info of a stored offset."""
        group = self.scene.coordinator.groups.get(group_id)
        entry = group.offsets.get(topic, {}).get(partition) if group else None
        return entry[-1] if entry else None


GroupLife.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestGroupLife = GroupLife.TestCase
