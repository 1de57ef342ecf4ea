"""Heartbeats, and the expiry of sessions without them."""

from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.leaving import remove
from kcoord.groups.classic.rebalancing import complete, rebalance
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NO_EFFECTS, Cause, Effects, Event, EventType, Reason, emit
from kcoord.groups.instant import Instant
from kcoord.groups.requests import Heartbeat


def heartbeat(group: Group, request: Heartbeat, at: Instant) -> ErrorCode:
    """Renews the member's session and returns the error code for its Heartbeat: that of the group's state, or that of a
    fenced or unknown member."""
    if error := fence(group, request.member_id, request.instance_id, request.generation):
        return error
    group.renew_session(group.members[request.member_id], at.now)
    return HEARTBEAT_ERRORS[group.state]


HEARTBEAT_ERRORS: Final = {
    State.EMPTY: ErrorCode.unknown_member_id,
    State.PREPARING_REBALANCE: ErrorCode.rebalance_in_progress,
    State.COMPLETING_REBALANCE: ErrorCode.none,  # clients send heartbeats as soon as they have joined
    State.STABLE: ErrorCode.none,
    State.DEAD: ErrorCode.coordinator_not_available,
}


def expire(group: Group, member_id: str, at: Instant, initial_delay: float) -> Effects:
    """Removes a member whose session has expired, which begins a rebalance, or a member id that was issued and that
    nobody has used in time. Returns the effects."""
    if member_id in group.pending:
        return _forget_id(group, member_id, at)
    member = group.members.get(member_id)
    if member is None or member.may_be_silent:
        return NO_EFFECTS
    expired = Event(what=EventType.EXPIRED, group_id=group.group_id, generation=group.generation, member_id=member_id)
    effects = remove(group, member) + emit(expired)
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        why = Reason(Cause.SESSION_EXPIRED, f"the session of {member_id} expired")
        return effects + rebalance(group, why, at, initial_delay)
    return effects + _complete_if_last(group, at)


def _forget_id(group: Group, member_id: str, at: Instant) -> Effects:
    group.forget_pending(member_id)
    return _complete_if_last(group, at)


def _complete_if_last(group: Group, at: Instant) -> Effects:
    """Completes the join phase if it waited for the removed member only. As in Kafka, this ends an initial delay,
    too."""
    if group.state is State.PREPARING_REBALANCE and group.have_all_joined:
        return complete(group, at)
    return NO_EFFECTS
