"""The join phase: election of the leader, selection of the protocol, and how long it waits for which members."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.effects import EventType
from kcoord.groups.records import GroupStored
from kcoord.groups.replies import JoinedMember
from tests.support.groups.scene import Scene


@pytest.mark.fact("J-028")
def test_the_first_member_leads_and_alone_is_told_of_all_others(scene: Scene) -> None:
    first = scene.join(protocols=(("range", b"of the first"),)).reply
    assert first.leader == first.member_id
    assert first.members == (JoinedMember(member_id=first.member_id, group_instance_id=None, metadata=b"of the first"),)
    second = scene.join(protocols=(("sticky", b"unused"), ("range", b"of the second")))
    third = scene.join("", "i", protocols=(("range", b"of the third"),))
    again = scene.join(first.member_id, protocols=(("range", b"of the first"),)).reply
    assert {again.leader, second.reply.leader, third.reply.leader} == {first.member_id}
    assert {(member.member_id, member.group_instance_id, member.metadata) for member in again.members} == {
        (first.member_id, None, b"of the first"),
        (second.reply.member_id, None, b"of the second"),
        (third.reply.member_id, "i", b"of the third"),
    }
    assert second.reply.members == third.reply.members == ()
    assert not any(asking.skip_assignment for asking in (again, second.reply, third.reply))


@pytest.mark.fact("J-029", "T-102")
def test_every_join_phase_that_ends_is_one_generation_more(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    assert leader.generation == 1
    second = scene.join()
    assert scene.join(leader.member_id).reply.generation_id == 2
    scene.leave(second.reply.member_id)
    assert scene.join(leader.member_id).reply.generation_id == 3
    scene.leave(leader.member_id)
    assert scene.state() == "Empty"
    assert scene.join().reply.generation_id == 5  # the fourth had no members


@pytest.mark.fact("J-061")
def test_a_group_that_was_empty_counts_on(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    stored = scene.records[-1]
    assert isinstance(stored, GroupStored)
    assert stored.generation == 2
    assert scene.join().reply.generation_id == 3


@pytest.mark.fact("J-033")
def test_a_join_phase_ends_as_soon_as_all_have_joined_again(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    waiting = [scene.join(), scene.join(leader.member_id)]
    assert [asking.is_parked for asking in waiting] == [True, True]
    waiting.append(scene.join(follower.member_id))
    assert [asking.reply.generation_id for asking in waiting] == [3, 3, 3]
    assert scene.state() == "CompletingRebalance"


@pytest.mark.fact("J-034", "J-035")
def test_the_join_phase_lasts_as_long_as_its_slowest_member_may_take(scene: Scene) -> None:
    leader = scene.join(rebalance_timeout=5, session_timeout=100).reply.member_id
    slow = scene.join(rebalance_timeout=30, session_timeout=100)
    assert scene.join(leader, rebalance_timeout=5, session_timeout=100).reply.generation_id == 2
    assert slow.reply.generation_id == 2
    waiting = scene.join(rebalance_timeout=6)
    scene.pass_time(29.9)
    assert waiting.is_parked
    scene.pass_time(0.1)
    assert waiting.reply.generation_id == 3


@pytest.mark.fact("J-035")
def test_dynamic_members_that_do_not_join_in_time_are_dropped(scene: Scene) -> None:
    leader, silent = scene.stable_group(2, session_timeout=100)
    waiting = [scene.join(leader.member_id), scene.join()]
    scene.pass_time(60)
    assert {asking.reply.generation_id for asking in waiting} == {3}
    assert len(waiting[0].reply.members) == 2
    assert scene.heartbeat(silent.member_id, 2).error_code is ErrorCode.unknown_member_id
    assert scene.join(silent.member_id).reply.error_code is ErrorCode.unknown_member_id
    dropped = [event.member_id for event in scene.events if event.what is EventType.DROPPED]
    assert dropped == [silent.member_id]


@pytest.mark.fact("J-035", "T-109")
def test_of_those_that_joined_one_leads_if_the_leader_did_not(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, session_timeout=100)
    waiting = [scene.join(follower.member_id, protocols=(("range", b"new"),)), scene.join()]
    scene.pass_time(60)
    (new_leader,) = {asking.reply.leader for asking in waiting}
    assert new_leader in {asking.reply.member_id for asking in waiting}
    assert new_leader != leader.member_id
    (leader_reply,) = [asking.reply for asking in waiting if asking.reply.members]
    assert leader_reply.member_id == new_leader


@pytest.mark.fact("T-109")
@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_a_leader_that_leaves_is_followed_by_another_member(scene: Scene, state: str) -> None:
    leader, *followers = scene.stable_group(3) if state == "Stable" else scene.completing_group(3)
    assert scene.state() == state
    scene.leave(leader.member_id)
    waiting = [scene.join(follower.member_id) for follower in followers]
    (new_leader,) = {asking.reply.leader for asking in waiting}
    assert new_leader in {follower.member_id for follower in followers}
    (leader_reply,) = [asking.reply for asking in waiting if asking.reply.members]
    assert leader_reply.member_id == new_leader


@pytest.mark.fact("J-039", "T-106")
def test_a_group_that_nobody_is_left_in_is_empty_and_stays(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    described = scene.describe()
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Empty", "consumer", "")
    assert scene.records[-1] == GroupStored(
        group_id="g",
        generation=2,
        protocol_type="consumer",
        protocol=None,
        leader_id=None,
        since_ms=scene.at().wall_ms,
    )


@pytest.mark.fact("J-040")
@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (["a b"], "a"),
        (["a b", "b a", "b a"], "b"),
        (["a b", "b a", "a b"], "a"),
        (["a b c", "b c a", "c b"], "b"),  # a is not a candidate, so that the first member votes for b
        (["a x", "b x", "c x"], "x"),
        (["a b", "b"], "b"),
    ],
)
def test_the_protocol_that_most_prefer_of_those_that_all_support_is_chosen(
    scene: Scene, offers: list[str], chosen: str
) -> None:
    protocols = [
        tuple((name, f"{name}{number}".encode()) for name in offer.split()) for number, offer in enumerate(offers)
    ]
    first = scene.join(protocols=protocols[0]).reply
    others = [scene.join(protocols=each) for each in protocols[1:]]
    leader = scene.join(first.member_id, protocols=protocols[0]).reply if others else first
    assert {leader.protocol_name, *(asking.reply.protocol_name for asking in others)} == {chosen}
    assert {member.metadata for member in leader.members} == {f"{chosen}{n}".encode() for n in range(len(offers))}


def test_the_protocol_is_chosen_anew_in_every_generation(scene: Scene) -> None:
    both = (("a", b""), ("b", b""))
    (only_b,) = (("b", b""),)
    leader = scene.join(protocols=both).reply
    assert leader.protocol_name == "a"
    second = scene.join(protocols=(only_b,))
    assert scene.join(leader.member_id, protocols=both).reply.protocol_name == "b"
    scene.leave(second.reply.member_id)
    assert scene.join(leader.member_id, protocols=both).reply.protocol_name == "a"


@pytest.mark.fact("J-057")
@pytest.mark.parametrize("members", [1, 2])
def test_a_session_begins_with_the_answer_to_the_join(scene: Scene, members: int) -> None:
    """A member that waited longer than its session timeout for the others has its full session from then on."""
    leader, *others = scene.stable_group(members, session_timeout=10, rebalance_timeout=60)
    waiting = scene.join(session_timeout=10)
    for _ in range(5):
        scene.pass_time(9)
        for other in (leader, *others):
            scene.heartbeat(other.member_id, other.generation)
    for other in (leader, *others):
        scene.join(other.member_id)
    newcomer = waiting.reply.member_id
    scene.pass_time(9.9)
    assert newcomer in {member.member_id for member in scene.describe().members}
    scene.pass_time(0.1)
    assert newcomer not in {member.member_id for member in scene.describe().members}


@pytest.mark.fact("J-057", "T-007")
def test_a_member_that_is_silent_after_it_joined_expires_before_the_plan_is_there(scene: Scene) -> None:
    leader, silent = scene.completing_group(2)
    scene.pass_time(5)
    scene.heartbeat(leader.member_id, leader.generation)
    scene.pass_time(5)
    assert scene.state() == "PreparingRebalance"
    assert scene.heartbeat(silent.member_id, silent.generation).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("rebalance_timeout", [0.0, -1.0])
def test_members_that_take_no_time_to_rebalance_are_given_none(scene: Scene, rebalance_timeout: float) -> None:
    leader, _ = scene.stable_group(2, rebalance_timeout=rebalance_timeout)
    waiting = scene.join(leader.member_id, rebalance_timeout=rebalance_timeout)
    assert waiting.is_parked
    scene.pass_time(0)
    assert waiting.reply.generation_id == 3
    assert len(waiting.reply.members) == 1
