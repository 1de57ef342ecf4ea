"""What changed between looks at groups: states, members, owners, offsets.

A classic group tells its assignment only while it is Stable: in a rebalance every member seems to have nothing. What a
member has is therefore compared with what was told last, and a rebalance that changes nothing tells no change of owner.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from kcoord.admin.formatting import say_member, say_partitions
from kcoord.admin.groups.forecast import Behind, Forecast, Outlook, Progress, forecast, furthest
from kcoord.admin.groups.group_snapshot import Look, SeenGroup, added
from kcoord.admin.groups.rates import UNKNOWN_PACE, Pace, paces, total_pace
from kcoord.admin.model import Group, GroupType, Member, Refusal, TopicPartition
from kcoord.errors import ErrorCode

# The states of a classic group in which the coordinator keeps its assignments to itself.
_UNTOLD_IN: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
_GONE: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.invalid_group_id})


class ChangeKind(StrEnum):
    GROUP_APPEARED = "group-appeared"
    GROUP_GONE = "group-gone"
    STATE = "state"
    EPOCH = "epoch"
    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    GAINED = "gained"
    LOST = "lost"
    MOVED_BACK = "offsets-moved-back"
    REFUSED = "refused"
    TOLD_AGAIN = "told-again"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that one look shows and the one before did not; `at` is the time of the later look."""

    at: float
    group: str  # empty where it concerns more than one
    kind: ChangeKind
    says: str
    member: Member | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def predicate(self) -> str:
        """What the member did, without its name: "joined"; all that is said where it is about no member."""
        return self.says.removeprefix(say_member(self.member)).strip() if self.member else self.says


@dataclass(frozen=True, kw_only=True)
class WatchedGroup:
    """A group at the last look, how fast it went over the last while, and what is to be expected of it."""

    seen: SeenGroup
    paces: Mapping[TopicPartition, Pace]
    forecasts: Mapping[TopicPartition, Forecast]
    forecast: Forecast
    behinds: Mapping[TopicPartition, Behind | None]

    @cached_property
    def pace(self) -> Pace:
        return total_pace(self.paces.values())

    @cached_property
    def behind(self) -> Behind | None:
        """The age of the oldest record that is not consumed: at least so much while a partition with lag tells none."""
        known = furthest(self.behinds.values())
        untold = any((each.lag or 0) > 0 and self.behinds.get(each.tp) is None for each in self.seen.partitions)
        return known._replace(is_at_least=True) if known is not None and untold else known


class Watch:
    """The looks of the last while, and what changed since the first: the memory of `kcoord groups watch`."""

    def __init__(self, *, window: float = 30.0, remembered: int = 200) -> None:
        self.changes: deque[Change] = deque(maxlen=remembered)
        self._looks: deque[Look] = deque()
        self._progress = Progress()
        self._groups: list[WatchedGroup] | None = None
        self._window = window
        self._watcher = Watcher()
        self.trouble: str | None = None
        """Why the last look was none."""

    def see(self, look: Look) -> tuple[Change, ...]:
        """What is new. Paces are taken over the window, or over two looks if they are further apart."""
        found = self._watcher.see(look)
        if self.trouble is not None:
            self.trouble = None
            found = (Change(at=look.at, group="", kind=ChangeKind.REACHABLE, says="the cluster answers again"), *found)
        self._looks.append(look)
        while len(self._looks) > 2 and self._looks[1].at <= look.at - self._window:
            self._looks.popleft()
        self._progress.see(look)
        self._groups = None
        self.changes.extend(found)
        return found

    def miss(self, at: float, trouble: str) -> tuple[Change, ...]:
        """There was no look: told when it begins, and when the reason is another."""
        found = Change(at=at, group="", kind=ChangeKind.UNREACHABLE, says=trouble)
        is_new = trouble != self.trouble
        self.trouble = trouble
        self.changes.extend([found] * is_new)
        return (found,) * is_new

    @property
    def look(self) -> Look | None:
        """The last there was."""
        return self._looks[-1] if self._looks else None

    def groups(self) -> list[WatchedGroup]:
        if self._groups is None:
            seen = self.look.groups.values() if self.look else ()
            self._groups = [self._watched(each) for each in seen]
        return self._groups

    def _watched(self, seen: SeenGroup) -> WatchedGroup:
        name, last, span = seen.group.name, self._looks[-1], self._looks[-1].at - self._looks[0].at
        own = paces(self._looks, name)
        judged = {each.tp: self._progress.keeps_up(name, each.tp) for each in seen.partitions}
        forecasts = {
            each.tp: forecast(each.lag, own.get(each.tp, UNKNOWN_PACE), keeps_up=judged[each.tp], span=span)
            for each in seen.partitions
        }
        return WatchedGroup(
            seen=seen,
            paces=own,
            forecasts=forecasts,
            forecast=_group_forecast(seen, own, forecasts, span=span),
            behinds={each.tp: self._progress.behind(each, last.at) for each in seen.partitions},
        )


def _group_forecast(
    seen: SeenGroup,
    own: Mapping[TopicPartition, Pace],
    forecasts: Mapping[TopicPartition, Forecast],
    *,
    span: float,
) -> Forecast:
    """Of the partitions that have not caught up, all together: a consumer may work off one after the other."""
    outlooks = {each.outlook for each in forecasts.values()}
    if Outlook.BEYOND_END in outlooks:
        return Forecast(Outlook.BEYOND_END)
    open_ones = [each for each in seen.partitions if forecasts[each.tp].outlook is not Outlook.CAUGHT_UP]
    lag = added(each.lag for each in open_ones)
    if lag is None:  # all have caught up of which something is known
        return forecast(0 if Outlook.CAUGHT_UP in outlooks else None, UNKNOWN_PACE, keeps_up=None, span=span)
    is_judged = any(forecasts[each.tp].outlook is not Outlook.UNKNOWN for each in open_ones)
    pace = total_pace(own[each.tp] for each in open_ones if each.tp in own)
    return forecast(lag, pace, keeps_up=False if is_judged else None, span=span)


def changes(looks: Iterable[Look]) -> tuple[Change, ...]:
    """All that changed over these looks, the oldest first."""
    watcher = Watcher()
    return tuple(change for look in looks for change in watcher.see(look))


@dataclass(slots=True)
class Watcher:
    """Remembers what was told last, and says what is new in each look."""

    _before: Look | None = None
    _groups: dict[str, SeenGroup] = field(default_factory=dict)  # as they were told last
    _owned: dict[str, Mapping[str, frozenset[TopicPartition]]] = field(default_factory=dict)  # by group, member id
    _refused: dict[str, Refusal] = field(default_factory=dict)

    def see(self, look: Look) -> tuple[Change, ...]:
        """Nothing at the first look: there is nothing to compare it with."""
        found = [] if self._before is None else [*self._refusals(look), *self._compared(look)]
        self._before = look
        self._refused = {refusal.what: refusal for refusal in look.refused}
        for name, seen in look.groups.items():
            self._groups[name] = seen
            if (owned := _owned(seen.group)) is not None:
                self._owned[name] = owned
        return tuple(found)

    def _refusals(self, look: Look) -> Iterable[Change]:
        now = {refusal.what: refusal for refusal in look.refused}
        for what, refusal in now.items():
            if what not in self._refused and refusal.error not in _GONE:
                yield Change(at=look.at, group=_group_of(what), kind=ChangeKind.REFUSED, says=f"not told: {refusal}")
        for what, refusal in self._refused.items():
            if what not in now and refusal.error not in _GONE:
                yield Change(
                    at=look.at, group=_group_of(what), kind=ChangeKind.TOLD_AGAIN, says=f"{what} is told again"
                )

    def _compared(self, look: Look) -> Iterable[Change]:
        gone = {_group_of(refusal.what) for refusal in look.refused if refusal.error in _GONE}
        if not look.refused:  # who is not listed any more, and nobody was silent
            gone |= self._groups.keys() - look.groups.keys()
        for name in sorted(gone & self._groups.keys()):
            del self._groups[name]
            self._owned.pop(name, None)
            yield Change(at=look.at, group=name, kind=ChangeKind.GROUP_GONE, says="the group is gone")
        for name, seen in look.groups.items():
            if before := self._groups.get(name):
                yield from self._of_group(look.at, before, seen)
            else:
                says = f"the group is there: {seen.group.state}"
                yield Change(at=look.at, group=name, kind=ChangeKind.GROUP_APPEARED, says=says)

    def _of_group(self, at: float, before: SeenGroup, seen: SeenGroup) -> Iterable[Change]:
        old, new = before.group, seen.group
        change = Change(at=at, group=new.name, kind=ChangeKind.STATE, says=f"{old.state} → {new.state}")
        if old.state != new.state:
            yield change
        if None not in (old.epoch, new.epoch) and old.epoch != new.epoch:
            yield replace(change, kind=ChangeKind.EPOCH, says=f"epoch {old.epoch} → {new.epoch}")
        were, are = _by_id(old), _by_id(new)
        for member in (were[each] for each in were if each not in are):
            yield replace(change, kind=ChangeKind.MEMBER_LEFT, says=f"{say_member(member)} left", member=member)
        for member in (are[each] for each in are if each not in were):
            yield replace(change, kind=ChangeKind.MEMBER_JOINED, says=f"{say_member(member)} joined", member=member)
        yield from self._owners(change, were, are, _owned(new))
        yield from _moved_back(change, before, seen)

    def _owners(
        self,
        change: Change,
        were: Mapping[str, Member],
        are: Mapping[str, Member],
        owned: Mapping[str, frozenset[TopicPartition]] | None,
    ) -> Iterable[Change]:
        before = self._owned.get(change.group)
        if before is None or owned is None:
            return
        for kind, word, old, new in (
            (ChangeKind.LOST, "lost", owned, before),
            (ChangeKind.GAINED, "got", before, owned),
        ):
            for member_id, partitions in new.items():
                member = are.get(member_id) or were.get(member_id)
                different = tuple(sorted(partitions - old.get(member_id, frozenset())))
                if different and member:
                    says = f"{say_member(member)} {word} {say_partitions(different)}"
                    yield replace(change, kind=kind, says=says, member=member, partitions=different)


def _owned(group: Group) -> Mapping[str, frozenset[TopicPartition]] | None:
    """By member id; None where the group does not tell."""
    if group.type is not GroupType.CONSUMER and group.state in _UNTOLD_IN:
        return None
    return {member.member_id: frozenset(member.assignment or ()) for member in group.members}


def _moved_back(change: Change, before: SeenGroup, seen: SeenGroup) -> Iterable[Change]:
    committed = {each.tp: each.committed.offset for each in before.partitions if each.committed}
    back = {
        each.tp: committed[each.tp] - each.committed.offset
        for each in seen.partitions
        if each.committed and each.committed.offset < committed.get(each.tp, -1)
    }
    if back:
        says = f"committed offsets moved back by {sum(back.values()):,} records: {say_partitions(back)}"
        yield replace(change, kind=ChangeKind.MOVED_BACK, says=says, partitions=tuple(sorted(back)))


def _by_id(group: Group) -> dict[str, Member]:
    return {member.member_id: member for member in group.members}


def _group_of(what: str) -> str:
    """The group that a refusal is about, if it is one group."""
    kind, _, name = what.partition(" ")
    return name if kind == "group" else ""
