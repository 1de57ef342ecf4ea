"""What a member may ask again without being looked at anew, as long as its group stays as it is.

A member sends the same heartbeat every few seconds, and commits to the same partitions. Once that went well, it stands:
as long as the group is Stable, in the same generation, and the member is still in it, all that would be looked at is as
it was, so that the reply is the same too. What else there is to do, to renew the session and to keep the offsets, is
done here. When its group is rebalanced, all members join and sync with the same words as the last time, and most come
when the phase is under way, where nothing is left to decide but who waits. As soon as any of that does not hold, the
request is decided as any other.

Nothing needs to be told when a group can no longer be asked for: who closes it lets go of it first, and it is Dead. Of
a member that is gone the session has no end.
"""

from typing import Any, Final

from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member, Protocols
from kcoord.groups.classic.protocols import are_named_alike, names
from kcoord.groups.classic.state import State
from kcoord.groups.classic.syncing import assigned, differs
from kcoord.groups.instant import Instant
from kcoord.groups.offsets.committing import UsualCommit, keep_again
from kcoord.groups.records import StoredAgain
from kcoord.groups.replies import SyncReply
from kcoord.groups.requests import Join, Sync
from kcoord.groups.topics import Topics
from kcoord.tickets import WAITS, Ticket, Waits

_MANY: Final = 32  # members
# To look up the member of an enum takes as long as all else that is looked at.
_STABLE: Final = State.STABLE
_PREPARING: Final = State.PREPARING_REBALANCE
_COMPLETING: Final = State.COMPLETING_REBALANCE


class StandingHeartbeat:
    __slots__ = ("_deadlines", "_generation", "_group", "_session", "_timeout")

    def __init__(self, group: Group, member: Member) -> None:
        self._group = group
        self._generation = group.generation
        self._deadlines = group.deadlines
        self._session = member.session
        self._timeout = member.session_timeout

    def beat(self, now: float) -> bool:
        """Whether all is well with the member; its session is renewed then."""
        group = self._group
        if group.state is not _STABLE or group.generation != self._generation or self._session.at is None:
            return False
        self._deadlines.set(self._session, now + self._timeout)
        return True


class StandingCommit(StandingHeartbeat):
    __slots__ = ("_losses", "_topics", "places")

    def __init__(self, group: Group, member: Member, usual: UsualCommit, topics: Topics) -> None:
        super().__init__(group, member)
        self.places = usual.places
        self._losses = usual.losses
        self._topics = topics

    def commit(self, offsets: tuple[int, ...], at: Instant) -> StoredAgain | None:
        """What is to be recorded of a commit of these offsets; None if it is to be decided."""
        group = self._group
        # As `beat` does, which is not called: a commit takes a few microseconds, and each call its share of them.
        if group.state is not _STABLE or group.generation != self._generation or self._session.at is None:
            return None
        if self._losses != self._topics.losses:
            return None
        self._deadlines.set(self._session, at.now + self._timeout)
        return keep_again(group, self.places, offsets, at)


class StandingPhase:
    """What a member says when its group is rebalanced."""

    __slots__ = ("_group", "_member")

    def __init__(self, group: Group, member: Member) -> None:
        self._group = group
        self._member = member

    @property
    def is_of_many(self) -> bool:
        """Whether most who say it wait for others."""
        return len(self._group.members) >= _MANY

    def ask(self, varying: tuple[Any, ...], ticket: Ticket) -> SyncReply | Waits | None:
        """The reply, unless it waits; None if it is to be decided."""
        raise NotImplementedError


class StandingJoin(StandingPhase):
    """A known member joins while its group is rebalanced, with the protocols that it had, but for what it says in them.

    How much it says is the same, too: the settings allowed it before.
    """

    __slots__ = ("_max_size", "_names", "_offered", "_timeouts")

    def __init__(self, group: Group, member: Member, request: Join, max_size: int) -> None:
        super().__init__(group, member)
        self._max_size = max_size
        shared = {name: name for name in group.supporters}  # the same objects for all members
        self._names = [shared.get(name, name) for name in names(request.protocols)]
        self._offered: Protocols | None = None  # the last time
        self._timeouts = (request.session_timeout, request.rebalance_timeout)

    def ask(self, subscriptions: tuple[bytes, ...], ticket: Ticket) -> Waits | None:
        """The member waits for others; None if the join is to be decided, as that of the last one is."""
        group, member = self._group, self._member
        if group.state is not _PREPARING or member.join_ticket is not None or member.session.at is None:
            return None
        if group.parked_joins + 1 >= len(group.members) or group.parked_joins >= self._max_size:
            return None
        offered = tuple(zip(self._names, subscriptions, strict=True))
        if member.protocols is not self._offered:  # it did not join so the last time
            if not are_named_alike(offered, member.protocols):
                return None
            if sum(map(len, subscriptions)) != sum(len(held) for _, held in member.protocols):
                return None  # there may be no room for more
            member.session_timeout, member.rebalance_timeout = self._timeouts
        member.protocols = self._offered = offered
        group.park_join(member, ticket)
        return WAITS


class StandingSync(StandingPhase):
    """A member without a plan of its own takes part in the generation that its group is in."""

    __slots__ = ("_protocol", "_protocol_type")

    def __init__(self, group: Group, member: Member, request: Sync) -> None:
        super().__init__(group, member)
        self._protocol = group.protocol if request.protocol == group.protocol else request.protocol
        is_usual = request.protocol_type == group.protocol_type
        self._protocol_type = group.protocol_type if is_usual else request.protocol_type

    def ask(self, generation: tuple[int], ticket: Ticket) -> SyncReply | Waits | None:
        """The member waits for the plan, or has its part of it; None if the sync is to be decided."""
        group, member = self._group, self._member
        if generation[0] != group.generation or member.session.at is None:
            return None
        if differs(self._protocol, group.protocol) or differs(self._protocol_type, group.protocol_type):
            return None
        if group.state is _STABLE:
            group.has_synced(member)
            return assigned(group, member.assignment)
        is_leader = group.leader_id == member.member_id
        if group.state is not _COMPLETING or is_leader or member.sync_ticket is not None:
            return None
        group.has_synced(member)
        member.sync_ticket = ticket
        return WAITS
