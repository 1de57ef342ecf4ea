"""Foreign groups: consumer (KIP-848), share and streams groups that a log written by Kafka may hold.

They are read-only siblings of classic groups and are not coordinated here. Nothing of them is lost: they are listed,
their offsets can be fetched, and while they have members nobody may join them, commit for them or delete them. Their
members send no heartbeats here, so they count as present until the group is deleted by the coordinator that knows them.
A join to a foreign group without members converts it to a classic group.

Committed offsets live in a `Group` of the same name, as those of every other group do.
"""

from enum import StrEnum

from kcoord.groups.records import ForeignGroupPart, ForeignGroupRecord, ForeignGroupTombstone, GroupKind


class ForeignGroupState(StrEnum):
    """The states of a group that is not classic, as ModernGroup.maybeUpdateGroupState distinguishes them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ForeignGroup:
    """A consumer group (KIP-848), share group or streams group, as the records of Kafka's coordinator in
    `__consumer_offsets` describe it. It is read-only here: it can be listed, and deleted once it has no members."""

    def __init__(self, group_id: str, kind: GroupKind) -> None:
        self.group_id = group_id
        self.kind = kind
        self._keys: dict[bytes, None] = {}
        self._epoch = 0
        self._target_epoch = 0
        self._members: set[str] = set()
        self._member_epochs: dict[str, int | None] = {}  # epoch of each reconciled member, None of others

    @property
    def is_empty(self) -> bool:
        return not self._members

    @property
    def is_gone(self) -> bool:
        """Whether all records of the group were deleted by tombstones, so that it exists no longer."""
        return not self._keys

    @property
    def state(self) -> ForeignGroupState:
        """The group's state, derived from its epochs and members as in Kafka."""
        if self.is_empty:
            return ForeignGroupState.EMPTY
        if self.kind is GroupKind.SHARE:
            return ForeignGroupState.STABLE
        if self._epoch > self._target_epoch:
            return ForeignGroupState.ASSIGNING
        are_reconciled = all(self._member_epochs.get(member_id) == self._target_epoch for member_id in self._members)
        return ForeignGroupState.STABLE if are_reconciled else ForeignGroupState.RECONCILING

    def replay(self, record: ForeignGroupRecord) -> None:
        """Applies a record of the group that was read from `__consumer_offsets`."""
        self._keys[record.key] = None
        match record.part:
            case ForeignGroupPart.GROUP:
                self._epoch = record.epoch
            case ForeignGroupPart.TARGET:
                self._target_epoch = record.epoch
            case ForeignGroupPart.MEMBER:
                self._members.add(record.member_id)
            case ForeignGroupPart.CURRENT:
                self._member_epochs[record.member_id] = record.epoch if record.is_reconciled else None
            case ForeignGroupPart.OTHER:
                pass

    def replay_tombstone(self, record: ForeignGroupTombstone) -> None:
        """Applies a tombstone of one of the group's records."""
        self._keys.pop(record.key, None)
        if record.part is ForeignGroupPart.MEMBER:
            self._members.discard(record.member_id)
        if record.part is ForeignGroupPart.CURRENT:
            self._member_epochs.pop(record.member_id, None)

    def tombstones(self) -> list[ForeignGroupTombstone]:
        """Returns the tombstones that delete the group, the last written record first, as its coordinator would."""
        return [ForeignGroupTombstone(self.group_id, self.kind, key) for key in reversed(self._keys)]
