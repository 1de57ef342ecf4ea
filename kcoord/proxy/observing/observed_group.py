"""The state of one classic group, derived from observed requests and responses. Pure: it takes the time as an argument.

What a proxy can know from each API, and what not:

    JoinGroup     The request shows who joins, and with what. A response with a higher generation ends a join phase. The
                  leader's response lists all members, whether they connect through this proxy or not; followers'
                  responses list none.
    SyncGroup     A successful response completes the generation.
    Heartbeat     A successful response shows that the generation and all its members are current: if a session had
                  expired, it would be REBALANCE_IN_PROGRESS.
    LeaveGroup    The request shows who leaves. An expired session shows only in that a member is missing from the next
                  generation.

So a rebalance gets the cause of the first observation before it: see Cause.

A join without an answer counts as a pending member: otherwise all members that start together would be admitted before
the first of them is a member. Each join has a ticket, by which it is answered, refused or dropped.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self

from kcoord.groups.classic.state import State

_MAX_REMEMBERED: Final = 1000  # rebalances of one group

_DEFAULT_SESSION_TIMEOUT: Final = 45.0  # the default of Kafka's consumers, for members whose own is unknown

NO_GENERATION: Final = -1


class Cause(StrEnum):
    """What began a rebalance, as far as a proxy can observe it. Values shared with groups/effects.py mean the same."""

    JOINED = "joined"
    LEFT = "left"
    SESSION_EXPIRED = "session-expired"  # no member left, and one is missing
    NEW_SUBSCRIPTION = "new-subscription"  # a member joined again with other topics
    REJOINED = "rejoined"  # a member joined again with the same topics: they changed, or it gives up partitions
    STATIC_RETURNED = "static-returned"
    ELSEWHERE = "elsewhere"  # nothing that this proxy observed


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMember:
    """A member of an observed group, with what the proxy has seen of it."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""  # empty for a member that does not connect through this proxy
    host: str = ""
    topics: frozenset[str] = frozenset()
    session_timeout: float = _DEFAULT_SESSION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The observed fields of a JoinGroup request. The member's id is empty if it has none yet."""

    member: ObservedMember
    protocol_type: str
    reason: str = ""


class JoinResponse(NamedTuple):
    """The observed fields of a successful JoinGroup response. `members` are pairs of member id and instance id; only
    the leader's response lists them.
    """

    member_id: str
    generation: int
    protocol: str
    members: Sequence[tuple[str, str | None]] = ()


class RebalanceStart(NamedTuple):
    """The cause of a rebalance that has begun, and the reason that the client gave (KIP-800)."""

    cause: Cause
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalanced:
    """A rebalance that has finished: its generation is complete, or a newer one has already replaced it."""

    group_id: str
    generation: int
    cause: Cause
    members: int
    protocol: str
    reason: str


@dataclass(slots=True)
class Membership:
    """The members and pending joins of an observed group, classic or KIP-848."""

    group_id: str
    generation: int = NO_GENERATION
    members: dict[str, ObservedMember] = field(default_factory=dict)
    rebalanced_at: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_REMEMBERED))
    _last_seen_at: dict[str, float] = field(default_factory=dict)  # by member id; members of this proxy only
    _pending_joins: dict[object, ObservedMember] = field(default_factory=dict)  # joining members by ticket

    @classmethod
    def converted_from(cls, former: "Membership", now: float) -> Self:
        """Converts an observed group to the other kind, classic or KIP-848. What both kinds have in common is carried
        over.

        A group that still has live members continues, and may have members of both kinds (KIP-848, migration).
        """
        group = cls(former.group_id, rebalanced_at=former.rebalanced_at, _pending_joins=former._pending_joins)
        if alive := former.alive(now):
            group.generation = former.generation
            group.members = {each.member_id: each for each in alive}
            group._last_seen_at = {each.member_id: former._session_end(each) - each.session_timeout for each in alive}
        return group

    def add_pending_join(self, ticket: object, member: ObservedMember) -> None:
        """Adds a join whose request has been forwarded and not answered yet. `ticket` identifies it."""
        self._pending_joins[ticket] = member

    def on_join_refused(self, ticket: object) -> None:
        """Drops a pending join: the coordinator refused it or asked for a member id, or the client disconnected."""
        self._pending_joins.pop(ticket, None)

    def is_known(self, member_id: str, instance_id: str | None) -> bool:
        """Returns whether this is a member, or one that is joining. A client that was only given a member id is
        neither.
        """
        if member_id in self.members or self.has_instance(instance_id):
            return True
        pending = self._pending_joins.values()
        if member_id and any(each.member_id == member_id for each in pending):
            return True
        return instance_id is not None and any(each.instance_id == instance_id for each in pending)

    def has_instance(self, instance_id: str | None) -> bool:
        """Returns whether there is a static member with this instance id."""
        return instance_id is not None and any(each.instance_id == instance_id for each in self.members.values())

    def size(self, now: float) -> int:
        """Returns how many members the group has, or will have once all pending joins have succeeded; `now` is a
        monotonic instant.
        """
        return len(self.alive(now)) + len(self._pending_new_members())

    def alive(self, now: float) -> list[ObservedMember]:
        """Returns the members whose session cannot have expired yet, or that are joining again."""
        ids = {each.member_id for each in self._pending_joins.values()}
        instances = {each.instance_id for each in self._pending_joins.values()} - {None}
        return [
            member
            for member in self.members.values()
            if member.member_id in ids or member.instance_id in instances or now < self._session_end(member)
        ]

    def _pending_new_members(self) -> set[object]:
        """Returns one key for each pending joiner that is not a member, however often it has sent a join."""
        instances = {each.instance_id for each in self.members.values()} - {None}
        return {
            _joiner_key(ticket, each)
            for ticket, each in self._pending_joins.items()
            if each.member_id not in self.members and each.instance_id not in instances
        }

    def _session_end(self, member: ObservedMember) -> float:
        """Returns the earliest instant at which the member's session can expire."""
        return self._last_seen_at[member.member_id] + member.session_timeout


@dataclass(slots=True)
class ObservedGroup(Membership):
    """The state of a classic group (JoinGroup, SyncGroup), as far as requests and responses through this
    proxy show it.
    """

    state: State = State.EMPTY
    protocol_type: str = ""
    protocol: str = ""
    _began: RebalanceStart | None = None  # the first cause observed since the generation began
    _is_announced: bool = False  # the coordinator has confirmed that a rebalance is in progress
    _generation_start: RebalanceStart | None = None  # why this generation began, until it is complete
    _confirmed_until: float = 0.0

    # Observations

    def on_join_sent(self, ticket: object, join: JoinRequest) -> None:
        """Notes a JoinGroup that has been forwarded. `ticket` identifies it until it is answered; its member counts as
        pending.
        """
        self.add_pending_join(ticket, join.member)
        self._began = self._began or RebalanceStart(self._cause_of(join), join.reason)
        if self.state in (State.EMPTY, State.STABLE):
            self.state = State.PREPARING_REBALANCE

    def on_join_answered(
        self, ticket: object, join: JoinRequest, answer: JoinResponse, now: float
    ) -> Rebalanced | None:
        """Applies a successful JoinGroup response; returns the rebalance that it shows to have ended, if any."""
        self._pending_joins.pop(ticket, None)
        completed = None
        # A lower generation, and no live member of the known one: the group was deleted and created again.
        if answer.generation > self.generation or (answer.generation < self.generation and not self.alive(now)):
            completed = self._complete_rebalance()
            self._begin_generation(answer, now)
        self.protocol_type = join.protocol_type
        self._remember(replace(join.member, member_id=answer.member_id))
        self._apply_member_list(answer.members)
        self._renew_session(answer.member_id, now)
        self._cancel_unconfirmed_rebalance()
        return completed

    def on_join_refused(self, ticket: object) -> None:
        """Drops a pending join that was refused, and the rebalance if no other observation confirms it."""
        Membership.on_join_refused(self, ticket)  # super() does not work in dataclasses with slots
        self._cancel_unconfirmed_rebalance()

    def on_synced(self, member_id: str, generation: int, now: float) -> Rebalanced | None:
        """Applies a successful SyncGroup response to this member; returns the rebalance that it completes, if any."""
        self.on_member_confirmed(member_id, generation, now)
        if generation != self.generation:
            return None
        if self.state is State.COMPLETING_REBALANCE:
            self.state = State.STABLE
        return self._complete_rebalance()

    def on_member_confirmed(self, member_id: str, generation: int, now: float) -> None:
        """Renews the session of a member that the coordinator has confirmed to be in this generation."""
        if generation < self.generation:
            return
        if generation > self.generation or self.state is State.EMPTY:  # the generation began before the proxy did
            self.generation, self.state = generation, State.STABLE
        self._renew_session(member_id, now)

    def on_rebalance_announced(self, member_id: str, now: float) -> None:
        """Notes that a rebalance has begun, which REBALANCE_IN_PROGRESS in a response to this member shows."""
        self.members.setdefault(member_id, ObservedMember(member_id=member_id))
        self._last_seen_at[member_id] = now
        self._prepare_rebalance(RebalanceStart(Cause.ELSEWHERE))

    def on_left(self, member_ids: Iterable[str], instance_ids: Iterable[str], reason: str = "") -> None:
        """Removes the members that have left by a LeaveGroup request, named by member id or instance id."""
        instances = set(instance_ids)
        gone = {*member_ids} | {each.member_id for each in self.members.values() if each.instance_id in instances}
        known = gone & self.members.keys()
        for member_id in known:
            self._forget(member_id)
        if not self.members and not self._pending_joins:
            self._become_empty()
        elif known:
            self._prepare_rebalance(RebalanceStart(Cause.LEFT, reason))

    def on_unknown_member(self, member_id: str) -> None:
        """Removes a member that the coordinator no longer knows."""
        self._forget(member_id)
        if not self.members and not self._pending_joins:
            self._become_empty()

    # Queries

    def rebalances_since(self, instant: float) -> int:
        """Returns how many rebalances there were since this instant, with one that has begun but has no
        generation yet.
        """
        return sum(at > instant for at in self.rebalanced_at) + (self._began is not None)

    def _session_end(self, member: ObservedMember) -> float:
        """Returns the earliest instant at which the session can expire. A member that does not connect through this
        proxy counts as long as the generation has been confirmed."""
        last_seen_at = self._last_seen_at.get(member.member_id)
        return self._confirmed_until if last_seen_at is None else last_seen_at + member.session_timeout

    def _cause_of(self, join: JoinRequest) -> Cause:
        member = join.member
        if known := self.members.get(member.member_id):
            return Cause.NEW_SUBSCRIPTION if known.topics and known.topics != member.topics else Cause.REJOINED
        return Cause.STATIC_RETURNED if self.has_instance(member.instance_id) else Cause.JOINED

    # Transitions

    def _prepare_rebalance(self, began: RebalanceStart) -> None:
        self._began = self._began or began
        self._is_announced = True
        self.state = State.PREPARING_REBALANCE

    def _cancel_unconfirmed_rebalance(self) -> None:
        """Takes back a presumed rebalance that all joins were answered without, unless the coordinator confirmed it."""
        if self._pending_joins:
            return
        if not self.members:
            self._become_empty()
        elif not self._is_announced:
            self._began = None
            if self.state in (State.EMPTY, State.PREPARING_REBALANCE):
                self.state = State.STABLE

    def _become_empty(self) -> None:
        self.state, self._began, self._is_announced = State.EMPTY, None, False

    def _begin_generation(self, answer: JoinResponse, now: float) -> None:
        self.generation, self.protocol = answer.generation, answer.protocol
        self.state = State.COMPLETING_REBALANCE
        self._generation_start = self._began or RebalanceStart(Cause.ELSEWHERE)
        self._began, self._is_announced = None, False
        self.rebalanced_at.append(now)

    def _complete_rebalance(self) -> Rebalanced | None:
        """Returns the rebalance that led to this generation, the first time it is called; then None."""
        if self._generation_start is None:
            return None
        cause, reason = self._generation_start
        self._generation_start = None
        return Rebalanced(
            group_id=self.group_id,
            generation=self.generation,
            cause=cause,
            members=len(self.members),
            protocol=self.protocol,
            reason=reason,
        )

    def _remember(self, member: ObservedMember) -> None:
        if member.instance_id is not None:  # a static member that returns gets a new id, and the old one is void
            former = [each.member_id for each in self.members.values() if each.instance_id == member.instance_id]
            for member_id in former:
                self._forget(member_id)
        self.members[member.member_id] = member

    def _renew_session(self, member_id: str, now: float) -> None:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ObservedMember(member_id=member_id)
        self._last_seen_at[member_id] = now
        self._confirmed_until = max(self._confirmed_until, now + member.session_timeout)

    def _forget(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self._last_seen_at.pop(member_id, None)

    def _apply_member_list(self, members: Iterable[tuple[str, str | None]]) -> None:
        """Applies the leader's list, which is complete: members that are not in it are removed."""
        listed = dict(members)
        if not listed:
            return
        missing = self._last_seen_at.keys() - listed.keys()
        if missing and self._generation_start == RebalanceStart(Cause.ELSEWHERE):
            self._generation_start = RebalanceStart(Cause.SESSION_EXPIRED)
        self.members = {
            member_id: self.members.get(member_id) or ObservedMember(member_id=member_id, instance_id=instance_id)
            for member_id, instance_id in listed.items()
        }
        for member_id in missing:
            del self._last_seen_at[member_id]


def _joiner_key(ticket: object, member: ObservedMember) -> tuple[str, object]:
    """Returns the key that distinguishes a joiner from others; one without any id has only its ticket."""
    if member.instance_id is not None:
        return "instance", member.instance_id
    return ("member", member.member_id) if member.member_id else ("ticket", ticket)
