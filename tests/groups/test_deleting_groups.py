"""DeleteGroups: a group without members is deleted with all its offsets."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.records import GroupDeleted, OffsetDeleted
from kcoord.groups.replies import DeletedGroup
from tests.support.groups.scene import Scene


def deleted(group_id: str, error: ErrorCode = ErrorCode.none) -> DeletedGroup:
    return DeletedGroup(group_id=group_id, error_code=error)


@pytest.mark.fact("A-201")
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_a_group_with_members_is_not_deleted(scene: Scene, state: str, protocol_type: str) -> None:
    scene.commit({("t", 0): 1})
    if state == "CompletingRebalance":
        scene.join(protocol_type=protocol_type)
    else:
        scene.stable_group(1, protocol_type=protocol_type)
    if state == "PreparingRebalance":
        scene.join(protocol_type=protocol_type)
    assert scene.delete_groups("g").results == (deleted("g", ErrorCode.non_empty_group),)
    assert scene.state() == state
    assert scene.offset().committed_offset == 1


@pytest.mark.fact("A-202")
def test_an_empty_group_is_deleted_with_all_its_offsets(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.commit({("t", 0): 1, ("u", 1): 2}, member_id=member.member_id, generation=member.generation)
    scene.leave(member.member_id)
    records = len(scene.records)
    assert scene.delete_groups("g").results == (deleted("g"),)
    assert scene.records[records:] == [
        OffsetDeleted(group_id="g", topic="t", partition=0),
        OffsetDeleted(group_id="g", topic="u", partition=1),
        GroupDeleted(group_id="g"),
    ]
    assert not scene.list_groups().groups


@pytest.mark.fact("A-202")
def test_a_group_that_only_kept_offsets_is_deleted_with_them(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    scene.delete_groups("g")
    scene.restart()
    assert not scene.list_groups().groups
    assert scene.offset().committed_offset == -1


@pytest.mark.fact("A-203")
@pytest.mark.parametrize("group_id", ["nope", ""])
def test_a_group_that_is_not_there_is_not_found(scene: Scene, group_id: str) -> None:
    assert scene.delete_groups(group_id).results == (deleted(group_id, ErrorCode.group_id_not_found),)


@pytest.mark.fact("A-205", "A-109")
def test_a_group_that_is_named_twice_is_answered_once(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    reply = scene.delete_groups("g", "nope", "g", "nope")
    assert reply.results == (deleted("g"), deleted("nope", ErrorCode.group_id_not_found))


@pytest.mark.fact("A-207")
def test_of_a_deleted_group_nothing_is_left(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    scene.delete_groups("g")
    group = scene.describe()
    assert (group.group_state, group.error_code) == ("Dead", ErrorCode.group_id_not_found)
    assert scene.offset().committed_offset == -1
    assert scene.fetch(None).groups[0].topics == ()
    assert scene.delete_groups("g").results == (deleted("g", ErrorCode.group_id_not_found),)


@pytest.mark.fact("A-209")
def test_each_of_many_groups_has_a_result_of_its_own() -> None:
    scene = Scene(owns=lambda group_id: group_id != "elsewhere")
    scene.commit({("t", 0): 1}, group_id="good")
    scene.stable_group(1, group_id="busy")
    assert set(scene.delete_groups("busy", "good", "nope", "elsewhere").results) == {
        deleted("busy", ErrorCode.non_empty_group),
        deleted("good"),
        deleted("nope", ErrorCode.group_id_not_found),
        deleted("elsewhere", ErrorCode.not_coordinator),
    }
    assert [group.group_id for group in scene.list_groups().groups] == ["busy"]


@pytest.mark.fact("A-210")
def test_a_group_that_is_made_anew_counts_from_one(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.leave(member.member_id)
    assert scene.join().reply.generation_id == 3
    scene.pass_time(10)
    scene.delete_groups("g")
    assert scene.join().reply.generation_id == 1


def test_an_id_that_was_given_out_does_not_keep_a_group_and_is_forgotten_with_it(scene: Scene) -> None:
    given = scene.join(needs_known_id=True).reply.member_id
    deadline = scene.coordinator.groups["g"].pending[given]
    assert scene.delete_groups("g").results == (deleted("g"),)
    assert deadline.at is None
    assert not scene.list_groups().groups
    assert scene.join(given).reply.error_code is ErrorCode.unknown_member_id
    scene.stable_group(1)
    assert scene.join(given).reply.error_code is ErrorCode.unknown_member_id
    scene.pass_time(9)
    assert scene.state() == "Stable"
