"""JoinGroup, refusals: of invalid requests, then for limits, then for protocols, then by fencing."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.replies import JoinReply
from tests.support.groups.scene import ONE_PROTOCOL, Scene


def group_ids(scene: Scene) -> list[str]:
    return [group.group_id for group in scene.list_groups().groups]


# The request by itself.


@pytest.mark.fact("J-001", "J-002", "J-003", "J-006")
@pytest.mark.parametrize("member_id", ["", "someone"])
@pytest.mark.parametrize(
    ("group_id", "session_timeout", "error"),
    [
        ("", 10.0, ErrorCode.invalid_group_id),
        ("", 0.0, ErrorCode.invalid_group_id),
        ("g", 5.999, ErrorCode.invalid_session_timeout),
        ("g", 1800.001, ErrorCode.invalid_session_timeout),
    ],
)
def test_a_request_that_is_wrong_by_itself_is_refused_and_makes_no_group(
    scene: Scene, member_id: str, group_id: str, session_timeout: float, error: ErrorCode
) -> None:
    reply = scene.join(member_id, group_id=group_id, session_timeout=session_timeout).reply
    assert (reply.error_code, reply.member_id) == (error, member_id)
    assert group_ids(scene) == []


@pytest.mark.fact("J-002", "J-003")
@pytest.mark.parametrize("session_timeout", [6.0, 1800.0])
def test_the_limits_of_a_session_timeout_are_within_what_is_allowed(scene: Scene, session_timeout: float) -> None:
    assert scene.join(session_timeout=session_timeout).reply.error_code is ErrorCode.none


@pytest.mark.fact("J-002", "J-003")
def test_the_limits_of_a_session_timeout_can_be_set() -> None:
    scene = Scene(group_min_session_timeout_ms=100, group_max_session_timeout_ms=200)
    timeouts = (0.099, 0.1, 0.2, 0.201)
    replies = [scene.join(group_id=f"g{timeout}", session_timeout=timeout).reply for timeout in timeouts]
    refused = ErrorCode.invalid_session_timeout
    assert [reply.error_code for reply in replies] == [refused, ErrorCode.none, ErrorCode.none, refused]


@pytest.mark.fact("J-005")
def test_a_group_of_another_node_is_not_coordinated_here() -> None:
    scene = Scene(owns=lambda group_id: group_id != "elsewhere")
    assert scene.join(group_id="elsewhere").reply.error_code is ErrorCode.not_coordinator
    assert scene.sync("m", 1, group_id="elsewhere").reply.error_code is ErrorCode.not_coordinator
    assert group_ids(scene) == []
    assert scene.join().reply.error_code is ErrorCode.none


# Room.


@pytest.mark.fact("J-051")
def test_a_full_group_takes_no_new_member_but_knows_its_own() -> None:
    scene = Scene(group_max_size=2)
    leader, follower = scene.stable_group(2)
    for instance_id in (None, "i"):
        reply = scene.join("", instance_id).reply
        assert (reply.error_code, reply.member_id) == (ErrorCode.group_max_size_reached, "")
    assert scene.join(follower.member_id).reply.generation_id == follower.generation
    assert scene.state() == "Stable"
    assert {member.member_id for member in scene.describe().members} == {leader.member_id, follower.member_id}


@pytest.mark.fact("J-051")
def test_a_full_group_that_waits_for_the_plan_takes_no_new_member() -> None:
    scene = Scene(group_max_size=1)
    (leader,) = scene.completing_group(1)
    assert scene.join().reply.error_code is ErrorCode.group_max_size_reached
    assert scene.join(leader.member_id).reply.generation_id == leader.generation
    assert scene.state() == "CompletingRebalance"


@pytest.mark.fact("J-051")
def test_a_group_that_is_not_full_takes_one_more() -> None:
    scene = Scene(group_max_size=2)
    scene.stable_group(1)
    assert scene.join().is_parked
    assert len(scene.describe().members) == 2


@pytest.mark.fact("J-051")
def test_an_empty_group_gives_out_more_ids_than_it_has_room_for() -> None:
    scene = Scene(group_max_size=1)
    ids = [scene.join(needs_known_id=True).reply.member_id for _ in range(3)]
    assert scene.join(ids[0]).reply.error_code is ErrorCode.none
    assert scene.join(ids[1]).reply.error_code is ErrorCode.group_max_size_reached


def test_while_members_join_those_that_wait_are_counted() -> None:
    scene = Scene(group_max_size=2)
    scene.stable_group(2)
    # Kafka counts who waits in the join phase: a third may come in before the two return, and one of them stays out.
    first, second = (member.member_id for member in scene.describe().members)
    scene.leave(second)
    third = scene.join()
    fourth = scene.join()
    assert [third.is_parked, fourth.is_parked] == [True, True]
    assert scene.join(first).reply == JoinReply(member_id="", error_code=ErrorCode.group_max_size_reached)
    assert scene.heartbeat(first, 2).error_code is ErrorCode.unknown_member_id


def test_whoever_waits_already_may_ask_again_although_the_group_is_full() -> None:
    scene = Scene(group_max_size=2)
    (leader,) = scene.stable_group(1)
    scene.join(needs_known_id=True)  # the join phase waits for this id
    waiting = [scene.join(), scene.join(leader.member_id)]
    assert [asking.is_parked for asking in waiting] == [True, True]
    assert scene.join(leader.member_id).is_parked


def test_a_given_id_that_found_no_room_is_forgotten() -> None:
    scene = Scene(group_max_size=2)
    (leader,) = scene.stable_group(1)
    too_late = scene.join(needs_known_id=True).reply.member_id
    waiting = [scene.join(), scene.join(leader.member_id)]
    assert scene.join(too_late).reply.error_code is ErrorCode.group_max_size_reached
    assert scene.leave(too_late).members[0].error_code is ErrorCode.unknown_member_id
    # It does not end the join phase that waited for it, in Kafka neither.
    assert [asking.is_parked for asking in waiting] == [True, True]
    scene.pass_time(60)
    assert [asking.reply.generation_id for asking in waiting] == [2, 2]


# Protocols.


@pytest.mark.fact("J-019", "J-020")
@pytest.mark.parametrize(("protocol_type", "protocols"), [("", ONE_PROTOCOL), ("consumer", ()), ("", ())])
def test_the_first_member_names_a_type_and_a_protocol(
    scene: Scene, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    reply = scene.join(protocol_type=protocol_type, protocols=protocols).reply
    assert reply.error_code is ErrorCode.inconsistent_group_protocol
    assert scene.describe().members == ()


@pytest.mark.fact("J-022")
def test_a_member_of_another_protocol_type_does_not_get_in(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    reply = scene.join(protocol_type="connect").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.inconsistent_group_protocol, "")
    for known_or_not in (leader.member_id, follower.member_id, "stranger"):
        reply = scene.join(known_or_not, protocol_type="connect").reply
        assert (reply.error_code, reply.member_id) == (ErrorCode.inconsistent_group_protocol, known_or_not)
    assert scene.state() == "Stable"


@pytest.mark.fact("J-023")
@pytest.mark.parametrize("protocols", [(), (("sticky", b""),), (("sticky", b""), ("roundrobin", b""))])
def test_a_member_that_shares_no_protocol_with_all_does_not_get_in(
    scene: Scene, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    leader = scene.join(protocols=(("range", b""), ("sticky", b""))).reply.member_id
    joining_second = scene.join(protocols=(("range", b""), ("roundrobin", b"")))
    generation = scene.join(leader, protocols=(("range", b""), ("sticky", b""))).reply.generation_id
    scene.sync(leader, generation)
    assert scene.join(protocols=protocols).reply.error_code is ErrorCode.inconsistent_group_protocol
    assert scene.state() == "Stable"
    assert scene.heartbeat(leader, generation).error_code is ErrorCode.none
    assert scene.heartbeat(joining_second.reply.member_id, generation).error_code is ErrorCode.none


@pytest.mark.fact("J-023")
def test_a_member_cannot_give_up_the_last_protocol_that_all_share(scene: Scene) -> None:
    _, follower = scene.stable_group(2)
    reply = scene.join(follower.member_id, protocols=(("sticky", b""),)).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.inconsistent_group_protocol, follower.member_id)
    assert scene.state() == "Stable"


@pytest.mark.fact("J-025")
def test_an_empty_group_takes_any_type_whatever_it_was_before(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    reply = scene.join(protocol_type="connect", protocols=(("compatible", b""),)).reply
    assert reply.error_code is ErrorCode.none
    assert (reply.protocol_type, reply.protocol_name) == ("connect", "compatible")
    assert scene.describe().protocol_type == "connect"


# Fencing.


@pytest.mark.fact("J-009")
def test_nobody_is_a_member_of_a_group_that_is_not_there(scene: Scene) -> None:
    reply = scene.join("someone").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.unknown_member_id, "someone")
    assert group_ids(scene) == []


@pytest.mark.fact("J-026")
def test_an_id_that_was_not_given_out_is_unknown(scene: Scene) -> None:
    scene.stable_group(1)
    reply = scene.join("someone").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.unknown_member_id, "someone")
    assert scene.state() == "Stable"


@pytest.mark.fact("J-027")
def test_a_former_member_is_unknown_to_the_group_it_left_empty(scene: Scene) -> None:
    (member,) = scene.stable_group(1)
    scene.leave(member.member_id)
    reply = scene.join(member.member_id).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.unknown_member_id, member.member_id)
    assert scene.state() == "Empty"


@pytest.mark.fact("J-055")
@pytest.mark.parametrize("is_known", [False, True])
def test_a_group_that_is_let_go_of_sends_everyone_to_another_coordinator(scene: Scene, is_known: bool) -> None:
    (member,) = scene.stable_group(1)
    scene.kill_group()
    member_id = member.member_id if is_known else ""
    reply = scene.join(member_id).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.coordinator_not_available, member_id)


@pytest.mark.fact("J-008")
def test_a_refusal_says_nothing_of_the_group() -> None:
    scene = Scene(group_max_size=2, owns=lambda group_id: group_id != "elsewhere")
    (leader,) = scene.stable_group(1)
    scene.stable_group(2, group_id="full")
    refusals = [
        scene.join(group_id=""),
        scene.join(session_timeout=0),
        scene.join(group_id="elsewhere"),
        scene.join("someone", group_id="unknown"),
        scene.join(group_id="full"),
        scene.join(protocol_type="connect"),
        scene.join("someone"),
        scene.join(leader.member_id, "i"),
        scene.join(needs_known_id=True),
    ]
    assert len({asking.reply.error_code for asking in refusals}) == 7
    for asking in refusals:
        reply = asking.reply
        assert reply.error_code is not ErrorCode.none
        assert (reply.generation_id, reply.leader, reply.members) == (-1, "", ())
        assert (reply.protocol_type, reply.protocol_name, reply.skip_assignment) == (None, None, False)
