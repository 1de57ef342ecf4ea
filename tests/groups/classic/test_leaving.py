"""LeaveGroup: members leave by themselves, or an operator removes them by instance id."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.effects import EventType
from kcoord.groups.records import GroupStored
from kcoord.groups.replies import LeftMember
from kcoord.groups.requests import LeavingMember
from tests.support.groups.scene import Joined, Scene


def member_ids(scene: Scene) -> list[str]:
    return [member.member_id for member in scene.describe().members]


def by_instance(instance_id: str) -> LeavingMember:
    """Returns the request of an operator, who does not know the member id."""
    return LeavingMember(member_id="", instance_id=instance_id)


def left(member_id: str, error: ErrorCode = ErrorCode.none, *, instance_id: str | None = None) -> LeftMember:
    return LeftMember(member_id=member_id, group_instance_id=instance_id, error_code=error)


def beat(scene: Scene, member: Joined) -> ErrorCode:
    return scene.heartbeat(member.member_id, member.generation, instance_id=member.instance_id).error_code


# Removed members.


@pytest.mark.fact("L-001")
def test_leaving_a_group_without_a_name_is_refused_as_a_whole(scene: Scene) -> None:
    reply = scene.leave("m", group_id="")
    assert (reply.error_code, reply.members) == (ErrorCode.invalid_group_id, ())


@pytest.mark.fact("L-002")
def test_of_a_group_that_is_not_there_nobody_is_a_member(scene: Scene) -> None:
    reply = scene.leave("m", by_instance("i"))
    assert reply.error_code is ErrorCode.none
    unknown = ErrorCode.unknown_member_id
    assert reply.members == (left("m", unknown), left("", unknown, instance_id="i"))
    assert not scene.list_groups().groups


@pytest.mark.fact("L-003", "L-011")
@pytest.mark.parametrize("member_id", ["stranger", ""])
def test_a_stranger_cannot_leave(scene: Scene, member_id: str) -> None:
    [member] = scene.stable_group(1)
    assert scene.leave(member_id).members == (left(member_id, ErrorCode.unknown_member_id),)
    assert scene.state() == "Stable"
    assert member_ids(scene) == [member.member_id]


@pytest.mark.fact("L-010", "L-022")
@pytest.mark.parametrize("member_id", ["", "stranger"])
def test_an_instance_id_that_nobody_has_removes_nobody(scene: Scene, member_id: str) -> None:
    scene.stable_group(2, static=True)
    reply = scene.leave(LeavingMember(member_id=member_id, instance_id="nobody's"))
    assert reply.members == (left(member_id, ErrorCode.unknown_member_id, instance_id="nobody's"),)
    assert scene.state() == "Stable"


@pytest.mark.fact("L-012")
def test_an_instance_id_with_another_member_id_is_fenced_and_removes_nobody(scene: Scene) -> None:
    _, other = scene.stable_group(2, static=True)
    reply = scene.leave(LeavingMember(member_id=other.member_id, instance_id="i0"))
    assert reply.members == (left(other.member_id, ErrorCode.fenced_instance_id, instance_id="i0"),)
    assert scene.state() == "Stable"
    assert len(member_ids(scene)) == 2


@pytest.mark.fact("L-018")
def test_a_dead_group_cannot_be_left(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.kill_group()
    reply = scene.leave(member.member_id)
    assert (reply.error_code, reply.members) == (ErrorCode.coordinator_not_available, ())


@pytest.mark.fact("L-024")
def test_nobody_leaves_twice(scene: Scene) -> None:
    member, _ = scene.stable_group(2)
    unknown = left(member.member_id, ErrorCode.unknown_member_id)
    assert scene.leave(member.member_id, member.member_id).members == (left(member.member_id), unknown)
    assert scene.leave(member.member_id).members == (unknown,)


def test_a_group_of_another_node_cannot_be_left_here() -> None:
    scene = Scene(owns=lambda group_id: False)
    reply = scene.leave("m")
    assert (reply.error_code, reply.members) == (ErrorCode.not_coordinator, ())


# What follows.


@pytest.mark.fact("L-004")
def test_a_group_whose_last_member_leaves_is_empty_at_once(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    records = len(scene.records)
    assert scene.leave(member.member_id).members == (left(member.member_id),)
    assert scene.state() == "Empty"
    [record] = scene.records[records:]
    assert isinstance(record, GroupStored)
    assert (record.generation, record.members) == (member.generation + 1, ())
    assert scene.join().reply.generation_id == member.generation + 2


@pytest.mark.fact("L-005")
def test_when_a_member_leaves_the_others_rebalance(scene: Scene) -> None:
    first, second, third = scene.stable_group(3)
    scene.leave(second.member_id)
    assert scene.state() == "PreparingRebalance"
    assert beat(scene, first) is ErrorCode.rebalance_in_progress
    assert beat(scene, third) is ErrorCode.rebalance_in_progress
    assert beat(scene, second) is ErrorCode.unknown_member_id
    askings = [scene.join(member.member_id) for member in (first, third)]
    assert [asking.reply.generation_id for asking in askings] == [first.generation + 1] * 2


@pytest.mark.fact("L-006")
def test_those_that_wait_for_a_plan_are_sent_back_when_a_member_leaves(scene: Scene) -> None:
    leader, waiting, leaving = scene.completing_group(3)
    asking = scene.sync(waiting.member_id, waiting.generation)
    assert asking.is_parked
    scene.leave(leaving.member_id)
    assert asking.reply.error_code is ErrorCode.rebalance_in_progress
    assert scene.state() == "PreparingRebalance"
    assert set(member_ids(scene)) == {leader.member_id, waiting.member_id}


def test_a_join_phase_ends_when_the_one_that_was_waited_for_leaves(scene: Scene) -> None:
    first, second = scene.stable_group(2)
    asking = scene.join(first.member_id)
    assert asking.is_parked
    scene.leave(second.member_id)
    assert asking.reply.error_code is ErrorCode.none
    assert asking.reply.generation_id == first.generation + 1


def test_a_join_phase_ends_when_the_id_that_was_waited_for_is_given_back(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    given = scene.join(needs_known_id=True).reply.member_id
    asking = scene.join(member.member_id)
    assert asking.is_parked
    assert scene.leave(given).members == (left(given),)
    assert asking.reply.generation_id == member.generation + 1


def test_an_id_that_is_given_back_has_the_members_of_a_stable_group_join_again(scene: Scene) -> None:
    """Kafka rebalances in this case, too, although no member joined or left."""
    [member] = scene.stable_group(1)
    given = scene.join(needs_known_id=True).reply.member_id
    scene.leave(given)
    assert scene.state() == "PreparingRebalance"
    assert beat(scene, member) is ErrorCode.rebalance_in_progress
    assert scene.join(given).reply.error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("L-009")
@pytest.mark.parametrize("members", [1, 2])
def test_an_operator_removes_a_static_member_by_its_instance_id(scene: Scene, members: int) -> None:
    removed, *others = scene.stable_group(members, static=True)
    assert scene.leave(by_instance("i0")).members == (left("", instance_id="i0"),)
    assert member_ids(scene) == [member.member_id for member in others]
    assert scene.state() == ("PreparingRebalance" if others else "Empty")
    assert beat(scene, removed) is ErrorCode.unknown_member_id


@pytest.mark.fact("L-015", "L-022")
def test_each_of_many_is_answered_in_its_turn_and_one_rebalance_follows(scene: Scene) -> None:
    first, second, third, fourth = scene.stable_group(4, static=True)
    rebalances = len([event for event in scene.events if event.what is EventType.REBALANCING])
    given = scene.join(needs_known_id=True).reply.member_id
    reply = scene.leave(
        "stranger",
        by_instance("i0"),
        LeavingMember(member_id=third.member_id, instance_id="i1"),
        LeavingMember(member_id=second.member_id, instance_id="i1"),
        given,
        third.member_id,
    )
    assert reply.error_code is ErrorCode.none
    assert reply.members == (
        left("stranger", ErrorCode.unknown_member_id),
        left("", instance_id="i0"),
        left(third.member_id, ErrorCode.fenced_instance_id, instance_id="i1"),
        left(second.member_id, instance_id="i1"),
        left(given),
        left(third.member_id),
    )
    assert member_ids(scene) == [fourth.member_id]
    assert len([event for event in scene.events if event.what is EventType.REBALANCING]) == rebalances + 1
    assert first.member_id not in member_ids(scene)


@pytest.mark.fact("L-019")
def test_when_nobody_is_named_nothing_happens(scene: Scene) -> None:
    scene.stable_group(2)
    before = len(scene.events)
    reply = scene.leave()
    assert (reply.error_code, reply.members) == (ErrorCode.none, ())
    assert scene.state() == "Stable"
    assert scene.events[before:] == []


@pytest.mark.fact("L-021")
def test_the_session_of_one_that_left_cannot_expire(scene: Scene) -> None:
    gone, stays = scene.stable_group(2, rebalance_timeout=1000.0)
    scene.leave(gone.member_id)
    asking = scene.join(stays.member_id, rebalance_timeout=1000.0)
    scene.sync(stays.member_id, asking.reply.generation_id)
    assert scene.state() == "Stable"
    for _ in range(10):
        scene.pass_time(5)
        scene.heartbeat(stays.member_id, asking.reply.generation_id)
    assert scene.state() == "Stable"
    assert EventType.EXPIRED not in [event.what for event in scene.events]


@pytest.mark.fact("L-021")
def test_nothing_is_waited_for_once_all_have_left(scene: Scene) -> None:
    members = scene.stable_group(3)
    sessions = [member.session for member in scene.coordinator.groups["g"].members.values()]
    assert all(session.at is not None for session in sessions)
    scene.leave(*(member.member_id for member in members))
    assert all(session.at is None for session in sessions)
    scene.pass_time(300)  # alarms of cleared deadlines may still ring
    assert scene.coordinator.deadline() is None


@pytest.mark.fact("L-023")
def test_another_member_leads_once_the_leader_has_left(scene: Scene) -> None:
    leader, *others = scene.stable_group(3)
    scene.leave(leader.member_id)
    replies = [asking.reply for asking in [scene.join(member.member_id) for member in others]]
    [chosen] = {reply.leader for reply in replies}
    assert chosen in {member.member_id for member in others}
    assert [bool(reply.members) for reply in replies] == [reply.member_id == chosen for reply in replies]


@pytest.mark.fact("L-030")
@pytest.mark.parametrize("reason", [None, "", "the consumer is being closed", "x" * 100_000])
def test_a_reason_changes_nothing_but_what_is_told(scene: Scene, reason: str | None) -> None:
    member, other = scene.stable_group(2)
    assert scene.leave(LeavingMember(member_id=member.member_id, reason=reason)).members == (left(member.member_id),)
    assert member_ids(scene) == [other.member_id]
    assert [event.why for event in scene.events if event.what is EventType.LEFT] == [reason or ""]


# What waits of one that goes. Kafka answers the join and forgets the sync.


def test_a_join_that_waits_is_answered_when_its_member_is_removed(scene: Scene) -> None:
    first, _ = scene.stable_group(2, static=True)
    asking = scene.join(first.member_id, "i0")
    assert asking.is_parked
    scene.leave(by_instance("i0"))
    assert asking.reply.error_code is ErrorCode.unknown_member_id
    assert asking.reply.member_id == ""


def test_a_sync_that_waits_is_answered_when_its_member_is_removed(scene: Scene) -> None:
    _, waiting = scene.completing_group(2, static=True)
    asking = scene.sync(waiting.member_id, waiting.generation, instance_id="i1")
    assert asking.is_parked
    scene.leave(by_instance("i1"))
    assert asking.reply.error_code is ErrorCode.unknown_member_id
