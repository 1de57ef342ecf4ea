"""Prevalidated requests: repeated requests of a member whose checks are known to hold while its group is unchanged.

A member sends the same heartbeat every few seconds and commits to the same partitions. Once such a request has
succeeded, its checks hold for as long as the group is Stable, in the same generation, and the member is still in it;
the reply is then the same, too. What remains to be done is done here: the session is renewed and the offsets are
applied. During a rebalance all members repeat their joins and syncs, mostly while the phase is under way, so that
nothing is left to decide but to park them. As soon as one of these conditions fails, the request is decided as any
other.

No invalidation is needed when a group becomes unavailable: it is unloaded first, and then it is Dead. The session of a
removed member has no deadline, which is checked here.
"""

from typing import Any, Final

from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Member, Protocols
from kcoord.groups.classic.protocols import have_same_names, names
from kcoord.groups.classic.state import State
from kcoord.groups.classic.syncing import is_mismatch, sync_reply
from kcoord.groups.instant import Instant
from kcoord.groups.offsets.committing import CommitTemplate, apply_repeated
from kcoord.groups.records import RepeatedCommit
from kcoord.groups.replies import SyncReply
from kcoord.groups.requests import Join, Sync
from kcoord.groups.topics import Topics
from kcoord.tickets import WAITS, Ticket, Waits

_MANY_MEMBERS: Final = 32  # members
# Looking up a member of an enum takes as long as all the other checks together.
_STABLE: Final = State.STABLE
_PREPARING: Final = State.PREPARING_REBALANCE
_COMPLETING: Final = State.COMPLETING_REBALANCE


class PrevalidatedHeartbeat:
    """Decides the repeated heartbeats of one member while its group stays Stable in the same generation, without the
    checks that the first one has passed."""

    __slots__ = ("_deadlines", "_generation", "_group", "_session", "_timeout")

    def __init__(self, group: Group, member: Member) -> None:
        self._group = group
        self._generation = group.generation
        self._deadlines = group.deadlines
        self._session = member.session
        self._timeout = member.session_timeout

    def heartbeat(self, now: float) -> bool:
        """Renews the member's session and returns True, or returns False if the coordinator must decide the
        heartbeat."""
        group = self._group
        if group.state is not _STABLE or group.generation != self._generation or self._session.at is None:
            return False
        self._deadlines.set(self._session, now + self._timeout)
        return True


class PrevalidatedCommit(PrevalidatedHeartbeat):
    """Decides the repeated OffsetCommits of one member to the same partitions while its group stays Stable in the same
    generation, without the checks that the first one has passed."""

    __slots__ = ("_deletion_epoch", "_topics", "partitions")

    def __init__(self, group: Group, member: Member, template: CommitTemplate, topics: Topics) -> None:
        super().__init__(group, member)
        self.partitions = template.partitions
        self._deletion_epoch = template.deletion_epoch
        self._topics = topics

    def commit(self, offsets: tuple[int, ...], at: Instant) -> RepeatedCommit | None:
        """Applies a commit of these offsets and returns its record, or returns None if the coordinator must decide the
        commit."""
        group = self._group
        # Repeats the checks of `heartbeat` inline: a commit takes a few microseconds, and each call its share of them.
        if group.state is not _STABLE or group.generation != self._generation or self._session.at is None:
            return None
        if self._deletion_epoch != self._topics.deletion_epoch:
            return None
        self._deadlines.set(self._session, at.now + self._timeout)
        return apply_repeated(group, self.partitions, offsets, at)


class PrevalidatedRebalanceRequest:
    """The base of the objects that decide a JoinGroup or SyncGroup that a member repeats in each rebalance, without the
    checks that the first one has passed."""

    __slots__ = ("_group", "_member")

    def __init__(self, group: Group, member: Member) -> None:
        self._group = group
        self._member = member

    @property
    def has_many_members(self) -> bool:
        """Whether the group is so large that most of its JoinGroups and SyncGroups are parked."""
        return len(self._group.members) >= _MANY_MEMBERS

    def apply(self, values: tuple[Any, ...], ticket: Ticket) -> SyncReply | Waits | None:
        """Decides the request, given its fields that vary: returns its reply, WAITS if it is parked, or None if the
        coordinator must decide it by all its steps. The ticket is its handle."""
        raise NotImplementedError


class PrevalidatedJoin(PrevalidatedRebalanceRequest):
    """Decides the JoinGroup of a known member that has the same protocols as before, and perhaps new subscriptions.

    The subscriptions have the same total size as before, so they are within the limits that were checked then.
    """

    __slots__ = ("_max_size", "_names", "_offered", "_timeouts")

    def __init__(self, group: Group, member: Member, request: Join, max_size: int) -> None:
        super().__init__(group, member)
        self._max_size = max_size
        shared = {name: name for name in group.protocol_support}  # identical string objects for all members
        self._names = [shared.get(name, name) for name in names(request.protocols)]
        self._offered: Protocols | None = None  # at the last join
        self._timeouts = (request.session_timeout, request.rebalance_timeout)

    def apply(self, subscriptions: tuple[bytes, ...], ticket: Ticket) -> Waits | None:
        """Parks the JoinGroup with these subscriptions and returns WAITS, or returns None if the coordinator must
        decide it, as it must the last join of the phase."""
        group, member = self._group, self._member
        if group.state is not _PREPARING or member.join_ticket is not None or member.session.at is None:
            return None
        if group.parked_joins + 1 >= len(group.members) or group.parked_joins >= self._max_size:
            return None
        offered = tuple(zip(self._names, subscriptions, strict=True))
        if member.protocols is not self._offered:  # its last join was another one
            if not have_same_names(offered, member.protocols):
                return None
            if sum(map(len, subscriptions)) != sum(len(held) for _, held in member.protocols):
                return None  # there may be no room for more
            member.session_timeout, member.rebalance_timeout = self._timeouts
        member.protocols = self._offered = offered
        group.park_join(member, ticket)
        return WAITS


class PrevalidatedSync(PrevalidatedRebalanceRequest):
    """Decides the SyncGroup of a follower, which brings no assignments, in the group's current generation."""

    __slots__ = ("_protocol", "_protocol_type")

    def __init__(self, group: Group, member: Member, request: Sync) -> None:
        super().__init__(group, member)
        self._protocol = group.protocol if request.protocol == group.protocol else request.protocol
        is_group_protocol_type = request.protocol_type == group.protocol_type
        self._protocol_type = group.protocol_type if is_group_protocol_type else request.protocol_type

    def apply(self, generation: tuple[int], ticket: Ticket) -> SyncReply | Waits | None:
        """Decides the SyncGroup of this generation: returns its reply, WAITS if it is parked, or None if the
        coordinator must decide it."""
        group, member = self._group, self._member
        if generation[0] != group.generation or member.session.at is None:
            return None
        if is_mismatch(self._protocol, group.protocol) or is_mismatch(self._protocol_type, group.protocol_type):
            return None
        if group.state is _STABLE:
            group.mark_synced(member)
            return sync_reply(group, member.assignment)
        is_leader = group.leader_id == member.member_id
        if group.state is not _COMPLETING or is_leader or member.sync_ticket is not None:
            return None
        group.mark_synced(member)
        member.sync_ticket = ticket
        return WAITS
