"""JoinGroup: who may become a member, and how (GroupMetadataManager.classicGroupJoin).

| member id | instance id | is                                                                             |
|-----------|-------------|--------------------------------------------------------------------------------|
| none      | none        | a new member; a client that knows KIP-394 gets an id first and joins again with it |
| none      | new         | a new static member, added at once                                             |
| none      | known       | a static member that returned: the same member under a new id (KIP-345)        |
| given     | none        | a member, or a member id that was issued                                       |
| given     | any         | a static member; fenced if another one holds its instance id                   |
"""

from typing import Final

from kcoord.errors import ErrorCode
from kcoord.groups.classic.fencing import fence_identity
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.rebalancing import (
    answer_parked_join,
    answer_parked_sync,
    complete_if_all_joined,
    join_reply,
    member_subscriptions,
    prepare,
    rebalance,
)
from kcoord.groups.classic.state import State
from kcoord.groups.deadlines import Deadline, Purpose
from kcoord.groups.effects import NO_EFFECTS, Cause, Effects, Event, EventType, Reason, answer, emit
from kcoord.groups.instant import Instant
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.groups.requests import Join
from kcoord.settings import Settings
from kcoord.tickets import Ticket

NEW_MEMBER_TIMEOUT: Final = 300.0
"""Seconds that a new member's join may be parked: it sends no heartbeats yet, and may have hung up long ago."""
_MAX_TEXT_BYTES: Final = 32_767  # in bytes: a record stores the length in two
_SAFE_TEXT_CHARS: Final = _MAX_TEXT_BYTES // 4  # in characters: UTF-8 takes at most four bytes for each
_ID_SUFFIX_CHARS: Final = 37
"""Characters that a new member's id has after the name that it begins with: a dash and a UUID."""


def refuse(ticket: Ticket, error: ErrorCode, member_id: str) -> Effects:
    """Returns effects that answer the JoinGroup of this ticket with an error."""
    return answer(ticket, JoinReply(member_id=member_id, error_code=error))


def refusal(request: Join, settings: Settings) -> ErrorCode | None:
    """Returns the error of a JoinGroup request that is invalid whatever its group (its timeouts, the length of its ids,
    its size), or None."""
    if not request.group_id:
        return ErrorCode.invalid_group_id
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not shortest / 1000 <= request.session_timeout <= longest / 1000:
        return ErrorCode.invalid_session_timeout
    if not _ids_fit_in_record(request):
        return ErrorCode.unknown_server_error  # as in Kafka, which cannot write its answer either
    return ErrorCode.policy_violation if _retained_bytes(request) > settings.kcoord_member_max_bytes else None


def join(group: Group, request: Join, ticket: Ticket, at: Instant, settings: Settings, fresh_id: str) -> Effects:
    """Decides a JoinGroup for an existing group: adds or rejoins the member, or refuses it. `fresh_id` is the suffix of
    its member id if it needs one. Returns the effects, which have no reply while the request is parked."""
    if not _has_room(group, request.member_id, settings.group_max_size):
        return _reject_full(group, request, ticket)
    is_new = not request.member_id
    if group.state is State.DEAD:
        return refuse(ticket, ErrorCode.coordinator_not_available, request.member_id)
    if not group.supports(request.protocol_type, request.protocols):
        return refuse(ticket, ErrorCode.inconsistent_group_protocol, request.member_id)
    if is_new:
        return _join_without_id(group, request, ticket, at, settings, fresh_id)
    delay = settings.group_initial_rebalance_delay_ms / 1000
    if request.member_id in group.pending:
        return _join_with_given_id(group, request, ticket, at, delay)
    if error := fence_identity(group, request.member_id, request.instance_id):
        return refuse(ticket, error, request.member_id)
    return _rejoin(group, group.members[request.member_id], request, ticket, at, delay)


def _retained_bytes(request: Join) -> int:
    """Returns roughly how many bytes of the request the group would retain."""
    size = len(request.client_id) + len(request.instance_id or "") + len(request.protocol_type)
    for name, subscription in request.protocols:
        size += len(name) + len(subscription)
    return size


def _ids_fit_in_record(request: Join) -> bool:
    """Whether a record has room for the client id, and for the member id that a new member would get."""
    if request.member_id and len(request.client_id) <= _SAFE_TEXT_CHARS:
        return True
    client_id = len(request.client_id.encode())  # longer than it was on the wire where that was no UTF-8
    name = client_id if request.instance_id is None else len(request.instance_id.encode())
    member_id = 0 if request.member_id else name + _ID_SUFFIX_CHARS
    return max(client_id, member_id) <= _MAX_TEXT_BYTES


def _has_room(group: Group, member_id: str, max_size: int) -> bool:
    match group.state:
        case State.PREPARING_REBALANCE:
            # Parked joins are counted, so that an oversized group shrinks to the members that return first.
            if group.parked_joins < max_size:
                return True
            known = group.members.get(member_id)
            return known is not None and known.join_ticket is not None
        case State.EMPTY | State.DEAD:
            return True
        case State.COMPLETING_REBALANCE | State.STABLE:
            return member_id in group.members or len(group.members) < max_size


def _reject_full(group: Group, request: Join, ticket: Ticket) -> Effects:
    """Refuses a join because the group is full, and removes the member: an oversized group shrinks that way."""
    refused = refuse(ticket, ErrorCode.group_max_size_reached, "")
    group.forget_pending(request.member_id)
    member = group.members.get(request.member_id)
    if member is None:
        return refused
    group.remove(member)
    return refused + emit(_event(group, EventType.DROPPED, member.member_id, "group.max.size is reached"))


def _join_without_id(
    group: Group, request: Join, ticket: Ticket, at: Instant, settings: Settings, fresh_id: str
) -> Effects:
    delay = settings.group_initial_rebalance_delay_ms / 1000
    if request.instance_id is not None:
        member_id = f"{request.instance_id}-{fresh_id}"
        known = group.member_ids_by_instance.get(request.instance_id)
        if known is not None:
            return _replace_static_member(group, group.members[known], member_id, request, ticket, at, settings)
        return _add_member(group, member_id, request, ticket, at, delay)
    member_id = f"{request.client_id}-{fresh_id}"
    if not request.needs_known_id:
        return _add_member(group, member_id, request, ticket, at, delay)
    group.add_pending(member_id, request.holder, at.now + request.session_timeout)
    given = _event(group, EventType.ID_GIVEN, member_id)
    return refuse(ticket, ErrorCode.member_id_required, member_id) + emit(given)


def _join_with_given_id(group: Group, request: Join, ticket: Ticket, at: Instant, delay: float) -> Effects:
    if request.instance_id is not None:
        # Ids are issued to dynamic members only. Kafka's broker fails here with this error.
        return refuse(ticket, ErrorCode.unknown_server_error, "")
    return _add_member(group, request.member_id, request, ticket, at, delay)


def _add_member(group: Group, member_id: str, request: Join, ticket: Ticket, at: Instant, delay: float) -> Effects:
    member = Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout=request.session_timeout,
        rebalance_timeout=request.rebalance_timeout,
        protocols=request.protocols,
        session=Deadline(Purpose.SESSION, group.group_id, member_id),
        is_new=True,
        join_ticket=ticket,
        principal=request.principal,
    )
    if group.initial_delay is not None:
        group.initial_delay.has_newcomers = True
    group.add(member, request.protocol_type)
    group.limit_session(member, at.now + NEW_MEMBER_TIMEOUT)
    why = _reason(Cause.JOINED, f"{member_id} joined", request)
    return emit(_event(group, EventType.JOINED, member_id, request.reason)) + rebalance(group, why, at, delay)


def _rejoin(group: Group, member: Member, request: Join, ticket: Ticket, at: Instant, delay: float) -> Effects:
    if group.state is State.PREPARING_REBALANCE:
        return _repark_join(group, member, request, ticket) + complete_if_all_joined(group, at)
    has_new_subscription = member.protocols != request.protocols
    is_leader = group.is_leader(member.member_id)
    match group.state:
        case State.COMPLETING_REBALANCE if not has_new_subscription:
            # The earlier answer may have been lost.
            return answer(ticket, join_reply(group, member, member_subscriptions(group) if is_leader else ()))
        case State.STABLE if not has_new_subscription and not is_leader:
            return answer(ticket, join_reply(group, member, ()))
        case State.COMPLETING_REBALANCE | State.STABLE:
            # A leader that joins again has seen topics change, which its subscription does not show.
            cause = Cause.NEW_SUBSCRIPTION if has_new_subscription else Cause.LEADER_REJOINED
            change = "has a new subscription" if has_new_subscription else "is the leader and joined again"
            why = _reason(cause, f"{member.member_id} {change}", request)
            return _repark_join(group, member, request, ticket) + rebalance(group, why, at, delay)
        case State.EMPTY | State.DEAD:
            raise AssertionError(f"a group with members is {group.state}")


def _repark_join(group: Group, member: Member, request: Join, ticket: Ticket) -> Effects:
    """Parks the member's join again, superseding one that is parked already."""
    effects = NO_EFFECTS
    if member.join_ticket is not None:
        superseded = JoinReply(member_id=member.member_id, error_code=ErrorCode.rebalance_in_progress)
        effects = answer_parked_join(group, member, superseded)
    group.update_protocols(member, request.protocols)
    member.session_timeout = request.session_timeout
    member.rebalance_timeout = request.rebalance_timeout
    group.park_join(member, ticket)
    return effects


def _replace_static_member(
    group: Group, old: Member, member_id: str, request: Join, ticket: Ticket, at: Instant, settings: Settings
) -> Effects:
    """Gives a static member that returned a new id (KIP-345). A client that still uses the old id is fenced."""
    delay = settings.group_initial_rebalance_delay_ms / 1000
    old_leader = group.leader_id or ""
    fenced = ErrorCode.fenced_instance_id
    effects = answer_parked_join(group, old, JoinReply(member_id=old.member_id, error_code=fenced))
    effects += answer_parked_sync(old, SyncReply(error_code=fenced))
    member = group.replace(old, member_id)
    effects += emit(_event(group, EventType.REPLACED, member_id, f"{old.member_id} came back as {member_id}"))
    group.renew_session(member, at.now)
    effects += _repark_join(group, member, request, ticket)
    why = _reason(Cause.STATIC_RETURNED, f"{request.instance_id} came back", request)
    match group.state:
        case State.STABLE if group.protocol == group.select_protocol() and _record_fits(group, settings):
            return effects + _rejoin_without_rebalance(group, member, request, old_leader)
        case State.STABLE:
            return effects + rebalance(group, why, at, delay)
        case State.COMPLETING_REBALANCE:
            # The leader may be planning for the old id, and the new one would get no assignment.
            return effects + prepare(group, why, at, delay)
        case State.PREPARING_REBALANCE:
            return effects + complete_if_all_joined(group, at)
        case State.EMPTY | State.DEAD:
            raise AssertionError(f"a group with members is {group.state}")


def _record_fits(group: Group, settings: Settings) -> bool:
    """Whether a record still has room for the group: the returned member may have a larger subscription."""
    assigned = {member.member_id: member.assignment for member in group.members.values()}
    return group.record_size(assigned) <= settings.message_max_bytes


def _rejoin_without_rebalance(group: Group, member: Member, request: Join, old_leader: str) -> Effects:
    """Answers a returned static member at once: it still has its assignment, and only its new id is recorded."""
    reply = join_reply(group, member, ())
    if not request.can_skip_assignment:
        # If the reply named it as the leader it would plan again, so the reply names the leader from before.
        reply = reply._replace(leader=old_leader)
    elif group.is_leader(member.member_id):
        reply = reply._replace(members=member_subscriptions(group), skip_assignment=True)
    return Effects((), (group.to_record(),)) + answer_parked_join(group, member, reply)


def _event(group: Group, what: EventType, member_id: str, why: str | None = None) -> Event:
    return Event(what=what, group_id=group.group_id, generation=group.generation, member_id=member_id, why=why or "")


def _reason(cause: Cause, text: str, request: Join) -> Reason:
    """Returns why a rebalance begins, with the reason that the client gave (KIP-800)."""
    return Reason(cause, f"{text}: {request.reason}" if request.reason else text)
