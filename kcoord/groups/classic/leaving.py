"""LeaveGroup: members leave by themselves, or an operator removes them by instance id (KIP-345)."""

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence_identity
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.rebalancing import answer_parked_join, answer_parked_sync, complete_if_all_joined, rebalance
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NO_EFFECTS, Cause, Effects, Event, EventType, Reason, answer, emit, merge
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinReply, LeaveReply, LeftMember, SyncReply
from kcoord.groups.requests import Leave, LeavingMember
from kcoord.tickets import Ticket


def refuse(ticket: Ticket, error: ErrorCode) -> Effects:
    """Returns effects that answer the LeaveGroup of this ticket with an error."""
    return answer(ticket, LeaveReply(error_code=error))


def leave(group: Group, request: Leave, ticket: Ticket, at: Instant, initial_delay: float) -> Effects:
    """Decides a LeaveGroup: removes or refuses each of its members by itself, begins one rebalance for all of them, and
    returns the effects. `initial_delay` is seconds, as for every rebalance."""
    if group.state is State.DEAD:
        return refuse(ticket, ErrorCode.coordinator_not_available)
    results, removals = [], []
    for leaving in request.members:
        error, removal = _leave(group, leaving)
        results.append(_result(leaving, error))
        removals.append(removal)
    effects = merge(removals)
    gone = [result for result in results if result.error_code is ErrorCode.none]
    if gone:
        effects += _rebalance_after_leave(group, _reason(request.members, results), at, initial_delay)
    return effects + answer(ticket, LeaveReply(members=tuple(results)))


def reply_unknown_to_all(request: Leave) -> LeaveReply:
    """Returns the reply to LeaveGroup for a group that does not exist: each member is unknown."""
    return LeaveReply(members=tuple(_result(leaving, ErrorCode.unknown_member_id) for leaving in request.members))


def remove(group: Group, member: Member) -> Effects:
    """Removes a member from the group, and returns effects that answer its parked requests with UNKNOWN_MEMBER_ID."""
    unknown = ErrorCode.unknown_member_id
    effects = answer_parked_join(group, member, JoinReply(member_id="", error_code=unknown))
    effects += answer_parked_sync(member, SyncReply(error_code=unknown))
    group.remove(member)
    return effects


def _leave(group: Group, leaving: LeavingMember) -> tuple[ErrorCode, Effects]:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id is None or leaving.instance_id not in group.member_ids_by_instance:
            return ErrorCode.unknown_member_id, NO_EFFECTS
        member_id = group.member_ids_by_instance[leaving.instance_id]
    elif member_id in group.pending:
        group.forget_pending(member_id)
        return ErrorCode.none, NO_EFFECTS
    elif error := fence_identity(group, member_id, leaving.instance_id):
        return error, NO_EFFECTS
    left = Event(
        what=EventType.LEFT,
        group_id=group.group_id,
        generation=group.generation,
        member_id=member_id,
        why=leaving.reason or "",
    )
    return ErrorCode.none, remove(group, group.members[member_id]) + emit(left)


def _rebalance_after_leave(group: Group, why: Reason, at: Instant, initial_delay: float) -> Effects:
    match group.state:
        case State.STABLE | State.COMPLETING_REBALANCE:
            return rebalance(group, why, at, initial_delay)
        case State.PREPARING_REBALANCE:
            return complete_if_all_joined(group, at)
        case State.EMPTY | State.DEAD:
            return NO_EFFECTS


def _result(leaving: LeavingMember, error: ErrorCode) -> LeftMember:
    return LeftMember(member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error)


def _reason(members: tuple[LeavingMember, ...], results: list[LeftMember]) -> Reason:
    gone = [
        f"{leaving.member_id or leaving.instance_id} left" + (f": {leaving.reason}" if leaving.reason else "")
        for leaving, result in zip(members, results, strict=True)
        if result.error_code is ErrorCode.none
    ]
    return Reason(Cause.LEFT, "; ".join(gone))
