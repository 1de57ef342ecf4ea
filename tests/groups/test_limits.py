"""Memory is bounded by settings, not by clients."""

import gc

import pytest

from kcoord.errors import ErrorCode
from kcoord.tickets import Ticket
from tests.groups.commits import Line, commit_of
from tests.groups.scene import Scene

LIMIT = ErrorCode.policy_violation


def test_a_group_too_many_is_not_made_by_a_join() -> None:
    scene = Scene(kcoord_max_groups=2)
    assert not scene.join(group_id="a").reply.error_code
    assert not scene.join(group_id="b").reply.error_code
    assert scene.join(group_id="c").reply.error_code is LIMIT
    assert {group.group_id for group in scene.list_groups().groups} == {"a", "b"}


def test_a_group_too_many_is_not_made_by_a_commit() -> None:
    scene = Scene(kcoord_max_groups=1)
    scene.join(group_id="a")
    line = scene.commit({("t", 0): 5}, group_id="b").topics[0].partitions[0]
    assert line.error_code is LIMIT
    assert len(scene.list_groups().groups) == 1


def test_a_group_that_is_deleted_makes_room_for_another() -> None:
    scene = Scene(kcoord_max_groups=1)
    scene.commit({("t", 0): 5}, group_id="a")
    scene.delete_groups("a")
    assert not scene.join(group_id="b").reply.error_code


def test_a_member_too_many_is_not_let_in_whatever_its_group() -> None:
    scene = Scene(kcoord_max_members=2)
    scene.join(group_id="a")
    scene.join(group_id="b", needs_known_id=True)
    assert scene.join(group_id="a").reply.error_code is LIMIT
    assert scene.join(group_id="c").reply.error_code is LIMIT


def test_ids_that_are_forgotten_and_members_that_go_make_room_for_others() -> None:
    scene = Scene(kcoord_max_members=2)
    member_id = scene.join(group_id="a").reply.member_id
    scene.join(group_id="b", needs_known_id=True)
    scene.leave(member_id, group_id="a")
    scene.pass_time(11.0)
    assert not scene.join(group_id="c").reply.error_code
    assert not scene.join(group_id="d").reply.error_code
    assert scene.join(group_id="e").reply.error_code is LIMIT


def test_a_member_that_is_known_already_is_never_one_too_many() -> None:
    scene = Scene(kcoord_max_members=1)
    member_id = scene.join().reply.member_id
    assert not scene.join(member_id).reply.error_code


def test_the_members_of_a_restarted_coordinator_count() -> None:
    scene = Scene(kcoord_max_members=2)
    scene.stable_group(2)
    scene.restart()
    assert scene.join(group_id="other").reply.error_code is LIMIT


def test_a_subscription_that_is_too_large_is_refused() -> None:
    scene = Scene(kcoord_member_max_bytes=100 + len("clientconsumerrangesticky"))
    assert scene.join(protocols=(("range", bytes(60)), ("sticky", bytes(41)))).reply.error_code is LIMIT
    assert not scene.join(protocols=(("range", bytes(60)), ("sticky", bytes(40)))).reply.error_code


def test_a_plan_with_an_assignment_that_is_too_large_is_refused_and_another_may_be_made() -> None:
    scene = Scene(kcoord_member_max_bytes=100)
    joined = scene.join().reply
    assert scene.sync(joined.member_id, 1, {joined.member_id: bytes(101)}).reply.error_code is LIMIT
    assert scene.sync(joined.member_id, 1, {joined.member_id: bytes(100)}).reply.assignment == bytes(100)


def test_a_static_member_that_comes_back_is_never_one_too_many() -> None:
    scene = Scene(kcoord_max_members=1)
    scene.stable_group(1, static=True)
    assert not scene.join("", "i0").reply.error_code


def test_a_join_that_is_refused_for_want_of_room_makes_no_group() -> None:
    scene = Scene(kcoord_max_members=1)
    scene.join(group_id="a")
    records = len(scene.records)
    assert scene.join(group_id="b").reply.error_code is LIMIT
    assert {group.group_id for group in scene.list_groups().groups} == {"a"}
    assert len(scene.records) == records


def test_names_count_as_subscriptions_do() -> None:
    scene = Scene(kcoord_member_max_bytes=200)
    assert scene.join(protocols=(("n" * 201, b""),)).reply.error_code is LIMIT
    assert scene.join("", "i" * 201).reply.error_code is LIMIT
    assert scene.join(client_id="c" * 201).reply.error_code is LIMIT


def test_an_unknown_member_is_told_so_whatever_it_plans() -> None:
    scene = Scene(kcoord_member_max_bytes=100)
    generation = scene.join().reply.generation_id
    reply = scene.sync("somebody else", generation, {"x": bytes(101)}).reply
    assert reply.error_code is ErrorCode.unknown_member_id


def test_of_a_commit_only_the_offsets_that_count_are_held() -> None:
    scene = Scene()
    request = commit_of([("t", [*[Line(0, 1)] * 1000, Line(0, 7)])])
    scene.take(scene.coordinator.commit(request, Ticket(1000), scene.at()))
    assert scene.offset().committed_offset == 7
    kept = scene.coordinator.groups["g"].offsets["t"][0]
    columns = [*request.topics[0], *request.offsets]
    assert not any(
        held is column for held in gc.get_referents(*kept) for column in columns if isinstance(column, tuple)
    )


@pytest.mark.fact("P-043")
def test_a_plan_that_is_too_large_to_be_kept_is_handed_out_to_nobody_and_all_join_again() -> None:
    scene = Scene(message_max_bytes=2000)
    first = scene.join().reply
    follower = scene.join()
    leader = scene.join(first.member_id)
    generation, records = leader.reply.generation_id, len(scene.records)
    waiting = scene.sync(follower.reply.member_id, generation)
    plan = {leader.reply.member_id: bytes(1000), follower.reply.member_id: bytes(1000)}
    planned = scene.sync(leader.reply.member_id, generation, plan)
    assert [each.reply.error_code for each in (planned, waiting)] == [ErrorCode.unknown_server_error] * 2
    assert scene.state() == "PreparingRebalance"
    assert len(scene.records) == records
    for member in (leader, follower):
        scene.join(member.reply.member_id)
    assert scene.state() == "CompletingRebalance"
    smaller = scene.sync(leader.reply.member_id, generation + 1, {leader.reply.member_id: bytes(900)})
    assert smaller.reply.assignment == bytes(900)
