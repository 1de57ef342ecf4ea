"""Deadlines of a group: sessions expire, and members that do not sync are dropped."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.effects import EventType
from kcoord.groups.replies import JoinReply
from tests.support.groups.scene import Joined, Scene


def keep_alive(scene: Scene, seconds: float, *members: Joined) -> None:
    """Advances the clock, with a heartbeat of these members every five seconds."""
    for _ in range(round(seconds / 5)):
        scene.pass_time(5)
        for member in members:
            scene.heartbeat(member.member_id, member.generation, instance_id=member.instance_id)


def member_ids(scene: Scene) -> set[str]:
    return {member.member_id for member in scene.describe().members}


# Sessions.


@pytest.mark.fact("T-001", "T-002")
@pytest.mark.parametrize("static", [False, True])
def test_a_group_whose_only_member_falls_silent_is_empty(scene: Scene, static: bool) -> None:
    scene.stable_group(1, static=static, session_timeout=10)
    scene.pass_time(9.999)
    assert scene.state() == "Stable"
    scene.pass_time(0.001)
    assert scene.state() == "Empty"
    assert scene.coordinator.groups["g"].generation == 2


@pytest.mark.fact("T-002", "T-007")
@pytest.mark.parametrize("static", [False, True])
def test_a_member_of_a_stable_group_that_falls_silent_begins_a_rebalance(scene: Scene, static: bool) -> None:
    leader, silent = scene.stable_group(2, static=static)
    keep_alive(scene, 10, leader)
    assert scene.state() == "PreparingRebalance"
    assert member_ids(scene) == {leader.member_id}
    error = scene.heartbeat(silent.member_id, 2, instance_id=silent.instance_id).error_code
    assert error is ErrorCode.unknown_member_id
    expired = [event.member_id for event in scene.events if event.what is EventType.EXPIRED]
    assert expired == [silent.member_id]


@pytest.mark.fact("T-007")
def test_a_member_that_expires_before_the_plan_is_there_begins_a_rebalance(scene: Scene) -> None:
    leader, waiting, _ = scene.completing_group(3)
    asking = scene.sync(waiting.member_id, 2)
    keep_alive(scene, 10, leader)
    assert scene.state() == "PreparingRebalance"
    assert member_ids(scene) == {leader.member_id, waiting.member_id}
    assert asking.reply.error_code is ErrorCode.rebalance_in_progress


@pytest.mark.fact("T-007")
def test_a_member_that_expires_while_others_join_is_only_removed(scene: Scene) -> None:
    leader, late, _ = scene.stable_group(3)
    asking = scene.join(leader.member_id)
    keep_alive(scene, 10, late)
    assert member_ids(scene) == {leader.member_id, late.member_id}
    assert asking.is_parked
    rebalances = [event for event in scene.events if event.what is EventType.REBALANCING]
    assert rebalances[-1].why == f"{leader.member_id} is the leader and joined again"
    assert scene.coordinator.groups["g"].generation == 2


@pytest.mark.fact("T-006")
def test_a_join_phase_ends_when_the_last_that_it_waited_for_expires(scene: Scene) -> None:
    leader, _ = scene.stable_group(2)
    asking = scene.join(leader.member_id)
    scene.pass_time(9.999)
    assert asking.is_parked
    scene.pass_time(0.001)
    assert asking.reply.generation_id == 3
    assert len(asking.reply.members) == 1


@pytest.mark.fact("T-003")
def test_a_member_that_waits_in_a_join_may_be_silent(scene: Scene) -> None:
    leader, slow = scene.stable_group(2, session_timeout=10, rebalance_timeout=600)
    asking = scene.join(leader.member_id, rebalance_timeout=600)
    keep_alive(scene, 400, slow)
    assert asking.is_parked
    scene.join(slow.member_id)
    assert asking.reply.generation_id == 3


@pytest.mark.fact("S-033")
def test_a_member_that_waits_for_the_plan_may_be_silent_and_begins_a_session_with_it(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    asking = scene.sync(follower.member_id, 2)
    keep_alive(scene, 50, leader)
    assert asking.is_parked
    scene.sync(leader.member_id, 2, {})
    scene.pass_time(9.999)
    assert scene.state() == "Stable"
    assert member_ids(scene) == {leader.member_id, follower.member_id}
    scene.heartbeat(leader.member_id, 2)
    scene.pass_time(0.001)
    assert member_ids(scene) == {leader.member_id}


@pytest.mark.fact("S-033")
def test_a_member_that_is_sent_back_to_join_begins_a_session_with_that(scene: Scene) -> None:
    leader, follower, other = scene.completing_group(3)
    asking = scene.sync(follower.member_id, 2)
    keep_alive(scene, 50, leader, other)
    scene.join(other.member_id, protocols=(("range", b"new"),))
    assert asking.reply.error_code is ErrorCode.rebalance_in_progress
    scene.pass_time(9.999)
    assert follower.member_id in member_ids(scene)
    scene.pass_time(0.001)
    assert follower.member_id not in member_ids(scene)


@pytest.mark.fact("T-004", "T-009")
def test_a_new_member_may_wait_in_a_join_for_five_minutes(scene: Scene) -> None:
    (leader,) = scene.stable_group(1, rebalance_timeout=1_000)
    asking = scene.join(session_timeout=10)
    keep_alive(scene, 295, leader)
    assert asking.is_parked
    keep_alive(scene, 5, leader)
    assert asking.reply == JoinReply(member_id="", error_code=ErrorCode.unknown_member_id)
    assert member_ids(scene) == {leader.member_id}


@pytest.mark.fact("T-004")
def test_a_new_member_has_the_five_minutes_also_if_its_session_is_longer(scene: Scene) -> None:
    (leader,) = scene.stable_group(1, rebalance_timeout=1_000)
    asking = scene.join(session_timeout=1_800)
    keep_alive(scene, 300, leader)
    assert asking.reply.error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("T-004")
def test_a_member_is_new_until_its_first_join_is_answered(scene: Scene) -> None:
    leader, second = scene.stable_group(2, rebalance_timeout=1_000)
    asking = scene.join(second.member_id, protocols=(("range", b"new"),))
    keep_alive(scene, 600, leader)
    assert asking.is_parked


# The sync phase.


def test_those_who_do_not_sync_in_time_are_dropped_and_the_others_join_anew(scene: Scene) -> None:
    leader, waiting, silent = scene.completing_group(3)
    asking = scene.sync(waiting.member_id, 2)
    keep_alive(scene, 55, leader, silent)
    assert scene.state() == "CompletingRebalance"
    keep_alive(scene, 5, leader, silent)
    assert scene.state() == "PreparingRebalance"
    assert member_ids(scene) == {waiting.member_id}
    assert asking.reply.error_code is ErrorCode.rebalance_in_progress
    assert scene.heartbeat(silent.member_id, 2).error_code is ErrorCode.unknown_member_id


def test_those_who_do_not_sync_in_time_are_dropped_from_a_stable_group_too(scene: Scene) -> None:
    leader, silent = scene.completing_group(2)
    scene.sync(leader.member_id, 2, {})
    keep_alive(scene, 55, leader, silent)
    assert scene.state() == "Stable"
    keep_alive(scene, 5, leader, silent)
    assert scene.state() == "PreparingRebalance"
    assert member_ids(scene) == {leader.member_id}
    assert scene.events[-1].why == "1 members did not sync in time"


def test_a_group_in_which_nobody_syncs_is_empty(scene: Scene) -> None:
    members = scene.completing_group(2, static=True)
    keep_alive(scene, 60, *members)
    assert scene.state() == "Empty"
    assert scene.coordinator.groups["g"].generation == 3


@pytest.mark.fact("S-025")
@pytest.mark.parametrize("leader_first", [True, False])
def test_nobody_is_dropped_when_all_have_synced(scene: Scene, leader_first: bool) -> None:
    members = scene.completing_group(3)
    for member in members if leader_first else reversed(members):
        scene.sync(member.member_id, 2)
    keep_alive(scene, 300, *members)
    assert scene.state() == "Stable"
    assert member_ids(scene) == {member.member_id for member in members}


@pytest.mark.fact("S-025")
def test_nobody_is_dropped_when_the_one_that_did_not_sync_has_left(scene: Scene) -> None:
    leader, silent = scene.completing_group(2)
    scene.sync(leader.member_id, 2, {})
    scene.leave(silent.member_id)
    again = scene.join(leader.member_id).reply
    scene.sync(leader.member_id, again.generation_id, {})
    keep_alive(scene, 300, Joined(member_id=leader.member_id, instance_id=None, generation=again.generation_id))
    assert scene.state() == "Stable"


@pytest.mark.fact("S-026")
def test_a_new_rebalance_gives_everyone_the_whole_time_again(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    keep_alive(scene, 55, leader, follower)
    scene.join(follower.member_id, protocols=(("range", b"new"),))
    again = scene.join(leader.member_id).reply
    assert again.generation_id == 3
    now = [Joined(member_id=each.member_id, instance_id=None, generation=3) for each in (leader, follower)]
    keep_alive(scene, 55, *now)
    assert scene.state() == "CompletingRebalance"
    assert member_ids(scene) == {leader.member_id, follower.member_id}
    keep_alive(scene, 5, *now)
    assert scene.state() == "Empty"


# Deadlines of removed members and groups.


@pytest.mark.fact("T-011")
def test_the_deadlines_of_a_deleted_group_are_of_no_effect_on_its_namesake(scene: Scene) -> None:
    scene.join(needs_known_id=True, session_timeout=7)
    scene.delete_groups("g")
    (leader,) = scene.stable_group(1)
    events = list(scene.events)
    keep_alive(scene, 100, leader)
    assert scene.state() == "Stable"
    assert scene.events == events


@pytest.mark.fact("T-011")
def test_a_group_that_is_let_go_of_waits_for_nothing(scene: Scene) -> None:
    scene.stable_group(2)
    scene.join()
    scene.join(needs_known_id=True, group_id="other")
    scene.completing_group(2, group_id="third")
    scene.take(scene.coordinator.unload(scene.at()))
    effects = len(scene.effects)
    scene.pass_time(1_000)
    assert all(not (each.replies or each.records or each.events) for each in scene.effects[effects:])
    assert scene.coordinator.deadline() is None


# A tick that comes late, as it may on a busy machine, finds several deadlines at once.


def test_a_member_whose_session_begins_anew_in_a_late_tick_does_not_expire_in_it(scene: Scene) -> None:
    """The join phase ends after 60 seconds, which begins a new session of the remaining static member."""
    leader, retained = scene.stable_group(2, static=True, session_timeout=60.5)
    asking = scene.join(leader.member_id, "i0")
    scene.now += 61
    scene.take(scene.coordinator.tick(scene.at()))
    assert asking.reply.generation_id == 3
    assert retained.member_id in member_ids(scene)


def test_a_join_phase_that_ends_in_a_late_tick_ends_once(scene: Scene) -> None:
    """The last member that it waits for expires after 59 seconds, so its deadline after 60 has no effect."""
    leader, _ = scene.stable_group(2, static=True, session_timeout=59)
    asking = scene.join(leader.member_id, "i0")
    scene.now += 61
    scene.take(scene.coordinator.tick(scene.at()))
    assert asking.reply.generation_id == 3
    assert len(asking.reply.members) == 1
    assert scene.state() == "CompletingRebalance"


def test_after_a_late_tick_the_next_deadline_is_in_the_future(scene: Scene) -> None:
    scene.stable_group(3, rebalance_timeout=0)
    scene.join(needs_known_id=True, session_timeout=20)
    scene.now += 10
    scene.take(scene.coordinator.tick(scene.at()))
    deadline = scene.coordinator.deadline()
    assert deadline is None or deadline > scene.now
