"""Heartbeat: members learn of a rebalance, and expire without heartbeats."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.effects import EventType
from tests.support.groups.scene import Joined, Scene

SESSION = 10.0  # default session timeout of the scene's members


def beat(scene: Scene, member: Joined) -> ErrorCode:
    return scene.heartbeat(member.member_id, member.generation, instance_id=member.instance_id).error_code


def member_ids(scene: Scene) -> list[str]:
    return [member.member_id for member in scene.describe().members]


# Who is let through.


@pytest.mark.fact("H-001")
def test_a_heartbeat_without_group_id_is_refused(scene: Scene) -> None:
    assert scene.heartbeat("m", 1, group_id="").error_code is ErrorCode.invalid_group_id


@pytest.mark.fact("H-002")
def test_a_heartbeat_to_a_group_that_is_not_there_makes_none(scene: Scene) -> None:
    assert scene.heartbeat("m", 1).error_code is ErrorCode.unknown_member_id
    assert not scene.list_groups().groups


@pytest.mark.fact("H-003", "H-005")
@pytest.mark.parametrize("generation", [1, 0, 2, -1])
def test_a_heartbeat_of_a_stranger_is_refused_whatever_its_generation(scene: Scene, generation: int) -> None:
    scene.stable_group(1)
    assert scene.heartbeat("stranger", generation).error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("H-004")
@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_heartbeat_of_another_generation_is_refused(scene: Scene, generation: int) -> None:
    [member] = scene.stable_group(1)
    assert scene.heartbeat(member.member_id, generation).error_code is ErrorCode.illegal_generation


@pytest.mark.fact("H-006")
def test_an_empty_group_knows_no_member(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.leave(member.member_id)
    assert scene.state() == "Empty"
    for generation in (member.generation, member.generation + 1):
        assert scene.heartbeat(member.member_id, generation).error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("H-010")
def test_a_heartbeat_to_a_dead_group_is_to_look_for_the_coordinator_again(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.kill_group()
    assert beat(scene, member) is ErrorCode.coordinator_not_available
    assert scene.heartbeat("stranger", 7).error_code is ErrorCode.coordinator_not_available


@pytest.mark.fact("H-011", "H-022")
def test_the_old_id_of_a_static_member_that_came_back_is_fenced(scene: Scene) -> None:
    [old] = scene.stable_group(1, static=True)
    scene.join("", "i0")
    assert beat(scene, old) is ErrorCode.fenced_instance_id
    assert scene.heartbeat(old.member_id, old.generation).error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("H-011")
def test_another_member_cannot_use_the_instance_id_of_a_static_member(scene: Scene) -> None:
    _, other = scene.stable_group(2, static=True)
    reply = scene.heartbeat(other.member_id, other.generation, instance_id="i0")
    assert reply.error_code is ErrorCode.fenced_instance_id


@pytest.mark.fact("H-012")
def test_an_instance_id_that_nobody_has_is_unknown_even_with_the_id_of_a_member(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    reply = scene.heartbeat(member.member_id, member.generation, instance_id="nobody's")
    assert reply.error_code is ErrorCode.unknown_member_id


def test_a_heartbeat_to_another_node_is_sent_away() -> None:
    scene = Scene(owns=lambda group_id: False)
    assert scene.heartbeat("m", 1).error_code is ErrorCode.not_coordinator


# What a member learns.


@pytest.mark.fact("H-009")
def test_all_is_well_in_a_stable_group(scene: Scene) -> None:
    members = scene.stable_group(3)
    assert [beat(scene, member) for member in members] == [ErrorCode.none] * 3


def test_all_is_well_while_the_plan_is_waited_for(scene: Scene) -> None:
    members = scene.completing_group(2)
    assert [beat(scene, member) for member in members] == [ErrorCode.none] * 2


@pytest.mark.fact("H-007")
def test_a_rebalance_is_learned_of_and_the_session_goes_on(scene: Scene) -> None:
    member, _ = scene.stable_group(2, rebalance_timeout=60.0)
    scene.join()  # a third
    assert scene.state() == "PreparingRebalance"
    for _ in range(5):
        scene.pass_time(SESSION - 0.1)
        assert beat(scene, member) is ErrorCode.rebalance_in_progress
    assert member.member_id in member_ids(scene)


# Silence.


@pytest.mark.fact("H-016")
def test_each_heartbeat_begins_the_members_own_session_anew(scene: Scene) -> None:
    quick = scene.join(session_timeout=6.0).reply.member_id
    scene.join(session_timeout=20.0)
    generation = scene.join(quick, session_timeout=6.0).reply.generation_id
    slow = next(member_id for member_id in member_ids(scene) if member_id != quick)
    for member_id in (slow, quick):
        scene.sync(member_id, generation)
    assert scene.state() == "Stable"
    for _ in range(10):
        scene.pass_time(5.9)
        assert scene.heartbeat(quick, generation).error_code is ErrorCode.none
        assert scene.heartbeat(slow, generation).error_code is ErrorCode.none
    scene.pass_time(5.9)
    assert set(member_ids(scene)) == {quick, slow}
    scene.pass_time(0.2)
    assert member_ids(scene) == [slow]


@pytest.mark.fact("H-017")
def test_a_member_that_falls_silent_is_removed_and_the_others_rebalance(scene: Scene) -> None:
    silent, other = scene.stable_group(2)
    scene.pass_time(SESSION / 2)
    assert beat(scene, other) is ErrorCode.none
    scene.pass_time(SESSION / 2)
    assert scene.state() == "PreparingRebalance"
    assert member_ids(scene) == [other.member_id]
    assert beat(scene, other) is ErrorCode.rebalance_in_progress
    assert beat(scene, silent) is ErrorCode.unknown_member_id
    assert [event.member_id for event in scene.events if event.what is EventType.EXPIRED] == [silent.member_id]


@pytest.mark.fact("H-017")
def test_a_group_whose_last_member_falls_silent_is_empty(scene: Scene) -> None:
    [silent] = scene.stable_group(1)
    scene.pass_time(SESSION)
    assert scene.state() == "Empty"
    assert beat(scene, silent) is ErrorCode.unknown_member_id


@pytest.mark.fact("H-018", "O-027")
@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance"])
def test_a_commit_is_as_good_as_a_heartbeat(scene: Scene, state: str) -> None:
    busy, idle = scene.stable_group(2)
    if state == "PreparingRebalance":
        scene.join()
    for offset in range(3):
        scene.pass_time(SESSION / 2)
        reply = scene.commit({("t", 0): offset}, member_id=busy.member_id, generation=busy.generation)
        assert reply.topics[0].partitions[0].error_code is ErrorCode.none
    assert busy.member_id in member_ids(scene)
    assert idle.member_id not in member_ids(scene)


def test_a_commit_that_is_refused_is_not_as_good_as_a_heartbeat(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.pass_time(SESSION - 1)
    scene.commit({("t", 0): 1}, member_id=member.member_id, generation=member.generation + 1)
    scene.pass_time(1)
    assert scene.state() == "Empty"


@pytest.mark.fact("H-019")
def test_a_member_that_waits_in_a_join_need_not_send_heartbeats(scene: Scene) -> None:
    waiting, busy = scene.stable_group(2, rebalance_timeout=100.0)
    asking = scene.join(waiting.member_id, rebalance_timeout=100.0)
    for _ in range(10):
        scene.pass_time(SESSION - 0.1)
        assert beat(scene, busy) is ErrorCode.rebalance_in_progress
    assert asking.is_parked
    scene.join(busy.member_id)
    assert asking.reply.error_code is ErrorCode.none
    assert set(member_ids(scene)) == {waiting.member_id, busy.member_id}
