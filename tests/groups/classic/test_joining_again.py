"""JoinGroup of a known member: it begins a rebalance or is answered at once, and supersedes its earlier join."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.effects import EventType
from kcoord.groups.replies import JoinReply
from tests.support.groups.scene import Scene

NEWS = (("range", b"another subscription"),)


# While the group prepares a rebalance.


@pytest.mark.fact("J-042")
def test_a_member_that_joins_while_others_do_brings_its_subscription_and_waits(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.join()
    asking = scene.join(follower.member_id, protocols=NEWS)
    assert asking.is_parked
    reply = scene.join(leader.member_id).reply
    assert asking.reply.generation_id == reply.generation_id == 3
    assert {member.member_id: member.metadata for member in reply.members}[follower.member_id] == NEWS[0][1]


@pytest.mark.fact("J-042")
def test_a_member_that_joins_while_others_do_brings_its_timeouts(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.join()
    scene.join(follower.member_id, session_timeout=20)
    scene.join(leader.member_id)
    scene.pass_time(9)
    scene.heartbeat(leader.member_id, 3)
    scene.pass_time(10.9)  # the third is silent: it expired after 10 seconds
    assert follower.member_id in {member.member_id for member in scene.describe().members}
    scene.pass_time(0.1)
    assert follower.member_id not in {member.member_id for member in scene.describe().members}


@pytest.mark.fact("J-042", "J-034")
def test_the_next_join_phase_goes_by_the_new_timeout(scene: Scene) -> None:
    leader, follower = scene.stable_group(2, session_timeout=200, rebalance_timeout=5)
    scene.join(leader.member_id, session_timeout=200, rebalance_timeout=5)
    scene.join(follower.member_id, session_timeout=200, rebalance_timeout=90)
    assert scene.join(follower.member_id).reply.generation_id == 3
    for member in (leader, follower):
        scene.sync(member.member_id, 3)
    asking = scene.join(leader.member_id, rebalance_timeout=5)
    scene.pass_time(89.9)
    assert asking.is_parked
    scene.pass_time(0.1)
    assert asking.reply.generation_id == 4


# While the group waits for the plan.


@pytest.mark.fact("J-045")
def test_a_new_subscription_sends_those_that_wait_for_the_plan_back_to_join(scene: Scene) -> None:
    leader, first, second = scene.completing_group(3)
    waiting = scene.sync(first.member_id, first.generation)
    assert waiting.is_parked
    asking = scene.join(second.member_id, protocols=NEWS)
    assert scene.state() == "PreparingRebalance"
    assert waiting.reply.error_code is ErrorCode.rebalance_in_progress
    assert asking.is_parked
    scene.join(leader.member_id)
    scene.join(first.member_id)
    assert asking.reply.generation_id == leader.generation + 1


def test_a_member_whose_answer_was_lost_is_told_again(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    reply = scene.join(leader.member_id).reply
    assert reply.generation_id == leader.generation
    assert {member.member_id for member in reply.members} == {leader.member_id, follower.member_id}
    assert scene.join(follower.member_id).reply.members == ()
    assert scene.state() == "CompletingRebalance"


def test_a_member_that_is_told_again_still_waits_for_the_plan(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    waiting = scene.sync(follower.member_id, follower.generation)
    assert scene.join(follower.member_id).reply.generation_id == follower.generation
    assert waiting.is_parked
    scene.sync(leader.member_id, leader.generation, {follower.member_id: b"its own"})
    assert waiting.reply.assignment == b"its own"


# While the group is stable.


@pytest.mark.fact("J-046")
def test_a_leader_that_joins_again_begins_a_rebalance(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    asking = scene.join(leader.member_id)
    assert asking.is_parked
    assert scene.state() == "PreparingRebalance"
    assert scene.heartbeat(follower.member_id, 2).error_code is ErrorCode.rebalance_in_progress


@pytest.mark.fact("J-047")
def test_a_follower_with_nothing_new_is_told_the_generation_at_once(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    assert scene.join(follower.member_id).reply == JoinReply(
        member_id=follower.member_id,
        generation_id=2,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
    )
    assert scene.state() == "Stable"


@pytest.mark.fact("J-048")
@pytest.mark.parametrize(
    "protocols",
    [NEWS, (("range", b"subscription"), ("sticky", b"")), (("sticky", b""), ("range", b"subscription"))],
)
def test_a_follower_with_another_subscription_begins_a_rebalance(
    scene: Scene, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    _, follower = scene.stable_group(2)
    assert scene.join(follower.member_id, protocols=protocols).is_parked
    assert scene.state() == "PreparingRebalance"


def test_other_timeouts_alone_are_no_news(scene: Scene) -> None:
    _, follower = scene.stable_group(2)
    assert scene.join(follower.member_id, session_timeout=20, rebalance_timeout=90).reply.generation_id == 2
    assert scene.state() == "Stable"


def test_joining_again_is_no_heartbeat(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.pass_time(9)
    scene.heartbeat(leader.member_id, 2)
    assert scene.join(follower.member_id).reply.error_code is ErrorCode.none
    scene.pass_time(1)
    assert scene.heartbeat(follower.member_id, 2).error_code is ErrorCode.unknown_member_id


# The reason (KIP-800).


@pytest.mark.fact("J-058")
@pytest.mark.parametrize("reason", [None, "", "topics changed", "x" * 100_000])
def test_the_reason_of_a_join_changes_nothing(scene: Scene, reason: str | None) -> None:
    leader, follower = scene.stable_group(2)
    assert scene.join(follower.member_id, reason=reason).reply.generation_id == 2
    waiting = [scene.join(reason=reason), scene.join(leader.member_id, reason=reason)]
    scene.join(follower.member_id, reason=reason)
    assert {asking.reply.generation_id for asking in waiting} == {3}


@pytest.mark.fact("J-058")
@pytest.mark.parametrize(("reason", "suffix"), [(None, ""), ("", ""), ("topics changed", ": topics changed")])
def test_the_reason_of_a_join_is_told_along_if_there_is_one(scene: Scene, reason: str | None, suffix: str) -> None:
    (leader,) = scene.stable_group(1)
    scene.join(leader.member_id, reason=reason)
    whys = [event.why for event in scene.events if event.what is EventType.REBALANCING]
    assert whys[-1] == f"{leader.member_id} is the leader and joined again{suffix}"


# A request that comes before its predecessor is answered. Kafka never answers the earlier one.


def test_the_earlier_join_of_a_member_is_answered_when_it_asks_again(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    earlier = scene.join(leader.member_id)
    later = scene.join(leader.member_id)
    assert earlier.reply == JoinReply(member_id=leader.member_id, error_code=ErrorCode.rebalance_in_progress)
    assert later.is_parked
    scene.join(follower.member_id)
    assert later.reply.generation_id == 3


def test_a_member_that_asks_again_counts_once(scene: Scene) -> None:
    leader, _ = scene.stable_group(2)
    for _ in range(3):
        assert scene.join(leader.member_id).is_parked
    assert scene.state() == "PreparingRebalance"


def test_the_newest_request_of_a_member_counts(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.join(leader.member_id, protocols=(("range", b"old"),))
    later = scene.join(leader.member_id, protocols=(("range", b"new"),))
    scene.join(follower.member_id)
    assert {member.member_id: member.metadata for member in later.reply.members}[leader.member_id] == b"new"


def test_a_new_member_that_asks_again_with_its_given_id_stays_new(scene: Scene) -> None:
    leader, _ = scene.stable_group(2, rebalance_timeout=1_000)
    given = scene.join(needs_known_id=True).reply.member_id
    earlier = scene.join(given)
    later = scene.join(given)
    assert earlier.reply.error_code is ErrorCode.rebalance_in_progress
    for _ in range(60):  # the leader goes on and does not join
        scene.pass_time(5)
        scene.heartbeat(leader.member_id, 2)
    assert later.reply == JoinReply(member_id="", error_code=ErrorCode.unknown_member_id)
