"""`group.initial.rebalance.delay.ms`: a group that was empty waits for more members before it begins (KIP-134)."""

import pytest

from kcoord.groups.replies import JoinReply
from kcoord.settings import Settings
from tests.support.groups.scene import START, Asking, Scene


@pytest.fixture
def scene() -> Scene:
    """A coordinator with Kafka's default delay of three seconds."""
    return Scene(group_initial_rebalance_delay_ms=3_000)


@pytest.mark.fact("J-030")
def test_the_first_member_waits_for_the_delay(scene: Scene) -> None:
    asking = scene.join()
    scene.pass_time(2.999)
    assert asking.is_parked
    assert scene.state() == "PreparingRebalance"
    scene.pass_time(0.001)
    assert asking.reply.generation_id == 1


@pytest.mark.fact("J-030")
def test_the_delay_is_three_seconds_unless_it_is_set() -> None:
    assert Settings().group_initial_rebalance_delay_ms == 3_000


@pytest.mark.fact("J-030")
def test_a_group_that_became_empty_waits_again(scene: Scene) -> None:
    first = scene.join()
    scene.pass_time(3)
    scene.leave(first.reply.member_id)
    assert scene.state() == "Empty"
    second = scene.join()
    scene.pass_time(2.999)
    assert second.is_parked
    scene.pass_time(0.001)
    assert second.reply.generation_id == 3


@pytest.mark.fact("J-031")
def test_members_that_arrive_meanwhile_prolong_the_delay_once_more(scene: Scene) -> None:
    waiting = [scene.join()]
    scene.pass_time(1)
    waiting += [scene.join(), scene.join()]
    scene.pass_time(4.999)
    assert _parked(waiting) == 3
    scene.pass_time(0.001)
    assert {asking.reply.generation_id for asking in waiting} == {1}
    assert len({asking.reply.member_id for asking in waiting}) == 3


@pytest.mark.fact("J-031")
def test_each_period_with_newcomers_is_followed_by_another(scene: Scene) -> None:
    waiting = [scene.join()]
    for _ in range(5):
        scene.pass_time(2.5)
        waiting.append(scene.join())
    # Each joined in a different period, the last one after 12.5 seconds: in the fifth, so that there is a sixth.
    scene.pass_time(5.25)
    assert _parked(waiting) == 6
    scene.pass_time(0.25)
    assert {asking.reply.generation_id for asking in waiting} == {1}


@pytest.mark.fact("J-031")
def test_newcomers_prolong_the_delay_up_to_the_rebalance_timeout(scene: Scene) -> None:
    waiting = [scene.join(rebalance_timeout=8)]
    for _ in range(20):
        scene.pass_time(1)
        waiting.append(scene.join(rebalance_timeout=8))
        if not waiting[0].is_parked:
            break
    # As Kafka counts: of the 8 seconds 5 remain after the first period, 2 after the second, none after the third.
    assert scene.now - START == 8
    assert waiting[0].reply.generation_id == 1


@pytest.mark.fact("J-031")
def test_a_rebalance_timeout_below_the_delay_does_not_shorten_it(scene: Scene) -> None:
    waiting = [scene.join(rebalance_timeout=1)]
    scene.pass_time(1)
    waiting.append(scene.join(rebalance_timeout=1))
    scene.pass_time(1.999)
    assert _parked(waiting) == 2
    scene.pass_time(0.001)
    assert {asking.reply.generation_id for asking in waiting} == {1}


@pytest.mark.fact("J-032")
def test_without_a_delay_the_first_member_waits_for_nobody() -> None:
    scene = Scene(group_initial_rebalance_delay_ms=0)
    first, second = (scene.join(needs_known_id=True).reply.member_id for _ in range(2))
    assert scene.join(first).reply.generation_id == 1
    assert scene.join(second).is_parked


@pytest.mark.fact("J-033")
def test_a_group_with_members_does_not_wait(scene: Scene) -> None:
    first = scene.join()
    scene.pass_time(3)
    second = scene.join()
    again = scene.join(first.reply.member_id)
    assert again.reply.generation_id == second.reply.generation_id == 2


def test_the_delay_is_waited_for_although_all_that_are_known_have_joined(scene: Scene) -> None:
    waiting = [scene.join(), scene.join()]
    waiting[0] = scene.join(scene.describe().members[0].member_id)
    assert _parked(waiting) == 2
    scene.pass_time(6)
    assert {asking.reply.generation_id for asking in waiting} == {1}


def test_a_group_that_all_leave_during_the_delay_is_empty_after_it(scene: Scene) -> None:
    asking = scene.join()
    scene.leave(scene.describe().members[0].member_id)
    assert not asking.is_parked
    assert scene.state() == "PreparingRebalance"
    scene.pass_time(3)
    assert scene.state() == "Empty"
    assert scene.coordinator.groups["g"].generation == 1


@pytest.mark.fact("T-006")
def test_an_id_that_is_forgotten_ends_the_delay() -> None:
    """The removed member may have been the last that the others waited for, which ends the delay in Kafka, too."""
    scene = Scene(group_initial_rebalance_delay_ms=30_000)
    scene.join(needs_known_id=True, session_timeout=7)
    asking = scene.join()
    scene.pass_time(6.9)
    assert asking.is_parked
    scene.pass_time(0.1)
    assert asking.reply.generation_id == 1


def test_after_a_delay_that_ended_early_nothing_of_it_is_left() -> None:
    scene = Scene(group_initial_rebalance_delay_ms=30_000)
    scene.join(needs_known_id=True, session_timeout=7)
    asking = scene.join(session_timeout=600)
    scene.pass_time(7)
    member_id = asking.reply.member_id
    assert scene.sync(member_id, 1).reply.assignment == b""
    scene.pass_time(60)
    assert (scene.state(), scene.heartbeat(member_id, 1).error_code.value) == ("Stable", 0)


def _parked(askings: list[Asking[JoinReply]]) -> int:
    return len([asking for asking in askings if asking.is_parked])
