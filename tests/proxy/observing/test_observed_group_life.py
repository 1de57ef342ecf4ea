"""An observed group stays in a possible state, whatever is observed, in whatever order."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcoord.groups.classic.state import State
from kcoord.proxy.observing.observed_group import JoinRequest, JoinResponse, ObservedGroup, ObservedMember, Rebalanced

clients = st.integers(1, 3)
members = st.sampled_from(["a", "b", "c"])
instances = st.sampled_from([None, "static"])
generations = st.integers(1, 6)


class GroupLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = ObservedGroup("g")
        self.now = 0.0
        self.highest = -1
        self.had_nobody = True
        self.over: list[Rebalanced] = []
        self.waiting: dict[int, tuple[str, str | None]] = {}  # by client: member id, instance id

    def _on_completed(self, completed: Rebalanced | None) -> None:
        if completed:
            self.over.append(completed)

    @rule(client=clients, member_id=members | st.just(""), instance_id=instances)
    def a_join_is_sent(self, client: int, member_id: str, instance_id: str | None) -> None:
        self.group.on_join_sent(client, _join_request(member_id, instance_id))
        self.waiting[client] = (member_id, instance_id)

    @rule(client=clients, member_id=members, instance_id=instances, generation=generations, listed=st.sets(members))
    def a_join_is_answered(
        self, client: int, member_id: str, instance_id: str | None, generation: int, listed: set[str]
    ) -> None:
        leads = [(each, None) for each in listed | {member_id}] if listed else []
        answer = JoinResponse(member_id, generation, "range", leads)
        self._on_completed(self.group.on_join_answered(client, _join_request(member_id, instance_id), answer, self.now))
        self.waiting.pop(client, None)

    @rule(client=clients)
    def a_join_is_refused(self, client: int) -> None:
        self.group.on_join_refused(client)
        self.waiting.pop(client, None)

    @rule(member_id=members, generation=generations)
    def a_sync_is_answered(self, member_id: str, generation: int) -> None:
        self._on_completed(self.group.on_synced(member_id, generation, self.now))

    @rule(member_id=members, generation=generations)
    def a_heartbeat_is_answered(self, member_id: str, generation: int) -> None:
        self.group.on_member_confirmed(member_id, generation, self.now)

    @rule(member_id=members)
    def a_rebalance_is_announced(self, member_id: str) -> None:
        self.group.on_rebalance_announced(member_id, self.now)

    @rule(gone=st.sets(members), instance=st.booleans())
    def members_leave(self, gone: set[str], instance: bool) -> None:
        self.group.on_left(gone, ["static"] if instance else [])

    @rule(member_id=members)
    def a_member_is_not_known(self, member_id: str) -> None:
        self.group.on_unknown_member(member_id)

    @rule(seconds=st.sampled_from([1.0, 11.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def generations_grow_as_long_as_anybody_is_there(self) -> None:
        if self.group.generation < self.highest:
            assert self.had_nobody
        self.highest = self.group.generation
        self.had_nobody = not replace(self.group, _pending_joins={}).alive(self.now)  # except members that join again

    @invariant()
    def a_group_is_empty_if_nobody_is_in_it_or_on_the_way(self) -> None:
        is_deserted = not self.group.members and not self.waiting
        assert (self.group.state is State.EMPTY) == is_deserted

    @invariant()
    def a_rebalance_is_reported_once(self) -> None:
        assert len(self.over) <= len(self.group.rebalanced_at)

    @invariant()
    def the_living_are_members_and_counted(self) -> None:
        alive = self.group.alive(self.now)
        assert all(self.group.members[member.member_id] is member for member in alive)
        assert len(alive) <= self.group.size(self.now) <= len(self.group.members) + len(self.waiting)

    @invariant()
    def nobody_is_counted_twice(self) -> None:
        unnamed = [each for each in self.waiting.values() if each == ("", None)]
        ids = {member_id for member_id, _ in self.waiting.values() if member_id}
        instances = {instance_id for _, instance_id in self.waiting.values() if instance_id}
        named = len(self.group.members.keys() | ids) + len(instances)
        assert self.group.size(self.now) <= named + len(unnamed)

    @invariant()
    def a_rebalance_that_has_begun_counts(self) -> None:
        has_begun = self.group.state is State.PREPARING_REBALANCE
        assert self.group.rebalances_since(self.now) >= has_begun


def _join_request(member_id: str, instance_id: str | None) -> JoinRequest:
    member = ObservedMember(member_id=member_id, instance_id=instance_id, session_timeout=10.0)
    return JoinRequest(member=member, protocol_type="consumer")


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
