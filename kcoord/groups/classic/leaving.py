"""LeaveGroup: members leave by themselves, or an operator removes them by instance id (KIP-345)."""

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence_identity
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.rebalancing import complete_if_all_joined, rebalance, take_join_ticket, take_sync_ticket
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NOTHING, Cause, Effects, Event, Happening, Reason, answer, gathered, told
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinReply, LeaveReply, LeftMember, SyncReply
from kcoord.groups.requests import Leave, Leaving
from kcoord.tickets import Ticket


def refuse(ticket: Ticket, error: ErrorCode) -> Effects:
    return answer(ticket, LeaveReply(error_code=error))


def leave(group: Group, request: Leave, ticket: Ticket, at: Instant, initial_delay: float) -> Effects:
    """Removes or refuses each member of the request by itself; one rebalance follows for all of them."""
    if group.state is State.DEAD:
        return refuse(ticket, ErrorCode.coordinator_not_available)
    lines, removals = [], []
    for leaving in request.members:
        error, removal = _leave(group, leaving)
        lines.append(_line(leaving, error))
        removals.append(removal)
    effects = gathered(removals)
    gone = [line for line in lines if line.error_code is ErrorCode.none]
    if gone:
        effects += _after(group, _because(request.members, lines), at, initial_delay)
    return effects + answer(ticket, LeaveReply(members=tuple(lines)))


def unknown_to_all(request: Leave) -> LeaveReply:
    """Returns the reply for a group that does not exist: each member is unknown."""
    return LeaveReply(members=tuple(_line(leaving, ErrorCode.unknown_member_id) for leaving in request.members))


def remove(group: Group, member: Member) -> Effects:
    """Removes a member and answers its parked requests."""
    unknown = ErrorCode.unknown_member_id
    effects = take_join_ticket(group, member, JoinReply(member_id="", error_code=unknown))
    effects += take_sync_ticket(member, SyncReply(error_code=unknown))
    group.remove(member)
    return effects


def _leave(group: Group, leaving: Leaving) -> tuple[ErrorCode, Effects]:
    member_id = leaving.member_id
    if not member_id:
        if leaving.instance_id is None or leaving.instance_id not in group.member_ids_by_instance:
            return ErrorCode.unknown_member_id, NOTHING
        member_id = group.member_ids_by_instance[leaving.instance_id]
    elif member_id in group.pending:
        group.forget_pending(member_id)
        return ErrorCode.none, NOTHING
    elif error := fence_identity(group, member_id, leaving.instance_id):
        return error, NOTHING
    left = Event(
        what=Happening.LEFT,
        group_id=group.group_id,
        generation=group.generation,
        member_id=member_id,
        why=leaving.reason or "",
    )
    return ErrorCode.none, remove(group, group.members[member_id]) + told(left)


def _after(group: Group, why: Reason, at: Instant, initial_delay: float) -> Effects:
    match group.state:
        case State.STABLE | State.COMPLETING_REBALANCE:
            return rebalance(group, why, at, initial_delay)
        case State.PREPARING_REBALANCE:
            return complete_if_all_joined(group, at)
        case State.EMPTY | State.DEAD:
            return NOTHING


def _line(leaving: Leaving, error: ErrorCode) -> LeftMember:
    return LeftMember(member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error)


def _because(members: tuple[Leaving, ...], lines: list[LeftMember]) -> Reason:
    gone = [
        f"{leaving.member_id or leaving.instance_id} left" + (f": {leaving.reason}" if leaving.reason else "")
        for leaving, line in zip(members, lines, strict=True)
        if line.error_code is ErrorCode.none
    ]
    return Reason(Cause.LEFT, "; ".join(gone))
