"""Changes between snapshots of groups: states, members, owners, offsets.

A classic group reports its assignment only while it is Stable: during a rebalance every member seems to own nothing.
The current assignment is therefore compared with the last one that was reported, and a rebalance that moves no
partition emits no change of owner.
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

# The states of a classic group in which the coordinator does not report assignments.
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
    """A difference between two snapshots; `at` is the time of the later one."""

    at: float
    group: str  # empty if it concerns more than one
    kind: ChangeKind
    says: str
    member: Member | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def predicate(self) -> str:
        """What the member did, without its name: "joined". For a change without a member it is the whole text."""
        return self.says.removeprefix(say_member(self.member)).strip() if self.member else self.says


@dataclass(frozen=True, kw_only=True)
class WatchedGroup:
    """A group in the latest snapshot, its rates over the window, and its forecast."""

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
        """The age of the oldest record that is not consumed. It is a lower bound while the time of some partition with
        lag is unknown."""
        known = furthest(self.behinds.values())
        untold = any((each.lag or 0) > 0 and self.behinds.get(each.tp) is None for each in self.seen.partitions)
        return known._replace(is_at_least=True) if known is not None and untold else known


class Watch:
    """The snapshots within a window, and the changes since the first: the state of `kcoord groups watch`."""

    def __init__(self, *, window: float = 30.0, remembered: int = 200) -> None:
        self.changes: deque[Change] = deque(maxlen=remembered)
        self._looks: deque[Look] = deque()
        self._progress = Progress()
        self._groups: list[WatchedGroup] | None = None
        self._window = window
        self._watcher = Watcher()
        self.trouble: str | None = None
        """Why the latest attempt at a snapshot failed."""

    def see(self, look: Look) -> tuple[Change, ...]:
        """Adds a snapshot and returns what changed. Rates are taken over the window, or over two snapshots if they are
        further apart."""
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
        """Records that no snapshot could be read. Emits a change when that begins, and when the reason changes."""
        found = Change(at=at, group="", kind=ChangeKind.UNREACHABLE, says=trouble)
        is_new = trouble != self.trouble
        self.trouble = trouble
        self.changes.extend([found] * is_new)
        return (found,) * is_new

    @property
    def look(self) -> Look | None:
        """The latest snapshot, if there is one."""
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
    """Forecasts for all partitions that have not caught up together: a consumer may work off one after the other."""
    outlooks = {each.outlook for each in forecasts.values()}
    if Outlook.BEYOND_END in outlooks:
        return Forecast(Outlook.BEYOND_END)
    open_ones = [each for each in seen.partitions if forecasts[each.tp].outlook is not Outlook.CAUGHT_UP]
    lag = added(each.lag for each in open_ones)
    if lag is None:  # every partition with a known lag has caught up
        return forecast(0 if Outlook.CAUGHT_UP in outlooks else None, UNKNOWN_PACE, keeps_up=None, span=span)
    is_judged = any(forecasts[each.tp].outlook is not Outlook.UNKNOWN for each in open_ones)
    pace = total_pace(own[each.tp] for each in open_ones if each.tp in own)
    return forecast(lag, pace, keeps_up=False if is_judged else None, span=span)


def changes(looks: Iterable[Look]) -> tuple[Change, ...]:
    """Returns all changes over these snapshots, the oldest first."""
    watcher = Watcher()
    return tuple(change for look in looks for change in watcher.see(look))


@dataclass(slots=True)
class Watcher:
    """Detects the changes in each snapshot, compared with what was reported last."""

    _before: Look | None = None
    _groups: dict[str, SeenGroup] = field(default_factory=dict)  # as they were last reported
    _owned: dict[str, Mapping[str, frozenset[TopicPartition]]] = field(default_factory=dict)  # by group, member id
    _refused: dict[str, Refusal] = field(default_factory=dict)

    def see(self, look: Look) -> tuple[Change, ...]:
        """Returns the changes since the previous snapshot; none for the first."""
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
        if not look.refused:  # groups that are no longer listed, if every broker answered
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
    """Returns the assignment of each member id; None while the group does not report it."""
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
    """Returns the group that a refusal is about, or an empty text if it is not about one group."""
    kind, _, name = what.partition(" ")
    return name if kind == "group" else ""
