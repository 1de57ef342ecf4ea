"""One classic group as the requests and answers on their way tell of it. Pure: what was seen and an instant go in.

What a proxy can know, and what not:

    JoinGroup     who wants in, and with what; answered with a higher generation, a join phase is over. The leader is
                  told all members, of this proxy or not; the others are told nothing of each other
    SyncGroup     answered well, the generation is complete
    Heartbeat     answered well, the generation stands, and so do all its members: had one expired, this would say
                  that a rebalance is in progress
    LeaveGroup    who has gone. Of an expired session nothing is seen but that a member is missing in the next
                  generation

So a rebalance has the cause of the first thing that was seen before it: see Cause.

Who has asked to join and has no answer yet is on the way in, and counts: else all who start together would be let in
before the first of them is a member. Each join has a ticket, by which it is answered, refused or given up.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self

from kcoord.groups.classic.state import State

_MAX_REMEMBERED: Final = 1000  # rebalances of one group

_USUAL_SESSION_TIMEOUT: Final = 45.0  # of Kafka's consumers, where their own has not been seen

NO_GENERATION: Final = -1


class Cause(StrEnum):
    """What began a rebalance, as far as a proxy can see it; in words of groups/effects.py where they mean the same."""

    JOINED = "joined"
    LEFT = "left"
    SESSION_EXPIRED = "session-expired"  # nobody left, and a member is missing
    NEW_SUBSCRIPTION = "new-subscription"  # a member joined again with other topics
    REJOINED = "rejoined"  # with the same: its topics changed, or it has partitions to give up
    STATIC_RETURNED = "static-returned"
    ELSEWHERE = "elsewhere"  # nobody who comes by here


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMember:
    member_id: str
    instance_id: str | None = None
    client_id: str = ""  # empty of a member that does not come by here
    host: str = ""
    topics: frozenset[str] = frozenset()
    session_timeout: float = _USUAL_SESSION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """What a JoinGroup brings. Its member's id is empty if it has none yet."""

    member: WatchedMember
    protocol_type: str
    reason: str = ""


class Joined(NamedTuple):
    """A JoinGroup answered well. `members`: ids and instance ids, told to the leader alone."""

    member_id: str
    generation: int
    protocol: str
    members: Sequence[tuple[str, str | None]] = ()


class Began(NamedTuple):
    cause: Cause
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalanced:
    """A rebalance that is over: the generation it came to is complete, or there is a newer one already."""

    group_id: str
    generation: int
    cause: Cause
    members: int
    protocol: str
    reason: str


@dataclass(slots=True)
class Membership:
    """Who is in a group, of either kind, and who is on the way in."""

    group_id: str
    generation: int = NO_GENERATION
    members: dict[str, WatchedMember] = field(default_factory=dict)
    rebalanced_at: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_REMEMBERED))
    _heard_at: dict[str, float] = field(default_factory=dict)  # of the members that come by here
    _joining: dict[object, WatchedMember] = field(default_factory=dict)  # who is on the way in, by ticket

    @classmethod
    def succeeding(cls, former: "Membership", now: float) -> Self:
        """A group that has become one of the other kind, as far as kinds have this in common.

        As long as there is a member the group lives on, and may have members of both kinds (KIP-848, migration).
        """
        group = cls(former.group_id, rebalanced_at=former.rebalanced_at, _joining=former._joining)
        if alive := former.alive(now):
            group.generation = former.generation
            group.members = {each.member_id: each for each in alive}
            group._heard_at = {each.member_id: former._session_end(each) - each.session_timeout for each in alive}
        return group

    def expect(self, ticket: object, member: WatchedMember) -> None:
        """A member is on the way in."""
        self._joining[ticket] = member

    def join_refused(self, ticket: object) -> None:
        """The coordinator said no, or that the member must join again with an id of its; or the client has gone."""
        self._joining.pop(ticket, None)

    def is_known(self, member_id: str, instance_id: str | None) -> bool:
        """Whether this is a member, or one on the way in that counts already. Who was only given an id is neither."""
        if member_id in self.members or self.has_instance(instance_id):
            return True
        on_the_way = self._joining.values()
        if member_id and any(each.member_id == member_id for each in on_the_way):
            return True
        return instance_id is not None and any(each.instance_id == instance_id for each in on_the_way)

    def has_instance(self, instance_id: str | None) -> bool:
        """Whether there is a static member of that name."""
        return instance_id is not None and any(each.instance_id == instance_id for each in self.members.values())

    def size(self, now: float) -> int:
        """How many members there are, or will be once all who are on the way in have joined."""
        return len(self.alive(now)) + len(self._new_on_the_way())

    def alive(self, now: float) -> list[WatchedMember]:
        """The members whose session cannot have expired yet, or who are about to begin another."""
        ids = {each.member_id for each in self._joining.values()}
        instances = {each.instance_id for each in self._joining.values()} - {None}
        return [
            member
            for member in self.members.values()
            if member.member_id in ids or member.instance_id in instances or now < self._session_end(member)
        ]

    def _new_on_the_way(self) -> set[object]:
        """Those on the way in who are not members: each once, however often it has asked."""
        instances = {each.instance_id for each in self.members.values()} - {None}
        return {
            _who(ticket, each)
            for ticket, each in self._joining.items()
            if each.member_id not in self.members and each.instance_id not in instances
        }

    def _session_end(self, member: WatchedMember) -> float:
        """At the earliest."""
        return self._heard_at[member.member_id] + member.session_timeout


@dataclass(slots=True)
class WatchedGroup(Membership):
    state: State = State.EMPTY
    protocol_type: str = ""
    protocol: str = ""
    _began: Began | None = None  # what was seen first, since the generation began
    _is_announced: bool = False  # it is certain that a rebalance is in progress
    _generation_of: Began | None = None  # what led to this generation, until it is complete
    _confirmed_until: float = 0.0

    # What is seen

    def join_sent(self, ticket: object, joining: Joining) -> None:
        self.expect(ticket, joining.member)
        self._began = self._began or Began(self._cause_of(joining), joining.reason)
        if self.state in (State.EMPTY, State.STABLE):
            self.state = State.PREPARING_REBALANCE

    def join_answered(self, ticket: object, joining: Joining, answer: Joined, now: float) -> Rebalanced | None:
        self._joining.pop(ticket, None)
        over = None
        # A lower generation than one of which nobody is left: the group was deleted since, and is there again.
        if answer.generation > self.generation or (answer.generation < self.generation and not self.alive(now)):
            over = self._completed()
            self._begin_generation(answer, now)
        self.protocol_type = joining.protocol_type
        self._remember(replace(joining.member, member_id=answer.member_id))
        self._take_over(answer.members)
        self._heard(answer.member_id, now)
        self._perhaps_nothing_began()
        return over

    def join_refused(self, ticket: object) -> None:
        Membership.join_refused(self, ticket)  # super() knows nothing of classes that dataclass gave slots
        self._perhaps_nothing_began()

    def synced(self, member_id: str, generation: int, now: float) -> Rebalanced | None:
        self.confirmed(member_id, generation, now)
        if generation != self.generation:
            return None
        if self.state is State.COMPLETING_REBALANCE:
            self.state = State.STABLE
        return self._completed()

    def confirmed(self, member_id: str, generation: int, now: float) -> None:
        """The coordinator takes this member for one of this generation."""
        if generation < self.generation:
            return
        if generation > self.generation or self.state is State.EMPTY:  # the proxy is younger than the generation
            self.generation, self.state = generation, State.STABLE
        self._heard(member_id, now)

    def announced(self, member_id: str, now: float) -> None:
        """A member was told that a rebalance is in progress."""
        self.members.setdefault(member_id, WatchedMember(member_id=member_id))
        self._heard_at[member_id] = now
        self._preparing(Began(Cause.ELSEWHERE))

    def left(self, member_ids: Iterable[str], instance_ids: Iterable[str], reason: str = "") -> None:
        instances = set(instance_ids)
        gone = {*member_ids} | {each.member_id for each in self.members.values() if each.instance_id in instances}
        known = gone & self.members.keys()
        for member_id in known:
            self._forget(member_id)
        if not self.members and not self._joining:
            self._is_empty()
        elif known:
            self._preparing(Began(Cause.LEFT, reason))

    def forgotten(self, member_id: str) -> None:
        """The coordinator does not know this member any more."""
        self._forget(member_id)
        if not self.members and not self._joining:
            self._is_empty()

    # What is known

    def rebalances_since(self, instant: float) -> int:
        """With one that has begun and not come to a generation yet."""
        return sum(at > instant for at in self.rebalanced_at) + (self._began is not None)

    def _session_end(self, member: WatchedMember) -> float:
        """At the earliest. A member that does not come by here is there as long as its generation is."""
        heard_at = self._heard_at.get(member.member_id)
        return self._confirmed_until if heard_at is None else heard_at + member.session_timeout

    def _cause_of(self, joining: Joining) -> Cause:
        member = joining.member
        if known := self.members.get(member.member_id):
            return Cause.NEW_SUBSCRIPTION if known.topics and known.topics != member.topics else Cause.REJOINED
        return Cause.STATIC_RETURNED if self.has_instance(member.instance_id) else Cause.JOINED

    # What changes

    def _preparing(self, began: Began) -> None:
        self._began = self._began or began
        self._is_announced = True
        self.state = State.PREPARING_REBALANCE

    def _perhaps_nothing_began(self) -> None:
        """What looked like the beginning of a rebalance was answered without one, unless it is known better."""
        if self._joining:
            return
        if not self.members:
            self._is_empty()
        elif not self._is_announced:
            self._began = None
            if self.state in (State.EMPTY, State.PREPARING_REBALANCE):
                self.state = State.STABLE

    def _is_empty(self) -> None:
        self.state, self._began, self._is_announced = State.EMPTY, None, False

    def _begin_generation(self, answer: Joined, now: float) -> None:
        self.generation, self.protocol = answer.generation, answer.protocol
        self.state = State.COMPLETING_REBALANCE
        self._generation_of = self._began or Began(Cause.ELSEWHERE)
        self._began, self._is_announced = None, False
        self.rebalanced_at.append(now)

    def _completed(self) -> Rebalanced | None:
        """The rebalance that led to this generation, once."""
        if self._generation_of is None:
            return None
        cause, reason = self._generation_of
        self._generation_of = None
        return Rebalanced(
            group_id=self.group_id,
            generation=self.generation,
            cause=cause,
            members=len(self.members),
            protocol=self.protocol,
            reason=reason,
        )

    def _remember(self, member: WatchedMember) -> None:
        if member.instance_id is not None:  # a static member that is back has another id; the one it had is nobody's
            former = [each.member_id for each in self.members.values() if each.instance_id == member.instance_id]
            for member_id in former:
                self._forget(member_id)
        self.members[member.member_id] = member

    def _heard(self, member_id: str, now: float) -> None:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = WatchedMember(member_id=member_id)
        self._heard_at[member_id] = now
        self._confirmed_until = max(self._confirmed_until, now + member.session_timeout)

    def _forget(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        self._heard_at.pop(member_id, None)

    def _take_over(self, members: Iterable[tuple[str, str | None]]) -> None:
        """The leader's list is all there are: who is not in it is no member any more."""
        listed = dict(members)
        if not listed:
            return
        missing = self._heard_at.keys() - listed.keys()
        if missing and self._generation_of == Began(Cause.ELSEWHERE):
            self._generation_of = Began(Cause.SESSION_EXPIRED)
        self.members = {
            member_id: self.members.get(member_id) or WatchedMember(member_id=member_id, instance_id=instance_id)
            for member_id, instance_id in listed.items()
        }
        for member_id in missing:
            del self._heard_at[member_id]


def _who(ticket: object, member: WatchedMember) -> tuple[str, object]:
    """What tells one who is on the way in from another: of who has no name yet, the ticket."""
    if member.instance_id is not None:
        return "instance", member.instance_id
    return ("member", member.member_id) if member.member_id else ("ticket", ticket)
