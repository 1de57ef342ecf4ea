"""SyncGroup: the leader sends the plan, every member gets its assignment."""

from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.rebalancing import prepare, take_sync_ticket
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NOTHING, Cause, Effects, Event, Happening, Reason, answer, gathered, told
from kcoord.groups.instant import Instant
from kcoord.groups.replies import SyncReply, to_each
from kcoord.groups.requests import Sync
from kcoord.settings import Settings
from kcoord.tickets import Ticket

_SUPERSEDED: Final = SyncReply(error_code=ErrorCode.rebalance_in_progress)


def refuse(ticket: Ticket, error: ErrorCode) -> Effects:
    return answer(ticket, SyncReply(error_code=error))


def sync(group: Group, request: Sync, ticket: Ticket, at: Instant, settings: Settings) -> Effects:
    if error := fence(group, request.member_id, request.instance_id, request.generation):
        return refuse(ticket, error)
    if differs(request.protocol_type, group.protocol_type) or differs(request.protocol, group.protocol):
        return refuse(ticket, ErrorCode.inconsistent_group_protocol)
    if group.state is State.PREPARING_REBALANCE:
        return refuse(ticket, ErrorCode.rebalance_in_progress)
    is_plan = group.state is State.COMPLETING_REBALANCE and group.is_leader(request.member_id)
    is_too_large = is_plan and not group.can_keep(request.plan, settings.message_max_bytes)
    if is_plan and not is_too_large and _has_large_assignment(request.plan, settings.kcoord_member_max_bytes):
        return refuse(ticket, ErrorCode.policy_violation)
    effects = _take_part(group, group.members[request.member_id], ticket)
    if not is_plan:
        return effects
    if is_too_large:
        return effects + _plan_anew(group, at, settings.group_initial_rebalance_delay_ms / 1000)
    return effects + _hand_out(group, request.plan, at)


def differs(asked: str | None, actual: str | None) -> bool:
    """Whether the client named another value than the group's. Clients before version 5 name none."""
    return asked is not None and asked != actual


def assigned(group: Group, assignment: bytes) -> SyncReply:
    return SyncReply(assignment, ErrorCode.none, group.protocol_type, group.protocol)


def _take_part(group: Group, member: Member, ticket: Ticket) -> Effects:
    """Answers with the member's assignment, or parks the sync until the plan comes."""
    group.has_synced(member)
    if group.state is State.STABLE:
        return answer(ticket, assigned(group, member.assignment))
    superseded = NOTHING if member.sync_ticket is None else take_sync_ticket(member, _SUPERSEDED)
    member.sync_ticket = ticket
    return superseded


def drop_silent(group: Group, at: Instant, initial_delay: float) -> Effects:
    """Handles the deadline of the sync phase: members that did not sync are dropped, and the others join again."""
    silent = [group.members[member_id] for member_id in sorted(group.awaiting_sync)]
    if not silent:
        return NOTHING
    for member in silent:
        group.remove(member)
    dropped = told(
        *(
            Event(
                what=Happening.DROPPED,
                group_id=group.group_id,
                generation=group.generation,
                member_id=member.member_id,
                why="did not sync in time",
            )
            for member in silent
        )
    )
    why = Reason(Cause.NOT_SYNCED, f"{len(silent)} members did not sync in time")
    return dropped + prepare(group, why, at, initial_delay)


def _has_large_assignment(plan: dict[str, bytes], most: int) -> bool:
    return max(map(len, plan.values()), default=0) > most


def _hand_out(group: Group, plan: dict[str, bytes], at: Instant) -> Effects:
    """Gives every member its assignment and answers parked syncs; a member missing in the plan gets an empty one."""
    for member in group.members.values():
        member.assignment = plan.get(member.member_id, b"")
    group.count_plan(group.plan_bytes_of(plan))
    # As in Kafka, the record holds the time when all members had joined. Its own timestamp is the time of the plan, so
    # that the difference shows how long planning took.
    record = group.stored()
    group.move_to(State.STABLE, at.wall_ms)
    tickets, assignments = [], []
    for member in group.members.values():
        if member.sync_ticket is not None:
            tickets.append(member.sync_ticket)
            assignments.append(member.assignment)
            member.sync_ticket = None
            group.renew_session(member, at.now)
    replies = to_each(assigned(group, b""), assignments)
    stable = Event(what=Happening.STABLE, group_id=group.group_id, generation=group.generation)
    return Effects(tuple(zip(tickets, replies, strict=True)), (record,), (stable,))


def _plan_anew(group: Group, at: Instant, initial_delay: float) -> Effects:
    """Refuses parked syncs because the plan is too large for a record, and makes all members join again."""
    error = SyncReply(error_code=ErrorCode.unknown_server_error)
    refused = gathered(take_sync_ticket(member, error) for member in group.members.values())
    for member in group.members.values():
        member.assignment = b""
    group.count_plan(0)
    return refused + prepare(
        group, Reason(Cause.PLAN_TOO_LARGE, "a plan larger than message.max.bytes"), at, initial_delay
    )
