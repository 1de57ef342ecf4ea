"""The causes of rebalances, which metrics count by. The text next to a cause is for people."""

import pytest

from kcoord.groups.effects import Cause, EventType
from tests.support.groups.scene import ONE_PROTOCOL, Scene

NEWS = (("range", b"another subscription"),)


def causes(scene: Scene) -> list[Cause | None]:
    """Returns the causes of all rebalances since the group was made."""
    return [event.cause for event in scene.events if event.what is EventType.REBALANCING]


def test_only_rebalances_have_a_cause(scene: Scene) -> None:
    scene.stable_group(2)
    assert {event.what for event in scene.events if event.cause} == {EventType.REBALANCING}
    assert None not in causes(scene)


def test_a_group_begins_with_one_who_joined(scene: Scene) -> None:
    scene.join()
    assert causes(scene) == [Cause.JOINED]


def test_a_reason_that_sounds_like_another_cause_is_none(scene: Scene) -> None:
    scene.join(client_id="x left", reason="the session of me expired")
    assert causes(scene) == [Cause.JOINED]


@pytest.mark.parametrize(
    ("protocols", "cause"), [(NEWS, Cause.NEW_SUBSCRIPTION), (ONE_PROTOCOL, Cause.LEADER_REJOINED)]
)
def test_a_leader_that_joins_again_has_news_or_has_seen_some(
    scene: Scene, protocols: tuple[tuple[str, bytes], ...], cause: Cause
) -> None:
    leader, _ = scene.stable_group(2)
    scene.join(leader.member_id, protocols=protocols)
    assert causes(scene)[-1] is cause


def test_one_who_leaves(scene: Scene) -> None:
    _, follower = scene.stable_group(2)
    scene.leave(follower.member_id)
    assert causes(scene)[-1] is Cause.LEFT


def test_one_who_falls_silent(scene: Scene) -> None:
    scene.stable_group(1)
    scene.pass_time(10)
    assert causes(scene)[-1] is Cause.SESSION_EXPIRED


def test_a_static_member_that_comes_back_with_another_protocol_first(scene: Scene) -> None:
    scene.stable_group(1, static=True)
    scene.join("", "i0", protocols=(("sticky", b""), *ONE_PROTOCOL))
    assert causes(scene)[-1] is Cause.STATIC_RETURNED


def test_one_who_never_asks_for_its_assignment(scene: Scene) -> None:
    leader, silent = scene.completing_group(2)
    scene.sync(leader.member_id, 2, {})
    for _ in range(12):
        scene.heartbeat(leader.member_id, 2)
        scene.heartbeat(silent.member_id, 2)
        scene.pass_time(5)
    assert causes(scene)[-1] is Cause.NOT_SYNCED


def test_a_plan_that_cannot_be_kept() -> None:
    scene = Scene(message_max_bytes=1000)
    leader = scene.join().reply
    scene.sync(leader.member_id, leader.generation_id, {leader.member_id: bytes(1000)})
    assert causes(scene)[-1] is Cause.PLAN_TOO_LARGE


def test_a_group_that_is_too_large_after_a_restart() -> None:
    large = Scene()
    large.stable_group(3)
    small = Scene(group_max_size=2)
    small.records += large.records
    small.restart()
    assert causes(small) == [Cause.GROUP_TOO_LARGE]
