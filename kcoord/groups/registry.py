"""The groups that a coordinator knows. They are created and removed here only, by replaying records.

A request's decision is expressed as records, and these are replayed here, both when they are decided and when they are
read from the log: there is no second path that creates or removes a group.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from kcoord.errors import ErrorCode
from kcoord.groups.classic import rebalancing
from kcoord.groups.classic.group import Group, replayed
from kcoord.groups.classic.member import Holder
from kcoord.groups.deadlines import Deadlines
from kcoord.groups.effects import Effects, Event, Happening, gathered, told
from kcoord.groups.foreign_groups import OtherGroup
from kcoord.groups.instant import Instant
from kcoord.groups.offsets import fetching
from kcoord.groups.records import (
    GroupDeleted,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    OtherDeleted,
    OtherStored,
    Record,
    StoredAgain,
)
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.groups.usage import NOBODY, Census


class Registry:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.others: dict[str, OtherGroup] = {}  # by group id; read-only
        self._deadlines = Deadlines()
        self._census = Census()

    @property
    def held_bytes(self) -> int:
        """The bytes that all groups and members hold, which `kcoord.groups.max.bytes` limits."""
        return self._census.bytes.total

    def replay(self, record: Record) -> None:
        """Applies a record."""
        match record:
            case GroupStored():
                known = self.groups.get(record.group_id)
                self._count_no_longer(known)
                self.groups[record.group_id] = group = replayed(record, self._deadlines, self._census)
                group.owner = _owner_of(group, known)
                if known:
                    group.kept = known.kept
                group.count()
            case GroupDeleted():
                known = self.groups.pop(record.group_id, None)
                self._count_no_longer(known)
                if known and known.offsets:  # the group continues as one of another kind
                    group = self.known_or_simple(record.group_id, owner=known.owner)
                    group.kept = known.kept
                    group.count()
            case OffsetsStored():
                group = self.known_or_simple(record.group_id)
                group.kept.keep(record)
                group.count()
            case StoredAgain():
                self.known_or_simple(record.group_id).kept.keep_again(record)
            case OffsetDeleted():
                known = self.groups.get(record.group_id)
                if known:
                    known.kept.forget(record)
                    known.count()
            case OtherStored():
                other = self.others.setdefault(record.group_id, OtherGroup(record.group_id, record.kind))
                other.keep(record)
            case OtherDeleted():
                self._forget_other(record)
            case _:
                assert_never(record)

    def replay_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.replay(record)

    def unload(self, at: Instant, is_lost: Callable[[str], bool] = lambda group_id: True) -> Effects:
        """Drops the groups that `is_lost` accepts; their parked requests are answered with NOT_COORDINATOR."""
        lost = [group for group_id, group in self.groups.items() if is_lost(group_id)]
        effects = gathered(_let_go(group, at) for group in lost)
        for group in lost:
            del self.groups[group.group_id]
            self._count_no_longer(group)
        self.others = {group_id: other for group_id, other in self.others.items() if not is_lost(group_id)}
        return effects

    def known_or_simple(self, group_id: str, since_ms: int | None = None, *, owner: Holder = NOBODY) -> Group:
        """Returns the group, or creates it without members, as for a simple consumer."""
        group = self.groups.get(group_id)
        if group is None:
            group = Group(group_id, self._deadlines, self._census, since_ms=since_ms, owner=owner)
            self.groups[group_id] = group
            group.count()
        return group

    def make(self, group_id: str, owner: Holder, at: Instant) -> tuple[Group, Effects]:
        group = self.known_or_simple(group_id, at.wall_ms, owner=owner)
        made = Event(what=Happening.MADE, group_id=group_id, generation=0)
        return group, Effects((), (group.stored(),), (made,))

    def is_in_use_elsewhere(self, group_id: str) -> bool:
        """Whether a foreign group of this id has members."""
        other = self.others.get(group_id)
        return other is not None and not other.is_empty

    def make_classic(self, other: OtherGroup) -> Effects:
        """Deletes a foreign group without members, so that a classic group can replace it; the offsets stay."""
        records = other.deleted()
        self.replay_all(records)
        return Effects((), tuple(records))

    def delete(self, group_id: str) -> Effects:
        group, other = self.groups.get(group_id), self.others.get(group_id)
        records: list[Record] = []
        if group is not None:
            records += [*fetching.all_of(group), GroupDeleted(group_id=group_id)]
            for member_id in list(group.pending):
                group.forget_pending(member_id)
        if other is not None:
            records += other.deleted()
        self.replay_all(records)
        deleted = Event(what=Happening.DELETED, group_id=group_id, generation=group.generation if group else 0)
        return Effects((), tuple(records)) + told(deleted)

    def _count_no_longer(self, group: Group | None) -> None:
        """Releases what a removed or replaced group held."""
        if group is not None:
            group.count_no_longer()

    def _forget_other(self, record: OtherDeleted) -> None:
        other = self.others.get(record.group_id)
        if other is not None:
            other.forget(record)
            if other.is_gone:
                del self.others[record.group_id]


def _owner_of(group: Group, known: Group | None) -> Holder:
    """Returns the owner of the group that is replaced, or else a member's holder, for a group from the log."""
    if known is not None and known.owner != NOBODY:
        return known.owner
    return next((member.holder for member in group.members.values()), NOBODY)


def _let_go(group: Group, at: Instant) -> Effects:
    error = ErrorCode.not_coordinator
    effects = [
        rebalancing.take_join_ticket(group, member, JoinReply(member_id=member.member_id, error_code=error))
        + rebalancing.take_sync_ticket(member, SyncReply(error_code=error))
        for member in group.members.values()
    ]
    group.die(at)
    return gathered(effects)
