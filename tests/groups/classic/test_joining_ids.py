"""JoinGroup, member ids: assigned at once, or issued first and used in the next request (KIP-394)."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.records import GroupStored
from tests.support.groups.scene import Scene


@pytest.mark.fact("J-010")
def test_a_new_member_is_given_an_id_and_the_group_is_there_from_then_on(scene: Scene) -> None:
    reply = scene.join(needs_known_id=True).reply
    assert reply.error_code is ErrorCode.member_id_required
    assert reply.member_id
    (listed,) = scene.list_groups().groups
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")
    assert scene.describe().members == ()
    assert scene.records == [
        GroupStored(
            group_id="g",
            generation=0,
            protocol_type=None,
            protocol=None,
            leader_id=None,
            since_ms=scene.at().wall_ms,
        )
    ]


@pytest.mark.fact("J-010")
def test_an_id_that_is_given_out_does_not_disturb_a_group(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    records = list(scene.records)
    assert scene.join(needs_known_id=True).reply.error_code is ErrorCode.member_id_required
    assert scene.state() == "Stable"
    assert scene.heartbeat(leader.member_id, leader.generation).error_code is ErrorCode.none
    assert scene.records == records


@pytest.mark.fact("J-011", "J-101")
@pytest.mark.parametrize(
    ("client_id", "instance_id", "start"),
    [("my-client", None, "my-client-"), ("", None, "-"), ("my-client", "one", "one-"), ("", "one", "one-")],
)
@pytest.mark.parametrize("needs_known_id", [False, True])
def test_an_id_begins_with_the_name_of_the_instance_or_the_client(
    scene: Scene, client_id: str, instance_id: str | None, start: str, needs_known_id: bool
) -> None:
    reply = scene.join("", instance_id, client_id=client_id, needs_known_id=needs_known_id).reply
    assert reply.member_id.startswith(start)
    assert len(reply.member_id) == len(start) + 36


@pytest.mark.fact("J-012")
def test_a_client_that_does_not_know_of_given_ids_is_let_in_at_once(scene: Scene) -> None:
    reply = scene.join(needs_known_id=False).reply
    assert (reply.error_code, reply.generation_id) == (ErrorCode.none, 1)
    assert [member.member_id for member in scene.describe().members] == [reply.member_id]


@pytest.mark.fact("J-013")
def test_a_static_member_is_let_in_at_once(scene: Scene) -> None:
    reply = scene.join("", "i", needs_known_id=True).reply
    assert (reply.error_code, reply.generation_id) == (ErrorCode.none, 1)
    assert [member.group_instance_id for member in scene.describe().members] == ["i"]


@pytest.mark.fact("J-015", "T-107")
def test_whoever_uses_a_given_id_is_a_member(scene: Scene) -> None:
    member_id = scene.join(needs_known_id=True).reply.member_id
    reply = scene.join(member_id, needs_known_id=True).reply
    assert (reply.error_code, reply.member_id, reply.generation_id) == (ErrorCode.none, member_id, 1)
    # It is not given out any more: that it was not used in time would otherwise take it away again.
    for _ in range(4):
        scene.pass_time(5)
        assert scene.heartbeat(member_id, 1).error_code is ErrorCode.none


@pytest.mark.fact("J-017", "T-005", "T-107")
def test_an_id_that_is_not_used_within_its_session_timeout_is_forgotten(scene: Scene) -> None:
    quick, slow = (scene.join(needs_known_id=True, session_timeout=seconds).reply.member_id for seconds in (7, 20))
    scene.pass_time(7)
    assert scene.join(quick).reply.error_code is ErrorCode.unknown_member_id
    scene.pass_time(12.9)
    assert scene.join(slow).reply.error_code is ErrorCode.none


@pytest.mark.fact("J-017", "T-005")
def test_an_id_can_be_used_until_just_before_it_is_forgotten(scene: Scene) -> None:
    member_id = scene.join(needs_known_id=True, session_timeout=7).reply.member_id
    scene.pass_time(6.999)
    assert scene.join(member_id).reply.error_code is ErrorCode.none


@pytest.mark.fact("T-107")
def test_an_id_that_is_given_out_is_not_yet_a_member(scene: Scene) -> None:
    scene.stable_group(1)
    member_id = scene.join(needs_known_id=True).reply.member_id
    assert len(scene.describe().members) == 1
    assert scene.heartbeat(member_id, 1).error_code is ErrorCode.unknown_member_id
    assert scene.sync(member_id, 1).reply.error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("T-107")
def test_a_member_that_left_is_unknown_and_its_id_is_not_given_out_either(scene: Scene) -> None:
    member_id = scene.join(needs_known_id=True).reply.member_id
    scene.join(member_id)
    scene.leave(member_id)
    assert scene.join(member_id).reply.error_code is ErrorCode.unknown_member_id


@pytest.mark.fact("J-033", "T-006")
def test_a_join_phase_waits_for_ids_that_are_given_out(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    given = scene.join(needs_known_id=True).reply.member_id
    waiting = scene.join(leader.member_id)
    assert waiting.is_parked
    joined = scene.join(given)
    assert waiting.reply.generation_id == joined.reply.generation_id == 2


@pytest.mark.fact("T-006")
def test_a_join_phase_ends_when_the_id_that_it_waited_for_is_forgotten(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    scene.join(needs_known_id=True, session_timeout=7)
    waiting = scene.join(leader.member_id)
    scene.pass_time(6.9)
    assert waiting.is_parked
    scene.pass_time(0.1)
    assert waiting.reply.generation_id == 2


@pytest.mark.fact("T-006")
def test_a_join_phase_ends_when_the_id_that_it_waited_for_is_given_back(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    given = scene.join(needs_known_id=True).reply.member_id
    waiting = scene.join(leader.member_id)
    scene.leave(given)
    assert waiting.reply.generation_id == 2


def test_a_join_phase_that_runs_out_of_time_does_not_take_away_ids_that_are_given_out(scene: Scene) -> None:
    (leader,) = scene.stable_group(1, rebalance_timeout=5.0)
    given = scene.join(needs_known_id=True).reply.member_id
    waiting = scene.join(leader.member_id, rebalance_timeout=5.0)
    scene.pass_time(5)
    assert waiting.reply.generation_id == 2
    assert scene.join(given).is_parked


def test_a_given_id_is_for_dynamic_members_only(scene: Scene) -> None:
    given = scene.join(needs_known_id=True).reply.member_id
    assert scene.join(given, "i").reply.error_code is ErrorCode.unknown_server_error
    assert scene.join(given).reply.error_code is ErrorCode.none


def test_a_group_that_is_deleted_forgets_the_ids_that_it_gave_out(scene: Scene) -> None:
    given = scene.join(needs_known_id=True).reply.member_id
    scene.delete_groups("g")
    scene.join(needs_known_id=True)
    assert scene.join(given).reply.error_code is ErrorCode.unknown_member_id
