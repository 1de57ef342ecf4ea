"""SyncGroup: the leader sends the plan, every member gets its assignment."""

from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.rebalancing import answer_parked_sync, drop, prepare
from kcoord.groups.classic.state import State
from kcoord.groups.effects import NO_EFFECTS, Cause, Effects, Event, EventType, Reason, answer, merge
from kcoord.groups.instant import Instant
from kcoord.groups.replies import SyncReply, per_member_replies
from kcoord.groups.requests import Sync
from kcoord.settings import Settings
from kcoord.tickets import Ticket

_SUPERSEDED: Final = SyncReply(error_code=ErrorCode.rebalance_in_progress)


def refuse(ticket: Ticket, error: ErrorCode) -> Effects:
    """Returns effects that answer the SyncGroup of this ticket with an error."""
    return answer(ticket, SyncReply(error_code=error))


def sync(group: Group, request: Sync, ticket: Ticket, at: Instant, settings: Settings) -> Effects:
    """Decides a SyncGroup: the leader's assignments make the group Stable and answer all parked syncs; a follower gets
    its assignment, or is parked until then. Returns the effects."""
    if error := fence(group, request.member_id, request.instance_id, request.generation):
        return refuse(ticket, error)
    if is_mismatch(request.protocol_type, group.protocol_type) or is_mismatch(request.protocol, group.protocol):
        return refuse(ticket, ErrorCode.inconsistent_group_protocol)
    if group.state is State.PREPARING_REBALANCE:
        return refuse(ticket, ErrorCode.rebalance_in_progress)
    is_plan = group.state is State.COMPLETING_REBALANCE and group.is_leader(request.member_id)
    is_too_large = is_plan and not group.record_fits(request.plan, settings.message_max_bytes)
    if is_plan and not is_too_large and _has_large_assignment(request.plan, settings.kcoord_member_max_bytes):
        return refuse(ticket, ErrorCode.policy_violation)
    effects = _answer_or_park_sync(group, group.members[request.member_id], ticket)
    if not is_plan:
        return effects
    if is_too_large:
        return effects + _reject_plan(group, at, settings.group_initial_rebalance_delay_ms / 1000)
    return effects + _distribute_assignments(group, request.plan, at)


def is_mismatch(asked: str | None, actual: str | None) -> bool:
    """Returns whether the client named another protocol or protocol type than the group's. Clients before version 5
    name none."""
    return asked is not None and asked != actual


def sync_reply(group: Group, assignment: bytes) -> SyncReply:
    """Returns the successful reply to SyncGroup with this assignment."""
    return SyncReply(assignment, ErrorCode.none, group.protocol_type, group.protocol)


def _answer_or_park_sync(group: Group, member: Member, ticket: Ticket) -> Effects:
    """Answers with the member's assignment, or parks the sync until the plan comes."""
    group.mark_synced(member)
    if group.state is State.STABLE:
        return answer(ticket, sync_reply(group, member.assignment))
    superseded = NO_EFFECTS if member.sync_ticket is None else answer_parked_sync(member, _SUPERSEDED)
    member.sync_ticket = ticket
    return superseded


def expire_sync_phase(group: Group, at: Instant, initial_delay: float) -> Effects:
    """Handles the deadline of the sync phase, and returns the effects: members that have sent no SyncGroup are removed,
    and the others must join again."""
    silent = [group.members[member_id] for member_id in sorted(group.awaiting_sync)]
    if not silent:
        return NO_EFFECTS
    dropped = drop(group, silent, why="did not sync in time")
    why = Reason(Cause.NOT_SYNCED, f"{len(silent)} members did not sync in time")
    return dropped + prepare(group, why, at, initial_delay)


def _has_large_assignment(plan: dict[str, bytes], max_bytes: int) -> bool:
    return max(map(len, plan.values()), default=0) > max_bytes


def _distribute_assignments(group: Group, plan: dict[str, bytes], at: Instant) -> Effects:
    """Gives every member its assignment and answers parked syncs; a member missing in the plan gets an empty one."""
    for member in group.members.values():
        member.assignment = plan.get(member.member_id, b"")
    group.set_plan_bytes(group.plan_bytes_of(plan))
    # As in Kafka, the record holds the time when all members had joined. Its own timestamp is the time of the plan, so
    # that the difference shows how long planning took.
    record = group.to_record()
    group.move_to(State.STABLE, at.wall_ms)
    tickets, assignments = [], []
    for member in group.members.values():
        if member.sync_ticket is not None:
            tickets.append(member.sync_ticket)
            assignments.append(member.assignment)
            member.sync_ticket = None
            group.renew_session(member, at.now)
    replies = per_member_replies(sync_reply(group, b""), assignments)
    stable = Event(what=EventType.STABLE, group_id=group.group_id, generation=group.generation)
    return Effects(tuple(zip(tickets, replies, strict=True)), (record,), (stable,))


def _reject_plan(group: Group, at: Instant, initial_delay: float) -> Effects:
    """Refuses parked syncs because the plan is too large for a record, and makes all members join again."""
    error = SyncReply(error_code=ErrorCode.unknown_server_error)
    refused = merge(answer_parked_sync(member, error) for member in group.members.values())
    for member in group.members.values():
        member.assignment = b""
    group.set_plan_bytes(0)
    return refused + prepare(
        group, Reason(Cause.PLAN_TOO_LARGE, "a plan larger than message.max.bytes"), at, initial_delay
    )
