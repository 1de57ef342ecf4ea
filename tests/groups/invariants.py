"""What is true of a coordinator after every step, whatever was asked of it (DESIGN.md, section 5)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from kcoord.groups.coordinator import Coordinator
from kcoord.groups.deadlines import Deadline
from kcoord.groups.group import Group
from kcoord.groups.member import Member
from kcoord.groups.state import State
from kcoord.tickets import Ticket

IN_USE = (State.COMPLETING_REBALANCE, State.STABLE)


def check_group(group: Group) -> None:
    """Counters equal a recount, and everything that waits is waited for by somebody."""
    members = group.members.values()
    assert group.state is not State.DEAD, "a dead group is forgotten"
    assert group.parked_joins == len([member for member in members if member.join_ticket is not None])
    assert group.supporters == Counter(name for member in members for name in {name for name, _ in member.protocols})
    assert group.member_ids_by_instance == {
        member.instance_id: member.member_id for member in members if member.instance_id is not None
    }
    assert all(member_id == member.member_id for member_id, member in group.members.items())
    assert not group.members.keys() & group.pending.keys(), "an id is pending or a member, never both"
    assert group.awaiting_sync <= group.members.keys()
    assert all(deadline.at is not None for deadline in group.pending.values()), "an id is pending for ever"
    _check_phases(group)
    for member in members:
        _check_member(group, member)


def _check_phases(group: Group) -> None:
    is_preparing = group.state is State.PREPARING_REBALANCE
    is_in_use = group.state in IN_USE
    assert is_preparing == (group.join_phase.at is not None), "a join phase ends some time, and only a join phase does"
    assert is_preparing or group.initial_delay is None
    assert is_in_use or not group.awaiting_sync
    assert is_in_use or group.sync_phase.at is None
    assert not group.awaiting_sync or group.sync_phase.at is not None, "members that never sync would stay"
    assert not (group.members and group.is_empty), "a group with members is not Empty"
    assert group.leader_id in group.members or (group.leader_id is None and not group.members)
    if is_in_use:
        assert group.members
        assert group.generation > 0
        assert group.supporters.get(group.protocol or "") == len(group.members), "a protocol that all support"


def _check_member(group: Group, member: Member) -> None:
    is_preparing = group.state is State.PREPARING_REBALANCE
    assert member.join_ticket is None or is_preparing, "a join waits in a join phase only"
    assert member.sync_ticket is None or group.state is State.COMPLETING_REBALANCE, "a sync waits for the leader only"
    assert member.sync_ticket is None or member.member_id not in group.awaiting_sync
    assert member.session.at is not None or member.may_be_silent, "a member would stay though it is silent"
    assert not member.is_new or is_preparing


def deadlines_of(group: Group) -> Iterator[Deadline]:
    yield group.join_phase
    yield group.sync_phase
    yield from group.pending.values()
    for member in group.members.values():
        yield member.session


def check_deadlines(coordinator: Coordinator, groups: Iterable[Group]) -> None:
    """Nobody oversleeps: each deadline has an alarm that rings no later."""
    first = coordinator.deadline()
    for group in groups:
        for deadline in deadlines_of(group):
            if deadline.at is not None:
                assert first is not None
                assert first <= deadline.alarm_at <= deadline.at, f"{deadline.purpose} would be overslept"


def check_alarms(coordinator: Coordinator) -> None:
    """What is remembered of deadlines is bounded by the deadlines that there are."""
    alive = sum(1 for group in coordinator.groups.values() for deadline in deadlines_of(group) if deadline.at)
    assert len(coordinator._deadlines) <= 4 * alive + 256


def check_after_tick(coordinator: Coordinator, now: float) -> None:
    deadline = coordinator.deadline()
    assert deadline is None or deadline > now, "after a tick, the next deadline is in the future"
    overslept = [
        each
        for group in coordinator.groups.values()
        for each in deadlines_of(group)
        if (inf if each.at is None else each.at) <= now
    ]
    assert not overslept


def parked_tickets(coordinator: Coordinator) -> list[Ticket]:
    return [
        ticket
        for group in coordinator.groups.values()
        for member in group.members.values()
        for ticket in (member.join_ticket, member.sync_ticket)
        if ticket is not None
    ]


def check_replayed(live: Mapping[str, Group], replayed: Mapping[str, Group]) -> None:
    """What the log gives is what the live path holds: all offsets, and groups that are between no two generations."""
    for group_id in live.keys() | replayed.keys():
        _check_replayed(live.get(group_id), replayed.get(group_id))


def _check_replayed(live: Group | None, replayed: Group | None) -> None:
    if live is None or replayed is None:
        only = live or replayed
        assert only is None or _is_blank(only)
        return
    assert live.offsets == replayed.offsets
    assert live.generation >= replayed.generation
    if live.state in (State.STABLE, State.EMPTY):
        assert _durable(live) == _durable(replayed)


def _is_blank(group: Group) -> bool:
    """Somebody asked for it and left no trace that is worth keeping."""
    return group.protocol_type is None and not group.generation and not group.offsets


def _durable(group: Group) -> tuple[object, ...]:
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader_id,
        group.since_ms if group.protocol_type is not None else None,
        [_durable_member(member, group.protocol) for member in group.members.values()],
    )


def _durable_member(member: Member, protocol: str | None) -> tuple[object, ...]:
    return (
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout,
        member.rebalance_timeout,
        member.subscription(protocol),
        member.assignment,
    )
