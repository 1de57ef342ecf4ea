"""Static members: one that returns under its instance id is the same member with a new member id (KIP-345)."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.classic.member import Member
from kcoord.groups.deadlines import Deadline, Purpose
from kcoord.groups.effects import EventType
from kcoord.groups.records import GroupStored
from kcoord.groups.replies import JoinReply, SyncReply
from tests.support.groups.scene import ONE_PROTOCOL, Scene

NEWS = (("range", b"another subscription"),)


def ids(scene: Scene) -> dict[str | None, str]:
    return {member.group_instance_id: member.member_id for member in scene.describe().members}


# A new instance.


@pytest.mark.fact("J-101")
def test_a_new_instance_is_a_new_member(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    asking = scene.join("", "i")
    assert scene.state() == "PreparingRebalance"
    scene.join(leader.member_id)
    assert asking.reply.generation_id == 2
    assert asking.reply.member_id.startswith("i-")


@pytest.mark.fact("T-108")
def test_an_instance_is_one_member(scene: Scene) -> None:
    scene.stable_group(2, static=True)
    before = ids(scene)
    scene.join("", "i1")
    after = ids(scene)
    assert after.keys() == before.keys()
    assert after["i0"] == before["i0"]
    assert after["i1"] != before["i1"]


@pytest.mark.fact("T-108")
def test_a_known_instance_cannot_be_added(scene: Scene) -> None:
    scene.stable_group(1, static=True)
    second = Member(
        member_id="second",
        instance_id="i0",
        client_id="client",
        client_host="/127.0.0.1",
        session_timeout=10,
        rebalance_timeout=60,
        protocols=ONE_PROTOCOL,
        session=Deadline(Purpose.SESSION, "g", "second"),
    )
    with pytest.raises(AssertionError, match="a known instance is replaced"):
        scene.coordinator.groups["g"].add(second, "consumer")


# It comes back while the group is stable.


@pytest.mark.fact("J-102", "J-103")
def test_a_follower_that_comes_back_goes_on_in_the_same_generation(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, static=True)
    reply = scene.join("", "i1").reply
    assert reply.member_id != follower.member_id
    assert reply == JoinReply(
        member_id=reply.member_id,
        generation_id=2,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
    )
    assert scene.state() == "Stable"
    assert scene.heartbeat(leader.member_id, 2).error_code is ErrorCode.none
    assert scene.sync(reply.member_id, 2, instance_id="i1").reply.assignment == b"assignment of 1"


@pytest.mark.fact("J-102")
@pytest.mark.parametrize("instance_id", ["i0", "i1"])
def test_the_new_id_is_recorded_before_it_is_told(scene: Scene, instance_id: str) -> None:
    scene.stable_group(2, static=True)
    asking = scene.join("", instance_id, protocols=NEWS)
    effects = scene.effects[-1]
    assert effects.replies == ((asking.ticket, asking.reply),)
    (stored,) = effects.records
    assert isinstance(stored, GroupStored)
    assert stored.generation == 2
    (member,) = [member for member in stored.members if member.member_id == asking.reply.member_id]
    assert (member.instance_id, member.subscription) == (instance_id, NEWS[0][1])
    assert {member.assignment for member in stored.members} == {b"assignment of 0", b"assignment of 1"}


def test_a_leader_that_comes_back_need_not_plan(scene: Scene) -> None:
    _, follower = scene.stable_group(2, static=True)
    reply = scene.join("", "i0", can_skip_assignment=True).reply
    assert (reply.leader, reply.generation_id, reply.skip_assignment) == (reply.member_id, 2, True)
    assert {member.member_id for member in reply.members} == {reply.member_id, follower.member_id}
    assert scene.state() == "Stable"


def test_a_leader_that_cannot_be_told_so_is_told_of_the_one_that_it_was(scene: Scene) -> None:
    leader, _ = scene.stable_group(2, static=True)
    reply = scene.join("", "i0", can_skip_assignment=False).reply
    assert (reply.leader, reply.skip_assignment, reply.members) == (leader.member_id, False, ())
    assert reply.member_id != leader.member_id
    # It is the leader all the same: when it joins again, it begins a rebalance.
    assert scene.join(reply.member_id, "i0").is_parked
    assert scene.state() == "PreparingRebalance"


@pytest.mark.parametrize("can_skip_assignment", [False, True])
def test_a_follower_is_never_to_skip_a_plan(scene: Scene, can_skip_assignment: bool) -> None:
    leader, _ = scene.stable_group(2, static=True)
    reply = scene.join("", "i1", can_skip_assignment=can_skip_assignment).reply
    assert (reply.leader, reply.skip_assignment, reply.members) == (leader.member_id, False, ())


def test_one_that_comes_back_and_changes_the_choice_of_protocol_begins_a_rebalance(scene: Scene) -> None:
    both = (("range", b""), ("sticky", b""))
    scene.stable_group(1, static=True, protocols=both)
    asking = scene.join("", "i0", protocols=(("sticky", b""), ("range", b"")))
    assert (asking.reply.generation_id, asking.reply.protocol_name) == (2, "sticky")


@pytest.mark.fact("J-116")
def test_each_return_gives_another_id(scene: Scene) -> None:
    (member,) = scene.stable_group(1, static=True)
    given = {scene.join("", "i0").reply.member_id for _ in range(5)}
    assert len(given | {member.member_id}) == 6


# It comes back during a rebalance.


@pytest.mark.fact("J-109")
def test_one_that_comes_back_while_others_join_waits_with_them(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, static=True)
    waiting = scene.join(leader.member_id, "i0")
    asking = scene.join("", "i1")
    assert waiting.reply.generation_id == asking.reply.generation_id == 3
    assert {member.member_id for member in waiting.reply.members} == {leader.member_id, asking.reply.member_id}
    assert scene.heartbeat(follower.member_id, 3).error_code is ErrorCode.unknown_member_id


def test_the_join_of_the_one_that_it_replaces_is_fenced(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, static=True)
    scene.join("", "i2")
    earlier = scene.join(follower.member_id, "i1", protocols=NEWS)
    later = scene.join("", "i1")
    assert earlier.reply == JoinReply(member_id=follower.member_id, error_code=ErrorCode.fenced_instance_id)
    assert later.is_parked
    scene.join(leader.member_id, "i0")
    assert later.reply.generation_id == 3


def test_one_that_comes_back_while_the_plan_is_made_begins_another_rebalance(scene: Scene) -> None:
    """The leader may be planning for the old id."""
    leader, first, second = scene.completing_group(3, static=True)
    fenced = scene.sync(first.member_id, first.generation, instance_id="i1")
    sent_back = scene.sync(second.member_id, second.generation, instance_id="i2")
    asking = scene.join("", "i1")
    assert fenced.reply == SyncReply(error_code=ErrorCode.fenced_instance_id)
    assert sent_back.reply.error_code is ErrorCode.rebalance_in_progress
    assert asking.is_parked
    assert scene.state() == "PreparingRebalance"
    late = scene.sync(leader.member_id, leader.generation, {first.member_id: b""}, instance_id="i0")
    assert late.reply.error_code is ErrorCode.rebalance_in_progress


# Who is fenced.


@pytest.mark.fact("J-113")
@pytest.mark.parametrize("member_id", ["someone", "the other"])
def test_another_id_than_the_current_one_is_fenced(scene: Scene, member_id: str) -> None:
    leader, _ = scene.stable_group(2, static=True)
    member_id = leader.member_id if member_id == "the other" else member_id
    reply = scene.join(member_id, "i1").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.fenced_instance_id, member_id)
    assert scene.state() == "Stable"


@pytest.mark.fact("J-113")
def test_the_old_id_of_one_that_came_back_is_fenced(scene: Scene) -> None:
    _, follower = scene.stable_group(2, static=True)
    scene.join("", "i1")
    assert scene.join(follower.member_id, "i1").reply.error_code is ErrorCode.fenced_instance_id
    assert scene.heartbeat(follower.member_id, 2, instance_id="i1").error_code is ErrorCode.fenced_instance_id


@pytest.mark.fact("J-114", "J-117")
@pytest.mark.parametrize("is_known", [True, False])
def test_an_unknown_instance_with_an_id_is_unknown(scene: Scene, is_known: bool) -> None:
    (member,) = scene.stable_group(1)
    member_id = member.member_id if is_known else "someone"
    reply = scene.join(member_id, "i").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.unknown_member_id, member_id)
    assert scene.state() == "Stable"


@pytest.mark.fact("J-115")
def test_a_static_member_that_knows_its_id_is_a_member_like_any_other(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, static=True)
    reply = scene.join(follower.member_id, "i1").reply
    assert (reply.member_id, reply.generation_id, reply.members) == (follower.member_id, 2, ())
    assert scene.state() == "Stable"
    assert scene.join(leader.member_id, "i0").is_parked
    assert scene.state() == "PreparingRebalance"


@pytest.mark.fact("J-115")
def test_a_static_follower_with_another_subscription_begins_a_rebalance(scene: Scene) -> None:
    _, follower = scene.stable_group(2, static=True)
    assert scene.join(follower.member_id, "i1", protocols=NEWS).is_parked
    assert scene.state() == "PreparingRebalance"


# Time.


@pytest.mark.fact("J-119")
def test_the_session_of_the_old_id_ends_nothing(scene: Scene) -> None:
    scene.stable_group(1, static=True)
    scene.pass_time(6)
    new = scene.join("", "i0").reply.member_id
    scene.pass_time(9)  # more than ten seconds have passed since the old id's last heartbeat
    assert ids(scene) == {"i0": new}
    assert scene.state() == "Stable"
    scene.pass_time(1)
    assert scene.state() == "Empty"


@pytest.mark.fact("J-036")
def test_a_static_member_that_does_not_join_in_time_is_kept(scene: Scene) -> None:
    leader, silent = scene.stable_group(2, static=True, session_timeout=100)
    waiting = scene.join(leader.member_id, "i0")
    scene.pass_time(60)
    assert waiting.reply.generation_id == 3
    assert {member.group_instance_id for member in waiting.reply.members} == {"i0", "i1"}
    assert scene.heartbeat(silent.member_id, 3, instance_id="i1").error_code is ErrorCode.none


@pytest.mark.fact("J-036", "T-002")
def test_a_static_member_that_was_kept_goes_when_its_session_ends(scene: Scene) -> None:
    leader, silent = scene.stable_group(2, static=True, session_timeout=30, rebalance_timeout=60)
    waiting = scene.join(leader.member_id, "i0", session_timeout=30)
    for _ in range(3):
        scene.heartbeat(silent.member_id, 2, instance_id="i1")
        scene.pass_time(20)
    assert len(waiting.reply.members) == 2  # the answer to the other began the session of this one anew, as in Kafka
    scene.sync(leader.member_id, 3, instance_id="i0")
    scene.pass_time(20)
    scene.heartbeat(leader.member_id, 3, instance_id="i0")
    scene.pass_time(9.9)
    assert ids(scene).keys() == {"i0", "i1"}
    scene.pass_time(0.1)
    assert ids(scene).keys() == {"i0"}


@pytest.mark.fact("J-038")
def test_one_that_joined_leads_in_place_of_a_static_leader_that_did_not(scene: Scene) -> None:
    leader, *followers = scene.stable_group(3, static=True, session_timeout=100)
    waiting = [scene.join(each.member_id, each.instance_id, protocols=NEWS) for each in followers]
    scene.pass_time(60)
    (new_leader,) = {asking.reply.leader for asking in waiting}
    assert new_leader in {follower.member_id for follower in followers}
    (leader_reply,) = [asking.reply for asking in waiting if asking.reply.members]
    assert {member.member_id for member in leader_reply.members} == {
        leader.member_id,
        *(each.member_id for each in followers),
    }


@pytest.mark.parametrize("rebalance_timeout", [0.0, 5.0])
def test_a_group_of_static_members_that_none_joins_waits_for_the_first(scene: Scene, rebalance_timeout: float) -> None:
    first, second, third = scene.stable_group(3, static=True, session_timeout=30, rebalance_timeout=rebalance_timeout)
    scene.leave(third.member_id)
    scene.pass_time(12)
    assert scene.state() == "PreparingRebalance"
    asking = scene.join(second.member_id, "i1", rebalance_timeout=rebalance_timeout, session_timeout=30)
    scene.pass_time(5)
    assert asking.reply.leader == second.member_id
    assert {member.member_id for member in asking.reply.members} == {first.member_id, second.member_id}


def test_a_group_of_static_members_that_none_joins_is_empty_when_their_sessions_end(scene: Scene) -> None:
    _, _, third = scene.stable_group(3, static=True, session_timeout=12.0, rebalance_timeout=5.0)
    scene.leave(third.member_id)
    scene.pass_time(12)
    assert scene.state() == "Empty"
    expired = [event for event in scene.events if event.what is EventType.EXPIRED]
    assert len(expired) == 2
