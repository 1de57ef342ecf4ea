"""The join phase of a rebalance: what begins it, what it waits for, what ends it.

    Stable or CompletingRebalance ── prepare ──► PreparingRebalance ── all have joined, or time is up ──► complete
    Empty ── prepare ──► PreparingRebalance ── the initial delay is over ──────────────────────────────► complete

`complete` answers every parked join with the new generation, and the leader's also with all subscriptions. Dynamic
members that did not join again are dropped; static ones stay until their sessions expire (KIP-345). A group that was
empty waits for `group.initial.rebalance.delay.ms` although all its members have joined, and longer if more members join
meanwhile (KIP-134); with a delay of 0 the first member does not wait at all.
"""

from collections.abc import Sequence
from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.group import Group, InitialDelay
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NO_EFFECTS, Effects, Event, EventType, Reason, answer, emit
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinedMember, JoinReply, SyncReply, per_member_replies

_MIN_JOIN_PHASE: Final = 0.1
"""Seconds. Members may ask for a rebalance timeout of 0, with which this deadline would pass over and over."""


def rebalance(group: Group, why: Reason, at: Instant, initial_delay: float) -> Effects:
    """Begins a rebalance, in which all members must join again; a join phase that is under way goes on instead. Returns
    the effects. `initial_delay` is how many seconds a group that was empty waits for more members (KIP-134)."""
    if group.state is State.PREPARING_REBALANCE:
        return complete_if_all_joined(group, at)
    return prepare(group, why, at, initial_delay)


def prepare(group: Group, why: Reason, at: Instant, initial_delay: float) -> Effects:
    """Begins the join phase of a rebalance, moving the group to PreparingRebalance, and returns the effects.
    `initial_delay` is how many seconds a group that was empty waits for more members (KIP-134)."""
    effects = _abort_sync_phase(group, at) if group.state is State.COMPLETING_REBALANCE else NO_EFFECTS
    group.end_sync_phase()
    was_empty = group.is_empty
    group.move_to(State.PREPARING_REBALANCE, at.wall_ms)
    effects += emit(_rebalancing_event(group, why))
    if not was_empty:
        return effects + _complete_or_wait(group, at)
    if not initial_delay:
        return effects + complete(group, at)
    remaining = max(group.rebalance_timeout - initial_delay, 0.0)
    group.initial_delay = InitialDelay(delay=initial_delay, remaining=remaining)
    group.limit_join_phase(at.now + initial_delay)
    return effects


def complete_if_all_joined(group: Group, at: Instant) -> Effects:
    """Completes the join phase if all members have joined, unless the initial delay is still running, and returns the
    effects."""
    if group.state is State.PREPARING_REBALANCE and group.initial_delay is None and group.have_all_joined:
        return complete(group, at)
    return NO_EFFECTS


def expire_join_phase(group: Group, at: Instant, initial_delay: float) -> Effects:
    """Handles the deadline of the join phase, and returns the effects: completes the phase without the members that
    have not joined, or extends the initial delay if members have joined during it."""
    assert group.state is State.PREPARING_REBALANCE
    waited = group.initial_delay
    if waited is None or not waited.has_newcomers or not waited.remaining:
        return complete(group, at)
    delay = min(initial_delay, waited.remaining)
    group.initial_delay = InitialDelay(delay=delay, remaining=max(waited.remaining - waited.delay, 0.0))
    group.limit_join_phase(at.now + delay)
    return NO_EFFECTS


def complete(group: Group, at: Instant) -> Effects:
    """Ends the join phase: drops members that have not joined again, begins the next generation, and answers the parked
    JoinGroups by the effects."""
    group.end_join_phase()
    effects = _drop_absent(group)
    if not _elect_joined_leader(group) and group.members:
        # All members are static and none has joined again: wait until one does, or until their sessions expire.
        group.limit_join_phase(at.now + max(group.rebalance_timeout, _MIN_JOIN_PHASE))
        return effects
    group.begin_generation(at.wall_ms)
    if group.is_empty:
        emptied = Event(what=EventType.EMPTY, group_id=group.group_id, generation=group.generation)
        return effects + Effects((), (group.to_record(),), (emptied,))
    return effects + _distribute_generation(group, at)


def answer_parked_join(group: Group, member: Member, reply: JoinReply) -> Effects:
    """Returns effects that answer the member's parked JoinGroup with this reply, or none if no join is parked."""
    ticket = group.take_join(member)
    return NO_EFFECTS if ticket is None else answer(ticket, reply)


def answer_parked_sync(member: Member, reply: SyncReply) -> Effects:
    """Returns effects that answer the member's parked SyncGroup with this reply, or none if no sync is parked."""
    if member.sync_ticket is None:
        return NO_EFFECTS
    ticket, member.sync_ticket = member.sync_ticket, None
    return answer(ticket, reply)


def join_reply(group: Group, member: Member, members: tuple[JoinedMember, ...]) -> JoinReply:
    """Returns the successful reply to a member's JoinGroup for the current generation. `members` is empty unless the
    member is the leader."""
    return JoinReply(
        member_id=member.member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        members=members,
    )


def member_subscriptions(group: Group) -> tuple[JoinedMember, ...]:
    """Returns all members with their subscriptions for the selected protocol, from which the leader assigns
    partitions."""
    protocol = group.protocol
    members = group.members.values()
    return tuple([JoinedMember(each.member_id, each.instance_id, each.subscription(protocol)) for each in members])


def _rebalancing_event(group: Group, why: Reason) -> Event:
    return Event(
        what=EventType.REBALANCING,
        group_id=group.group_id,
        generation=group.generation,
        why=why.text,
        cause=why.cause,
    )


def _complete_or_wait(group: Group, at: Instant) -> Effects:
    if group.have_all_joined:
        return complete(group, at)
    group.limit_join_phase(at.now + group.rebalance_timeout)
    return NO_EFFECTS


def _abort_sync_phase(group: Group, at: Instant) -> Effects:
    """Drops all assignments and refuses parked syncs, because the plan that they wait for will not come."""
    replies = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync_ticket is not None:
            replies.append((member.sync_ticket, SyncReply(error_code=ErrorCode.rebalance_in_progress)))
            member.sync_ticket = None
            group.renew_session(member, at.now)
    group.set_plan_bytes(0)
    return Effects(tuple(replies))


def _drop_absent(group: Group) -> Effects:
    absent = [m for m in group.members.values() if m.join_ticket is None and not m.is_static]
    return drop(group, absent, why="did not join again in time")


def drop(group: Group, members: Sequence[Member], *, why: str) -> Effects:
    """Removes members that did not do their part of a rebalance in time."""
    for member in members:
        group.remove(member)
    return emit(
        *(
            Event(
                what=EventType.DROPPED,
                group_id=group.group_id,
                generation=group.generation,
                member_id=member.member_id,
                why=why,
            )
            for member in members
        )
    )


def _elect_joined_leader(group: Group) -> bool:
    """Keeps the leader if it has joined again, else elects the first member that has; False if none has."""
    if group.leader_id is None:
        return False
    if group.members[group.leader_id].join_ticket is not None:
        return True
    present = [member.member_id for member in group.members.values() if member.join_ticket is not None]
    if present:
        group.elect(present[0])
    return bool(present)


def _distribute_generation(group: Group, at: Instant) -> Effects:
    assert group.leader_id is not None
    renew_session, now = group.renew_session, at.now
    waiting = group.take_joins()
    to_leader = join_reply(group, group.members[group.leader_id], member_subscriptions(group))
    to_others = per_member_replies(to_leader._replace(members=()), waiting)
    replies = dict(zip(waiting.values(), to_others, strict=True))
    replies[waiting[group.leader_id]] = to_leader
    for member in group.members.values():
        member.is_new = False
        renew_session(member, now)
    group.awaiting_sync.update(group.members)
    group.limit_sync_phase(at.now + group.rebalance_timeout)
    begun = Event(
        what=EventType.GENERATION,
        group_id=group.group_id,
        generation=group.generation,
        member_id=group.leader_id,
        why=f"{len(group.members)} members, protocol {group.protocol}",
    )
    return Effects(tuple(replies.items()), (), (begun,))
