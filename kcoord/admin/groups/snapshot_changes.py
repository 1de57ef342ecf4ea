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

from kcoord.admin.formatting import format_member, format_partitions
from kcoord.admin.groups.forecast import Forecast, Outlook, ProgressTracker, TimeLag, forecast, max_time_lag
from kcoord.admin.groups.group_snapshot import GroupSnapshot, Snapshot, sum_known
from kcoord.admin.groups.rates import UNKNOWN_RATE, Rate, partition_rates, total_rate
from kcoord.admin.model import Group, GroupType, Member, Refusal, Resource, TopicPartition
from kcoord.errors import ErrorCode

# The states of a classic group in which the coordinator does not report assignments.
_STATES_WITHOUT_ASSIGNMENT: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
_GONE: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.invalid_group_id})


class ChangeKind(StrEnum):
    """The kind of a change of a group between two snapshots: of its state, epoch, members, owned partitions or offsets,
    or of whether it can be read."""

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
    READABLE_AGAIN = "told-again"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A change of a group between two snapshots; `at` is the time of the later one in seconds since 1970, `text`
    describes the change for people."""

    at: float
    group: str  # empty if it concerns more than one
    kind: ChangeKind
    text: str
    member: Member | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def predicate(self) -> str:
        """The change as a predicate of its member, such as "joined". For a change without a member it is the whole
        text."""
        return self.text.removeprefix(format_member(self.member)).strip() if self.member else self.text


@dataclass(frozen=True, kw_only=True)
class GroupStatus:
    """The current state of a group that is watched: its latest snapshot, its rates over the window, and its
    forecast."""

    seen: GroupSnapshot
    rates: Mapping[TopicPartition, Rate]
    forecasts: Mapping[TopicPartition, Forecast]
    forecast: Forecast
    time_lags: Mapping[TopicPartition, TimeLag | None]

    @cached_property
    def rate(self) -> Rate:
        """The total rate over all partitions of the group."""
        return total_rate(self.rates.values())

    @cached_property
    def time_lag(self) -> TimeLag | None:
        """The lag of the group in seconds: the age of the oldest record that is not consumed. It is a lower bound while
        the time of some partition with lag is unknown."""
        known = max_time_lag(self.time_lags.values())
        untold = any((each.lag or 0) > 0 and self.time_lags.get(each.tp) is None for each in self.seen.partitions)
        return known._replace(is_at_least=True) if known is not None and untold else known


class WatchHistory:
    """The state of `kcoord groups watch`: the snapshots within a window of seconds, and the latest changes of
    groups."""

    def __init__(self, *, window: float = 30.0, remembered: int = 200) -> None:
        self.changes: deque[GroupChange] = deque(maxlen=remembered)
        self._snapshots: deque[Snapshot] = deque()
        self._progress = ProgressTracker()
        self._groups: list[GroupStatus] | None = None
        self._window = window
        self._detector = ChangeDetector()
        self.failure: str | None = None
        """Why the latest attempt at a snapshot failed."""

    def add(self, snapshot: Snapshot) -> tuple[GroupChange, ...]:
        """Adds a snapshot and returns the changes since the one before. Rates are taken over the window, or over two
        snapshots if they are further apart."""
        found = self._detector.observe(snapshot)
        if self.failure is not None:
            self.failure = None
            found = (
                GroupChange(at=snapshot.at, group="", kind=ChangeKind.REACHABLE, text="the cluster answers again"),
                *found,
            )
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and self._snapshots[1].at <= snapshot.at - self._window:
            self._snapshots.popleft()
        self._progress.observe(snapshot)
        self._groups = None
        self.changes.extend(found)
        return found

    def add_failure(self, at: float, failure: str) -> tuple[GroupChange, ...]:
        """Records that no snapshot could be read at this time, and why. Returns a change when that begins, and when the
        reason changes."""
        found = GroupChange(at=at, group="", kind=ChangeKind.UNREACHABLE, text=failure)
        is_new = failure != self.failure
        self.failure = failure
        self.changes.extend([found] * is_new)
        return (found,) * is_new

    @property
    def latest(self) -> Snapshot | None:
        """The latest snapshot, if there is one."""
        return self._snapshots[-1] if self._snapshots else None

    def groups(self) -> list[GroupStatus]:
        """Returns the current status of each group in the latest snapshot."""
        if self._groups is None:
            seen = self.latest.groups.values() if self.latest else ()
            self._groups = [self._group_status(each) for each in seen]
        return self._groups

    def _group_status(self, seen: GroupSnapshot) -> GroupStatus:
        name, last, span = seen.group.name, self._snapshots[-1], self._snapshots[-1].at - self._snapshots[0].at
        rates = partition_rates(self._snapshots, name)
        judged = {each.tp: self._progress.keeps_up(name, each.tp) for each in seen.partitions}
        forecasts = {
            each.tp: forecast(each.lag, rates.get(each.tp, UNKNOWN_RATE), keeps_up=judged[each.tp], span=span)
            for each in seen.partitions
        }
        return GroupStatus(
            seen=seen,
            rates=rates,
            forecasts=forecasts,
            forecast=_group_forecast(seen, rates, forecasts, span=span),
            time_lags={each.tp: self._progress.time_lag(each, last.at) for each in seen.partitions},
        )


def _group_forecast(
    seen: GroupSnapshot,
    rates: Mapping[TopicPartition, Rate],
    forecasts: Mapping[TopicPartition, Forecast],
    *,
    span: float,
) -> Forecast:
    """Forecasts for all partitions that have not caught up together: a consumer may work off one after the other."""
    outlooks = {each.outlook for each in forecasts.values()}
    if Outlook.BEYOND_END in outlooks:
        return Forecast(Outlook.BEYOND_END)
    open_ones = [each for each in seen.partitions if forecasts[each.tp].outlook is not Outlook.CAUGHT_UP]
    lag = sum_known(each.lag for each in open_ones)
    if lag is None:  # every partition with a known lag has caught up
        return forecast(0 if Outlook.CAUGHT_UP in outlooks else None, UNKNOWN_RATE, keeps_up=None, span=span)
    is_judged = any(forecasts[each.tp].outlook is not Outlook.UNKNOWN for each in open_ones)
    rate = total_rate(rates[each.tp] for each in open_ones if each.tp in rates)
    return forecast(lag, rate, keeps_up=False if is_judged else None, span=span)


def changes(snapshots: Iterable[Snapshot]) -> tuple[GroupChange, ...]:
    """Returns all changes of groups over these snapshots, the oldest first."""
    detector = ChangeDetector()
    return tuple(change for snapshot in snapshots for change in detector.observe(snapshot))


_RefusedResource = tuple[Resource, str | TopicPartition]
"""What was refused: its kind and its name."""


@dataclass(slots=True)
class ChangeDetector:
    """Detects the changes of groups in each snapshot, compared with the snapshots before."""

    _before: Snapshot | None = None
    _groups: dict[str, GroupSnapshot] = field(default_factory=dict)  # as they were last reported
    _owned: dict[str, Mapping[str, frozenset[TopicPartition]]] = field(default_factory=dict)  # by group, member id
    _refused: dict[_RefusedResource, Refusal] = field(default_factory=dict)

    def observe(self, snapshot: Snapshot) -> tuple[GroupChange, ...]:
        """Returns the changes of groups since the previous snapshot; none for the first."""
        found = [] if self._before is None else [*self._refusal_changes(snapshot), *self._differences(snapshot)]
        self._before = snapshot
        self._refused = _by_resource(snapshot.refused)
        for name, seen in snapshot.groups.items():
            self._groups[name] = seen
            if (owned := _owned(seen.group)) is not None:
                self._owned[name] = owned
        return tuple(found)

    def _refusal_changes(self, snapshot: Snapshot) -> Iterable[GroupChange]:
        now = _by_resource(snapshot.refused)
        for name, refusal in now.items():
            if name not in self._refused and refusal.error not in _GONE:
                text = f"not told: {refusal}"
                yield GroupChange(at=snapshot.at, group=refusal.group_name, kind=ChangeKind.REFUSED, text=text)
        for name, refusal in self._refused.items():
            if name not in now and refusal.error not in _GONE:
                text = f"{refusal.what} is told again"
                yield GroupChange(at=snapshot.at, group=refusal.group_name, kind=ChangeKind.READABLE_AGAIN, text=text)

    def _differences(self, snapshot: Snapshot) -> Iterable[GroupChange]:
        gone = {refusal.group_name for refusal in snapshot.refused if refusal.error in _GONE}
        if not snapshot.refused:  # groups that are no longer listed, if every broker answered
            gone |= self._groups.keys() - snapshot.groups.keys()
        for name in sorted(gone & self._groups.keys()):
            del self._groups[name]
            self._owned.pop(name, None)
            yield GroupChange(at=snapshot.at, group=name, kind=ChangeKind.GROUP_GONE, text="the group is gone")
        for name, seen in snapshot.groups.items():
            if before := self._groups.get(name):
                yield from self._group_changes(snapshot.at, before, seen)
            else:
                text = f"the group is there: {seen.group.state}"
                yield GroupChange(at=snapshot.at, group=name, kind=ChangeKind.GROUP_APPEARED, text=text)

    def _group_changes(self, at: float, before: GroupSnapshot, seen: GroupSnapshot) -> Iterable[GroupChange]:
        old, new = before.group, seen.group
        change = GroupChange(at=at, group=new.name, kind=ChangeKind.STATE, text=f"{old.state} → {new.state}")
        if old.state != new.state:
            yield change
        if None not in (old.epoch, new.epoch) and old.epoch != new.epoch:
            yield replace(change, kind=ChangeKind.EPOCH, text=f"epoch {old.epoch} → {new.epoch}")
        were, are = _by_id(old), _by_id(new)
        for member in (were[each] for each in were if each not in are):
            yield replace(change, kind=ChangeKind.MEMBER_LEFT, text=f"{format_member(member)} left", member=member)
        for member in (are[each] for each in are if each not in were):
            yield replace(change, kind=ChangeKind.MEMBER_JOINED, text=f"{format_member(member)} joined", member=member)
        yield from self._ownership_changes(change, were, are, _owned(new))
        yield from _moved_back(change, before, seen)

    def _ownership_changes(
        self,
        change: GroupChange,
        were: Mapping[str, Member],
        are: Mapping[str, Member],
        owned: Mapping[str, frozenset[TopicPartition]] | None,
    ) -> Iterable[GroupChange]:
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
                    text = f"{format_member(member)} {word} {format_partitions(different)}"
                    yield replace(change, kind=kind, text=text, member=member, partitions=different)


def _owned(group: Group) -> Mapping[str, frozenset[TopicPartition]] | None:
    """Returns the assignment of each member id; None while the group does not report it."""
    if group.type is not GroupType.CONSUMER and group.state in _STATES_WITHOUT_ASSIGNMENT:
        return None
    return {member.member_id: frozenset(member.assignment or ()) for member in group.members}


def _moved_back(change: GroupChange, before: GroupSnapshot, seen: GroupSnapshot) -> Iterable[GroupChange]:
    committed = {each.tp: each.committed.offset for each in before.partitions if each.committed}
    back = {
        each.tp: committed[each.tp] - each.committed.offset
        for each in seen.partitions
        if each.committed and each.committed.offset < committed.get(each.tp, -1)
    }
    if back:
        text = f"committed offsets moved back by {sum(back.values()):,} records: {format_partitions(back)}"
        yield replace(change, kind=ChangeKind.MOVED_BACK, text=text, partitions=tuple(sorted(back)))


def _by_id(group: Group) -> dict[str, Member]:
    return {member.member_id: member for member in group.members}


def _by_resource(refusals: Iterable[Refusal]) -> dict[_RefusedResource, Refusal]:
    return {(refusal.kind, refusal.name): refusal for refusal in refusals}
