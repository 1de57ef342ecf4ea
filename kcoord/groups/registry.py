"""The groups that a coordinator knows. They are created and removed here only, by replaying records.

A request's decision is expressed as records, and these are replayed here, both when they are decided and when they are
read from the log: there is no second path that creates or removes a group.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from kcoord.errors import ErrorCode
from kcoord.groups.classic import rebalancing
from kcoord.groups.classic.group import Group, group_from_record
from kcoord.groups.classic.member import Holder
from kcoord.groups.deadlines import Deadlines
from kcoord.groups.effects import Effects, Event, EventType, emit, merge
from kcoord.groups.foreign_groups import ForeignGroup
from kcoord.groups.instant import Instant
from kcoord.groups.offsets import fetching
from kcoord.groups.records import (
    ForeignGroupRecord,
    ForeignGroupTombstone,
    GroupDeleted,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    Record,
    RepeatedCommit,
)
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.groups.usage import NOBODY, Usage


class Registry:
    """The groups of one coordinator, which are created, changed and removed by replaying records: the same code serves
    live requests and recovery. The Coordinator derives from it."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.foreign_groups: dict[str, ForeignGroup] = {}  # by group id; read-only
        self._deadlines = Deadlines()
        self._usage = Usage()

    @property
    def held_bytes(self) -> int:
        """The bytes that all groups and members hold, which `kcoord.groups.max.bytes` limits."""
        return self._usage.bytes.total

    def replay(self, record: Record) -> None:
        """Applies a record to the groups in memory, when it has just been decided or when it is read from the log."""
        match record:
            case GroupStored():
                known = self.groups.get(record.group_id)
                self._release_usage(known)
                self.groups[record.group_id] = group = group_from_record(record, self._deadlines, self._usage)
                group.owner = _owner_of(group, known)
                if known:
                    group.committed_offsets = known.committed_offsets
                group.update_usage()
            case GroupDeleted():
                known = self.groups.pop(record.group_id, None)
                self._release_usage(known)
                if known and known.offsets:  # the group continues as one of another kind
                    group = self.get_or_create(record.group_id, owner=known.owner)
                    group.committed_offsets = known.committed_offsets
                    group.update_usage()
            case OffsetsStored():
                group = self.get_or_create(record.group_id)
                group.committed_offsets.apply(record)
                group.update_usage()
            case RepeatedCommit():
                self.get_or_create(record.group_id).committed_offsets.apply_repeated(record)
            case OffsetDeleted():
                known = self.groups.get(record.group_id)
                if known:
                    known.committed_offsets.forget(record)
                    known.update_usage()
            case ForeignGroupRecord():
                other = self.foreign_groups.setdefault(record.group_id, ForeignGroup(record.group_id, record.kind))
                other.replay(record)
            case ForeignGroupTombstone():
                self._replay_foreign_tombstone(record)
            case _:
                assert_never(record)

    def replay_all(self, records: Iterable[Record]) -> None:
        """Applies records to the groups in memory, in order."""
        for record in records:
            self.replay(record)

    def unload(self, at: Instant, is_lost: Callable[[str], bool] = lambda group_id: True) -> Effects:
        """Drops the groups that `is_lost` accepts from memory, for example when their partition moves to another
        broker; their parked requests are answered with NOT_COORDINATOR by the effects."""
        lost = [group for group_id, group in self.groups.items() if is_lost(group_id)]
        effects = merge(_unload_group(group, at) for group in lost)
        for group in lost:
            del self.groups[group.group_id]
            self._release_usage(group)
        self.foreign_groups = {
            group_id: other for group_id, other in self.foreign_groups.items() if not is_lost(group_id)
        }
        return effects

    def get_or_create(self, group_id: str, since_ms: int | None = None, *, owner: Holder = NOBODY) -> Group:
        """Returns the group, or creates it without members, as for a simple consumer. `since_ms` is its creation time;
        `owner` is the client that it is counted for."""
        group = self.groups.get(group_id)
        if group is None:
            group = Group(group_id, self._deadlines, self._usage, since_ms=since_ms, owner=owner)
            self.groups[group_id] = group
            group.update_usage()
        return group

    def create_group(self, group_id: str, owner: Holder, at: Instant) -> tuple[Group, Effects]:
        """Returns the group, created without members unless it exists, and the effects of its creation: its record and
        an event."""
        group = self.get_or_create(group_id, at.wall_ms, owner=owner)
        made = Event(what=EventType.MADE, group_id=group_id, generation=0)
        return group, Effects((), (group.to_record(),), (made,))

    def has_foreign_members(self, group_id: str) -> bool:
        """Returns whether there is a consumer (KIP-848), share or streams group of this id that has members."""
        other = self.foreign_groups.get(group_id)
        return other is not None and not other.is_empty

    def convert_to_classic(self, other: ForeignGroup) -> Effects:
        """Deletes a group of another kind that has no members, so that a classic group can replace it, and returns the
        tombstones as effects; the committed offsets stay."""
        records = other.tombstones()
        self.replay_all(records)
        return Effects((), tuple(records))

    def delete(self, group_id: str) -> Effects:
        """Deletes a group of any kind with its offsets, and returns the tombstones as effects."""
        group, other = self.groups.get(group_id), self.foreign_groups.get(group_id)
        records: list[Record] = []
        if group is not None:
            records += [*fetching.tombstones_of(group), GroupDeleted(group_id=group_id)]
            for member_id in list(group.pending):
                group.forget_pending(member_id)
        if other is not None:
            records += other.tombstones()
        self.replay_all(records)
        deleted = Event(what=EventType.DELETED, group_id=group_id, generation=group.generation if group else 0)
        return Effects((), tuple(records)) + emit(deleted)

    def _release_usage(self, group: Group | None) -> None:
        """Releases what a removed or replaced group held."""
        if group is not None:
            group.release_usage()

    def _replay_foreign_tombstone(self, record: ForeignGroupTombstone) -> None:
        other = self.foreign_groups.get(record.group_id)
        if other is not None:
            other.replay_tombstone(record)
            if other.is_gone:
                del self.foreign_groups[record.group_id]


def _owner_of(group: Group, known: Group | None) -> Holder:
    """Returns the owner of the group that is replaced, or else a member's holder, for a group from the log."""
    if known is not None and known.owner != NOBODY:
        return known.owner
    return next((member.holder for member in group.members.values()), NOBODY)


def _unload_group(group: Group, at: Instant) -> Effects:
    error = ErrorCode.not_coordinator
    effects = [
        rebalancing.answer_parked_join(group, member, JoinReply(member_id=member.member_id, error_code=error))
        + rebalancing.answer_parked_sync(member, SyncReply(error_code=error))
        for member in group.members.values()
    ]
    group.mark_dead(at)
    return merge(effects)
