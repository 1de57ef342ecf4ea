"""Members that went and came back, and the changes of a group without these absences.

A dynamic member that is restarted has a new member id, so the log does not tell that it is the same. A member that
comes with the client id and the host of one that is gone counts as that one, and a static member is known by its
instance id. How long it was away is measured from when the rebalance without it had all others joined to when the one
with it had.

The log does not tell either whether a member left by itself or its session expired. What its partitions' commits show:

| departure | evidence                                                                                             |
|-----------|------------------------------------------------------------------------------------------------------|
| left      | one of its partitions was committed within its session timeout before: its session cannot have run out|
| expired   | none was: its session may have run out, so it counts as away for its session timeout longer          |
| unknown   | no commit of its partitions is known                                                                 |

| what if                    | absences that no rebalance would have noticed                                       |
|----------------------------|-------------------------------------------------------------------------------------|
| members had been static    | those of dynamic members that were not longer than the session timeout, because     |
|                            | static members do not leave the group when they stop                                |
| the session timeout had    | those of members that expired and were not away for longer than that, if the same   |
| been another one           | process went on: a process that was restarted would join all the same               |
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kcoord.assignors.plan import count_partitions
from kcoord.assignors.replaying.changes import Change, ChangeKind, subscriptions_of
from kcoord.assignors.replaying.recording import RecordedMember


class Departure(StrEnum):
    """How a member went, as far as commits show."""

    LEFT = "left"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A member that was not in its group from the change `went` up to the change `came` (their indexes; both are the
    same if it was replaced in one rebalance). `away_ms` is how long it was away, None if the log has no times."""

    member: RecordedMember
    new_id: str
    went: int
    came: int
    departure: Departure
    away_ms: int | None

    @property
    def unread_partition_ms(self) -> int:
        """How long its partitions are not read, all together, if nobody takes them over; by the recorded assignment."""
        return count_partitions(self.member.assigned) * (self.away_ms or 0)

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the member had joined with; 0 if it is not known."""
        return self.member.session_timeout_ms or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """A recorded change that would not have happened, and the absences that it began or ended."""

    change: Change
    absences: tuple[Absence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """The changes of a group without some absences, and the recorded changes that would not have happened. `unnoticed`
    are these absences: nobody reads the partitions of such a member while it is away."""

    changes: tuple[Change, ...]
    avoided: tuple[Avoided, ...]
    unnoticed: tuple[Absence, ...] = ()


def find_absences(changes: Sequence[Change]) -> list[Absence]:
    """Returns the members that went and came back, in the order in which they came."""
    return list(_Departures().returns(changes))


def if_members_were_static(changes: Sequence[Change], session_timeout_ms: int | None = None) -> Without:
    """Returns the changes that would be left, had all members an instance id, with this session timeout or the one that
    each had."""

    def is_unnoticed(absence: Absence) -> bool:
        allowed = absence.session_timeout_ms if session_timeout_ms is None else session_timeout_ms
        return absence.member.instance_id is None and _is_within(absence, allowed)

    return _without(changes, is_unnoticed)


def if_sessions_lasted(changes: Sequence[Change], session_timeout_ms: int) -> Without:
    """Returns the changes that would be left, had all members this session timeout."""

    def is_unnoticed(absence: Absence) -> bool:
        return absence.departure is Departure.EXPIRED and _is_within(absence, session_timeout_ms)

    return _without(changes, is_unnoticed)


def _is_within(absence: Absence, allowed_ms: int) -> bool:
    return absence.away_ms is not None and absence.away_ms <= allowed_ms


class _Departures:
    """The members that are gone, from change to change, until they come back."""

    def __init__(self) -> None:
        self._gone: dict[tuple[str | None, ...], list[tuple[int, RecordedMember, Departure]]] = {}
        self._last_commits: dict[str, int] = {}

    def returns(self, changes: Sequence[Change]) -> Iterator[Absence]:
        """Yields each member that comes with the name of one that is gone, the one that went last."""
        before: dict[str, RecordedMember] = {}
        for index, change in enumerate(changes):
            now = {each.identity: each for each in change.members}
            for departed in [each for identity, each in before.items() if identity not in now]:
                entry = (index, departed, self._departure(departed, change))
                self._gone.setdefault(_name(departed), []).append(entry)
            if index > 0:
                yield from self._came_back(
                    [each for identity, each in now.items() if identity not in before], index, changes
                )
            self._note_commits(change)
            before = now

    def _came_back(self, members: Iterable[RecordedMember], index: int, changes: Sequence[Change]) -> Iterator[Absence]:
        for each in members:
            if waiting := self._gone.get(_name(each)):
                went, departed, departure = waiting.pop()
                away = _milliseconds_between(changes[went], changes[index])
                if away is not None and departure is Departure.EXPIRED:
                    away += departed.session_timeout_ms or 0
                yield Absence(
                    member=departed,
                    new_id=each.member_id,
                    went=went,
                    came=index,
                    departure=departure,
                    away_ms=away,
                )

    def _departure(self, member: RecordedMember, change: Change) -> Departure:
        last = self._last_commits.get(member.member_id)
        if last is None or change.joined_ms is None or member.session_timeout_ms is None:
            return Departure.UNKNOWN
        return Departure.LEFT if change.joined_ms - last < member.session_timeout_ms else Departure.EXPIRED

    def _note_commits(self, change: Change) -> None:
        for generation in change.recorded:
            for each in generation.members:
                if each.last_commit_ms is not None:
                    self._last_commits[each.member_id] = each.last_commit_ms


def _name(member: RecordedMember) -> tuple[str | None, ...]:
    """Returns what stays the same when a member comes back."""
    if member.instance_id is not None:
        return (member.instance_id,)
    return member.client_id, member.client_host


def _milliseconds_between(went: Change, came: Change) -> int | None:
    if went.joined_ms is None or came.joined_ms is None:
        return None
    return max(0, came.joined_ms - went.joined_ms)


def _without(changes: Sequence[Change], is_unnoticed: Callable[[Absence], bool]) -> Without:
    absences = [each for each in find_absences(changes) if is_unnoticed(each)]
    first_ids: dict[str, str] = {}
    for each in absences:  # a member may be away several times
        first_ids[each.new_id] = first_ids.get(each.member.member_id, each.member.member_id)
    made: list[Change] = []
    avoided: list[Avoided] = []
    for change, (away, about) in zip(changes, _at_each_change(absences, len(changes)), strict=True):
        members = tuple(_renamed(each, first_ids) for each in (*change.members, *away))
        changed = _as_if(change, members, made)
        if changed is None:
            avoided.append(Avoided(change=change, absences=about))
        else:
            made.append(changed)
    return Without(changes=tuple(made), avoided=tuple(avoided), unnoticed=tuple(absences))


def _at_each_change(
    absences: Sequence[Absence], changes: int
) -> Iterator[tuple[list[RecordedMember], tuple[Absence, ...]]]:
    """Yields for each change the members that are away from then on, and the absences that it begins or ends, both in
    the order of `absences`."""
    going: defaultdict[int, set[int]] = defaultdict(set)  # indexes of absences, by the change
    coming: defaultdict[int, set[int]] = defaultdict(set)
    for index, each in enumerate(absences):
        going[each.went].add(index)
        coming[each.came].add(index)
    away: set[int] = set()
    for change in range(changes):
        away |= going[change]
        away -= coming[change]
        about = going[change] | coming[change]
        yield [absences[index].member for index in sorted(away)], tuple(absences[index] for index in sorted(about))


def _renamed(member: RecordedMember, first_ids: dict[str, str]) -> RecordedMember:
    """Returns a member that came back with the member id that it had at first."""
    return replace(member, member_id=first_ids.get(member.member_id, member.member_id))


def _as_if(change: Change, members: tuple[RecordedMember, ...], before: Sequence[Change]) -> Change | None:
    """Returns a change with these members instead of the recorded ones; None if nothing would have changed."""
    if not members:
        return replace(change, members=()) if before and before[-1].members else None
    last = before[-1] if before else None
    if change.kind in (ChangeKind.BEGINNING, ChangeKind.RETURNED, ChangeKind.UNEXPLAINED) or last is None:
        return replace(change, members=members)
    is_same = subscriptions_of(members) == subscriptions_of(last.members) and change.counts == last.counts
    return None if is_same else replace(change, members=members, kind=ChangeKind.CHANGED)
