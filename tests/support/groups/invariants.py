"""The invariants of a coordinator, which hold after every step (DESIGN.md, section 5)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from kcoord.groups.classic.group import _MEMBER_BYTES, Group
from kcoord.groups.classic.member import Member
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.deadlines import Deadline
from kcoord.groups.usage import Usage, member_bytes
from kcoord.tickets import Ticket

IN_USE = (State.COMPLETING_REBALANCE, State.STABLE)


def check_group(group: Group) -> None:
    """Counters equal a recount, and everything that is awaited belongs to a member."""
    members = group.members.values()
    assert group.state is not State.DEAD, "a dead group is forgotten"
    parked = [member for member in members if member.join_ticket is not None]
    assert group.parked_joins == len(parked), "joins that wait are miscounted"
    names = Counter(name for member in members for name in {name for name, _ in member.protocols})
    assert group.protocol_support == names, "protocols are miscounted"
    instances = {member.instance_id: member.member_id for member in members if member.instance_id is not None}
    assert group.member_ids_by_instance == instances, "instance ids lead to other members"
    assert all(member_id == member.member_id for member_id, member in group.members.items())
    assert not group.members.keys() & group.pending.keys(), "an id is pending or a member, never both"
    assert group.awaiting_sync <= group.members.keys(), "who is gone is waited for"
    assert all(deadline.at is not None for deadline in group.pending.values()), "an id is pending for ever"
    _check_sizes(group)
    _check_phases(group)
    for member in members:
        _check_member(group, member)


def _check_sizes(group: Group) -> None:
    names = [name for each in group.members.values() for name in (each.member_id, each.client_id, each.client_host)]
    instances = [each.instance_id or "" for each in group.members.values()]
    size = sum(len(name.encode()) for name in [*names, *instances]) + _MEMBER_BYTES * len(group.members)
    assert group._name_bytes == size, "the names of members are measured wrong"
    if group.state is State.COMPLETING_REBALANCE:
        subscriptions = sum(len(each.subscription(group.protocol)) for each in group.members.values())
        assert group._subscription_bytes >= subscriptions, "a plan would be kept that no record has room for"


def _check_phases(group: Group) -> None:
    is_preparing = group.state is State.PREPARING_REBALANCE
    is_in_use = group.state in IN_USE
    assert is_preparing == (group.join_phase.at is not None), "a join phase ends some time, and only a join phase does"
    assert is_preparing or group.initial_delay is None, "an initial delay outside of a join phase"
    assert is_in_use or not group.awaiting_sync, "syncs are waited for although there is no plan to come"
    assert is_in_use or group.sync_phase.at is None, "a sync phase goes on although there is no plan to come"
    assert not group.awaiting_sync or group.sync_phase.at is not None, "members that never sync would stay"
    assert not (group.members and group.is_empty), "a group with members is not Empty"
    leaders = group.members.keys() if group.members else {None}
    assert group.leader_id in leaders, "the leader is one of the members"
    if is_in_use:
        assert group.members, "a generation without members"
        assert group.generation > 0
        assert group.protocol_support.get(group.protocol or "") == len(group.members), "a protocol that not all support"


def _check_member(group: Group, member: Member) -> None:
    is_preparing = group.state is State.PREPARING_REBALANCE
    assert member.join_ticket is None or is_preparing, "a join waits in a join phase only"
    assert member.sync_ticket is None or group.state is State.COMPLETING_REBALANCE, "a sync waits for the leader only"
    is_waited_for = member.member_id in group.awaiting_sync
    assert member.sync_ticket is None or not is_waited_for, "a sync that has come is waited for"
    assert member.session.at is not None or member.may_be_silent, "a member would stay though it is silent"
    assert not member.is_new or is_preparing, "who takes part in a generation is not new"


def deadlines_of(group: Group) -> Iterator[Deadline]:
    yield group.join_phase
    yield group.sync_phase
    yield from group.pending.values()
    for member in group.members.values():
        yield member.session


def check_deadlines(coordinator: Coordinator, groups: Iterable[Group]) -> None:
    """Each deadline has an alarm that rings no later."""
    first = coordinator.deadline()
    for group in groups:
        for deadline in deadlines_of(group):
            if deadline.at is not None:
                assert first is not None
                assert first <= deadline.alarm_at <= deadline.at, f"{deadline.purpose} would be overslept"


def check_memory(coordinator: Coordinator) -> None:
    """The count of members equals a recount, and the number of alarms is bounded by the number of deadlines."""
    members = sum(len(group.members) + len(group.pending) for group in coordinator.groups.values())
    assert coordinator._usage.members.total == members, "members are miscounted"
    _check_shares(coordinator)
    deadlines = members + 2 * len(coordinator.groups)
    assert len(coordinator._deadlines) <= 4 * deadlines + 256, "deadlines are remembered that nobody has"


def _check_shares(coordinator: Coordinator) -> None:
    """Usage equals a recount, in total and for each holder."""
    counted = Usage()
    for group in coordinator.groups.values():
        assert group.plan_bytes == sum(len(each.assignment) for each in group.members.values()), "a plan is miscounted"
        counted.groups.add(group.owner, 1)
        counted.bytes.add(group.owner, group._held_bytes)
        for holder in [*(each.holder for each in group.members.values()), *group.pending_holders.values()]:
            counted.members.add(holder, 1)
        for member in group.members.values():
            counted.bytes.add(member.holder, member_bytes(member))
    usage = coordinator._usage
    for held, recounted in zip(
        (usage.groups, usage.members, usage.bytes), (counted.groups, counted.members, counted.bytes), strict=True
    ):
        assert (held.total, held.shares) == (recounted.total, recounted.shares), "what is held is miscounted"


def check_after_tick(coordinator: Coordinator, now: float) -> None:
    deadline = coordinator.deadline()
    assert deadline is None or deadline > now, "after a tick, the next deadline is in the future"
    overslept = [
        each
        for group in coordinator.groups.values()
        for each in deadlines_of(group)
        if (inf if each.at is None else each.at) <= now
    ]
    assert not overslept, "a deadline has passed, and nothing came of it"


def parked_tickets(coordinator: Coordinator) -> list[Ticket]:
    return [
        ticket
        for group in coordinator.groups.values()
        for member in group.members.values()
        for ticket in (member.join_ticket, member.sync_ticket)
        if ticket is not None
    ]


def check_replayed(live: Mapping[str, Group], replayed: Mapping[str, Group]) -> None:
    """Replaying the log gives the live state: all offsets, and all groups that are not in a rebalance."""
    for group_id in live.keys() | replayed.keys():
        _check_replayed(live.get(group_id), replayed.get(group_id))


def check_same(one: Mapping[str, Group], other: Mapping[str, Group]) -> None:
    """Two replays of the same log give the same groups, except for groups without any durable state."""
    groups = {group_id: group for group_id, group in one.items() if not _is_blank(group)}
    assert groups.keys() == {group_id for group_id, group in other.items() if not _is_blank(group)}, (
        "the log gives other groups"
    )
    for group_id, group in groups.items():
        assert group.offsets == other[group_id].offsets, "the log gives other offsets"
        assert _durable(group) == _durable(other[group_id]), "the log gives another group"


def _check_replayed(live: Group | None, replayed: Group | None) -> None:
    if live is None or replayed is None:
        only = live or replayed
        assert only is None or _is_blank(only), "a group that the log does not know, or the live path does not"
        return
    assert live.offsets == replayed.offsets, "the log gives other offsets"
    assert live.generation >= replayed.generation, "the log gives a later generation"
    if live.state in (State.STABLE, State.EMPTY):
        assert _durable(live) == _durable(replayed), "the log gives another group"


def _is_blank(group: Group) -> bool:
    """Whether the group has no durable state: it was only asked for."""
    return group.protocol_type is None and not group.generation and not group.offsets


def _durable(group: Group) -> tuple[object, ...]:
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader_id,
        group.since_ms if group.is_empty and group.protocol_type is not None else None,  # not used in other states
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
