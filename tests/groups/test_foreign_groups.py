"""Foreign groups: they are listed and protected, and can be deleted once they have no members."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.foreign_groups import ForeignGroup, ForeignGroupState
from kcoord.groups.records import (
    ForeignGroupPart,
    ForeignGroupRecord,
    ForeignGroupTombstone,
    GroupDeleted,
    GroupKind,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    Record,
)
from tests.support.groups.scene import WALL_START_MS, Scene

OFFSETS = OffsetsStored("g", "t", (0, 1), (7, 8), (-1, -1), ("", ""), WALL_START_MS)
CLASSIC = GroupStored(
    group_id="g", generation=3, protocol_type="consumer", protocol="range", leader_id=None, since_ms=0
)


def stored(
    part: ForeignGroupPart, member_id: str = "", epoch: int = 0, *, kind: GroupKind = GroupKind.CONSUMER
) -> ForeignGroupRecord:
    return ForeignGroupRecord("g", kind, _key(part, member_id), part, member_id, epoch)


def deleted(
    part: ForeignGroupPart, member_id: str = "", *, kind: GroupKind = GroupKind.CONSUMER
) -> ForeignGroupTombstone:
    return ForeignGroupTombstone("g", kind, _key(part, member_id), part, member_id)


def _key(part: ForeignGroupPart, member_id: str) -> bytes:
    return f"{part} {member_id}".encode()


def with_member(epoch: int = 2, *, kind: GroupKind = GroupKind.CONSUMER) -> list[Record]:
    """Returns the records of a group whose first member is reconciled."""
    return [
        stored(ForeignGroupPart.MEMBER, "m", kind=kind),
        stored(ForeignGroupPart.GROUP, epoch=epoch, kind=kind),
        stored(ForeignGroupPart.OTHER, "m", kind=kind),
        stored(ForeignGroupPart.TARGET, epoch=epoch, kind=kind),
        stored(ForeignGroupPart.CURRENT, "m", epoch, kind=kind),
    ]


def without_member(*, kind: GroupKind = GroupKind.CONSUMER) -> list[Record]:
    """Returns the records of a group whose only member has left."""
    went = [
        deleted(part, "m", kind=kind)
        for part in (ForeignGroupPart.CURRENT, ForeignGroupPart.OTHER, ForeignGroupPart.MEMBER)
    ]
    return [*with_member(kind=kind), *went, stored(ForeignGroupPart.GROUP, epoch=3, kind=kind)]


def recovered(*records: Record) -> Scene:
    scene = Scene()
    scene.records = list(records)
    scene.restart()
    return scene


# Shown.


@pytest.mark.parametrize("kind", GroupKind)
def test_they_are_listed_with_their_kind_and_their_state(kind: GroupKind) -> None:
    (line,) = recovered(*with_member(kind=kind)).list_groups().groups
    assert (line.group_id, line.protocol_type, line.group_type, line.group_state) == ("g", kind, kind, "Stable")
    (line,) = recovered(*without_member(kind=kind)).list_groups().groups
    assert line.group_state == "Empty"


def test_they_are_found_by_kind_and_by_state() -> None:
    scene = recovered(*with_member(), OFFSETS)
    assert scene.list_groups(types=("classic",)).groups == ()
    assert len(scene.list_groups(types=("Consumer",)).groups) == 1
    assert len(scene.list_groups(states=("stable",)).groups) == 1
    assert scene.list_groups(states=("empty",)).groups == ()


def test_what_is_asked_of_classic_groups_says_that_it_is_none() -> None:
    described = recovered(*with_member()).describe()
    assert (described.error_code, described.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert described.error_message == "Group g is not a classic group."


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (stored(ForeignGroupPart.GROUP, epoch=3), ForeignGroupState.ASSIGNING),
        (stored(ForeignGroupPart.TARGET, epoch=3), ForeignGroupState.RECONCILING),
        (stored(ForeignGroupPart.MEMBER, "newcomer"), ForeignGroupState.RECONCILING),
        (stored(ForeignGroupPart.CURRENT, "m", 2)._replace(is_reconciled=False), ForeignGroupState.RECONCILING),
        (stored(ForeignGroupPart.OTHER, epoch=9), ForeignGroupState.STABLE),
    ],
)
def test_its_state_is_told_from_the_epochs_of_group_target_and_members(
    record: ForeignGroupRecord, state: ForeignGroupState
) -> None:
    (line,) = recovered(*with_member(), record).list_groups().groups
    assert line.group_state == state


def test_a_share_group_with_members_is_stable_whatever_its_epochs_are() -> None:
    later = stored(ForeignGroupPart.GROUP, epoch=9, kind=GroupKind.SHARE)
    (line,) = recovered(*with_member(kind=GroupKind.SHARE), later).list_groups().groups
    assert line.group_state == "Stable"


def test_its_offsets_can_be_read() -> None:
    scene = recovered(*with_member(), OFFSETS)
    assert scene.offset(partition=1).committed_offset == 8


# Protection.


@pytest.mark.parametrize("kind", GroupKind)
def test_while_it_has_members_nobody_joins_commits_or_deletes(kind: GroupKind) -> None:
    scene = recovered(*with_member(kind=kind), OFFSETS)
    before = list(scene.records)
    assert scene.join().reply.error_code is ErrorCode.inconsistent_group_protocol
    assert scene.heartbeat("m", 2).error_code is ErrorCode.unknown_member_id
    assert scene.sync("m", 2).reply.error_code is ErrorCode.unknown_member_id
    committed = scene.commit({("t", 0): 9})
    assert committed.topics[0].partitions[0].error_code is ErrorCode.unknown_member_id
    assert scene.delete_offsets({"t": [0]}).error_code is not ErrorCode.none
    assert scene.delete_groups("g").results[0].error_code is ErrorCode.non_empty_group
    assert scene.offset().committed_offset == 7
    assert scene.records == before


def test_while_it_has_members_its_offsets_do_not_expire() -> None:
    week = 7 * 24 * 3600
    for records, is_retained in ((with_member(), True), (without_member(), False)):
        scene = recovered(*records, OFFSETS)
        scene.pass_time(week + 1)
        scene.take(scene.coordinator.expire_offsets(scene.at()))
        assert (scene.offset().committed_offset == 7) is is_retained
        assert bool(scene.list_groups().groups) is is_retained


# Deleted.


@pytest.mark.parametrize("kind", GroupKind)
def test_once_it_is_empty_it_can_be_deleted_and_every_key_of_it_is(kind: GroupKind) -> None:
    scene = recovered(*without_member(kind=kind), OFFSETS)
    written = len(scene.records)
    assert scene.delete_groups("g").results[0].error_code is ErrorCode.none
    assert scene.list_groups().groups == ()
    tombstones = scene.records[written:]
    keys = {record.key for record in tombstones if isinstance(record, ForeignGroupTombstone)}
    assert keys == {_key(ForeignGroupPart.GROUP, ""), _key(ForeignGroupPart.TARGET, "")}, (
        "those of the member are deleted already"
    )
    offsets = {(record.topic, record.partition) for record in tombstones if isinstance(record, OffsetDeleted)}
    assert offsets == {("t", 0), ("t", 1)}
    scene.restart()
    assert scene.list_groups().groups == ()
    assert scene.offset().committed_offset == -1
    assert scene.join().reply.generation_id == 1


def test_its_records_are_deleted_in_the_reverse_of_the_order_in_which_they_came() -> None:
    """The record of the group itself comes last, as from its coordinator."""
    other = ForeignGroup("g", GroupKind.CONSUMER)
    records = [stored(ForeignGroupPart.GROUP, epoch=1), stored(ForeignGroupPart.TARGET, epoch=1)]
    for record in records:
        other.replay(record)
    assert [record.key for record in other.tombstones()] == [record.key for record in reversed(records)]


# From one kind to another.


@pytest.mark.fact("P-024")
def test_offsets_that_were_there_before_the_group_are_the_groups() -> None:
    scene = recovered(OFFSETS, *with_member())
    (line,) = scene.list_groups().groups
    assert line.group_type == "consumer"
    assert scene.offset().committed_offset == 7


def test_a_classic_group_that_was_converted_keeps_its_offsets() -> None:
    scene = recovered(CLASSIC, OFFSETS, GroupDeleted(group_id="g"), *with_member())
    (line,) = scene.list_groups().groups
    assert (line.group_type, line.group_state) == ("consumer", "Stable")
    assert scene.offset().committed_offset == 7


def test_a_group_that_was_converted_back_is_classic_again() -> None:
    gone = [deleted(part) for part in (ForeignGroupPart.TARGET, ForeignGroupPart.GROUP)]
    scene = recovered(*without_member(), OFFSETS, *gone, CLASSIC)
    (line,) = scene.list_groups().groups
    assert (line.group_type, line.group_state) == ("classic", "Empty")
    assert scene.offset().committed_offset == 7
    assert scene.join().reply.generation_id == 4


def test_letting_go_of_groups_lets_go_of_these_too() -> None:
    scene = recovered(*with_member())
    scene.take(scene.coordinator.unload(scene.at(), lambda group_id: group_id == "another"))
    assert len(scene.list_groups().groups) == 1
    scene.take(scene.coordinator.unload(scene.at()))
    assert scene.list_groups().groups == ()


def test_whoever_joins_it_when_nobody_is_left_makes_it_a_classic_group_that_has_its_offsets() -> None:
    scene = recovered(*without_member(), OFFSETS)
    before = len(scene.records)
    assert scene.join().reply.error_code is ErrorCode.none
    deleted_keys = {record.key for record in scene.records[before:] if isinstance(record, ForeignGroupTombstone)}
    assert deleted_keys == {_key(ForeignGroupPart.GROUP, ""), _key(ForeignGroupPart.TARGET, "")}
    assert [group.group_type for group in scene.list_groups().groups] == ["classic"]
    assert scene.offset("t", 1).committed_offset == 8
    scene.restart()
    assert [group.group_type for group in scene.list_groups().groups] == ["classic"]
