"""Memory is bounded by settings, not by clients."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from kcoord.errors import ErrorCode
from kcoord.offsets_log.encoding import key_values
from kcoord.tickets import Ticket
from tests.support.groups.commits import Line, commit_of
from tests.support.groups.scene import Scene, subscription

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


def test_members_of_groups_that_are_half_read_and_let_go_count_no_longer_however_often_that_happens() -> None:
    """A disk that fails in the middle of a partition causes this over and over."""
    earlier = Scene()
    earlier.stable_group(2)
    scene = Scene(kcoord_max_members=3)
    for _ in range(3):
        for record in earlier.records * 2:
            scene.coordinator.replay(record)
        assert not scene.join(group_id="other").reply.error_code, "it counts as one, and those as two"
        scene.take(scene.coordinator.unload(scene.at()))


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
    committed = scene.coordinator.groups["g"].offsets["t"][0]
    columns = [*request.topics[0], *request.offsets]
    assert not any(
        held is column for held in gc.get_referents(*committed) for column in columns if isinstance(column, tuple)
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


def test_a_static_member_that_comes_back_with_more_than_a_record_holds_begins_a_rebalance() -> None:
    scene = Scene(message_max_bytes=2000)
    scene.stable_group(1, static=True)
    records = len(scene.records)

    reply = scene.join("", "i0", protocols=(("range", bytes(2000)),)).reply

    assert (reply.generation_id, scene.state()) == (2, "CompletingRebalance")
    assert len(scene.records) == records


def test_what_a_plan_has_for_others_than_members_is_not_counted() -> None:
    scene = Scene()
    leader = scene.join().reply
    group, plan = scene.coordinator.groups["g"], {leader.member_id: bytes(300)}
    assert group.record_fits({**plan, "nobody": bytes(1000)}, group.record_size(plan))


@pytest.mark.parametrize("group_id", ["g", "größe" * 100])
def test_a_plan_is_measured_as_its_record_is_written(group_id: str) -> None:
    scene = Scene()
    first = scene.join(group_id=group_id, client_id="ü").reply
    scene.join("", "instance", group_id=group_id)
    leader = scene.join(first.member_id, group_id=group_id).reply
    group, plan = scene.coordinator.groups[group_id], {leader.member_id: bytes(300)}
    size = group.record_size(plan)
    assert group.record_fits(plan, size)
    assert not group.record_fits(plan, size - 1)

    scene.sync(leader.member_id, leader.generation_id, plan, group_id=group_id)

    ((key, value),) = key_values(scene.records[-1])
    assert value is not None
    assert size == len(key) + len(value)


@pytest.mark.parametrize("needs_known_id", [False, True])
@pytest.mark.parametrize(
    ("client_id", "instance_id"), [("c" * 32_731, None), ("c", "i" * 32_731), ("\ufffd" * 10_911, None)]
)
def test_a_name_of_which_no_member_id_can_be_made_is_refused_and_makes_no_group(
    scene: Scene, client_id: str, instance_id: str | None, needs_known_id: bool
) -> None:
    reply = scene.join("", instance_id, client_id=client_id, needs_known_id=needs_known_id).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.unknown_server_error, "")
    assert not scene.records
    assert not scene.list_groups().groups


@pytest.mark.parametrize(("client_id", "instance_id"), [("c" * 32_730, None), ("c" * 32_767, "i" * 32_730)])
def test_the_longest_names_make_a_member_of_which_a_record_can_be_written(
    scene: Scene, client_id: str, instance_id: str | None
) -> None:
    reply = scene.join("", instance_id, client_id=client_id).reply
    assert len(reply.member_id) == 32_767
    scene.sync(reply.member_id, 1, {}, instance_id=instance_id)
    ((_, value),) = key_values(scene.records[-1])
    assert value is not None


def test_a_client_id_that_no_record_can_hold_is_refused_of_members_that_have_their_id_too(scene: Scene) -> None:
    given = scene.join(needs_known_id=True).reply.member_id
    reply = scene.join(given, client_id="\ufffd" * 10_923).reply
    assert reply.error_code is ErrorCode.unknown_server_error


LARGE = (("range", bytes(100_000)),)


def test_a_client_that_holds_most_bytes_is_refused_and_a_newcomer_at_the_same_address_is_let_in() -> None:
    scene = Scene(kcoord_groups_max_bytes=1_000_000)
    joins = [scene.join(group_id=f"g{number}", client_id="greedy", protocols=LARGE).reply for number in range(20)]
    refused = [reply for reply in joins if reply.error_code is LIMIT]
    assert len(refused) == 12, "seven eighths are for everybody"
    assert not scene.join(group_id="other", client_id="modest").reply.error_code
    assert not scene.join(joins[0].member_id, group_id="g0", client_id="greedy", protocols=LARGE).reply.error_code


def test_bytes_of_a_member_that_leaves_or_expires_are_given_back() -> None:
    scene = Scene(kcoord_groups_max_bytes=220_000)
    first = scene.join(group_id="a", protocols=LARGE).reply
    assert scene.join(group_id="b", protocols=LARGE).reply.error_code is LIMIT
    scene.leave(first.member_id, group_id="a")
    assert not scene.join(group_id="b", protocols=LARGE).reply.error_code
    scene.pass_time(400.0)
    assert scene.coordinator.held_bytes < 10_000, "groups without members"
    scene.delete_groups("a", "b")
    assert scene.coordinator.held_bytes == 0


def test_a_member_that_joins_again_with_more_than_there_is_room_for_is_refused() -> None:
    scene = Scene(kcoord_groups_max_bytes=50_000)
    member_id = scene.join().reply.member_id
    assert scene.join(member_id, protocols=LARGE).reply.error_code is LIMIT
    assert not scene.join(member_id).reply.error_code


def test_bytes_of_members_are_counted_again_after_a_restart() -> None:
    scene = Scene()
    scene.stable_group(3)
    held = scene.coordinator.held_bytes
    scene.restart()
    assert scene.coordinator.held_bytes == held > 0


@pytest.mark.parametrize("client_id", ["same", "client-{}"])
def test_ten_thousand_honest_members_of_one_address_fit(client_id: str) -> None:
    scene = Scene()
    subscription = (("range", bytes(2_000)), ("cooperative-sticky", bytes(2_000)))
    for number in range(10_000):
        name = client_id.format(number)
        asking = scene.join(group_id=f"g{number // 4}", client_id=name, protocols=subscription)
        assert asking.is_parked or not asking.reply.error_code


# The largest holder is refused first.

Fill = Callable[[Scene, int, str, str], ErrorCode]


def make_group(scene: Scene, number: int, client_id: str, host: str) -> ErrorCode:
    return scene.join(group_id=f"g{client_id}{number}", client_id=client_id, host=host).reply.error_code


def make_group_by_commit(scene: Scene, number: int, client_id: str, host: str) -> ErrorCode:
    reply = scene.commit({("t", 0): 1}, group_id=f"c{client_id}{number}", client_id=client_id, host=host)
    return reply.topics[0].partitions[0].error_code


def join_one_group(scene: Scene, number: int, client_id: str, host: str) -> ErrorCode:
    asking = scene.join(group_id="crowd", client_id=client_id, host=host)
    return ErrorCode.none if asking.is_parked else asking.reply.error_code


def take_id(scene: Scene, number: int, client_id: str, host: str) -> ErrorCode:
    error = scene.join(group_id="ids", client_id=client_id, host=host, needs_known_id=True).reply.error_code
    return ErrorCode.none if error is ErrorCode.member_id_required else error


def join_as_static(scene: Scene, number: int, client_id: str, host: str) -> ErrorCode:
    asking = scene.join("", f"{client_id}{number}", group_id="static", client_id=client_id, host=host)
    return ErrorCode.none if asking.is_parked else asking.reply.error_code


WAYS = [
    pytest.param(make_group, {"kcoord_max_groups": 160}, id="groups by joins"),
    pytest.param(make_group_by_commit, {"kcoord_max_groups": 160}, id="groups by commits"),
    pytest.param(make_group, {"kcoord_max_members": 160}, id="members of many groups"),
    pytest.param(join_one_group, {"kcoord_max_members": 160}, id="members of one group"),
    pytest.param(take_id, {"kcoord_max_members": 160}, id="ids that are never used"),
    pytest.param(join_as_static, {"kcoord_max_members": 160}, id="static members"),
    pytest.param(make_group_by_commit, {"kcoord_groups_max_bytes": 400_000}, id="bytes of groups by commits"),
]


@pytest.mark.parametrize(("fill", "limit"), WAYS)
def test_whoever_has_filled_a_limit_is_refused_and_others_at_its_address_are_not(
    fill: Fill, limit: dict[str, Any]
) -> None:
    scene = Scene(**limit)
    assert [fill(scene, number, "greedy", "/10.0.0.1") for number in range(200)][-1] is LIMIT
    for number in range(3):
        assert fill(scene, number, "modest", "/10.0.0.1") is ErrorCode.none
    assert fill(scene, 200, "greedy", "/10.0.0.1") is LIMIT


@pytest.mark.parametrize(("fill", "limit"), WAYS)
def test_an_address_that_has_filled_a_limit_under_many_names_is_refused_and_other_addresses_are_not(
    fill: Fill, limit: dict[str, Any]
) -> None:
    scene = Scene(**limit)
    assert [fill(scene, 0, f"greedy{number}", "/10.0.0.1") for number in range(200)][-1] is LIMIT
    for number in range(3):
        assert fill(scene, number, "modest", "/10.0.0.2") is ErrorCode.none


def test_a_principal_is_the_same_whatever_its_address_and_client_id() -> None:
    scene = Scene(kcoord_max_groups=80)
    for number in range(100):
        error = scene.join(
            group_id=f"g{number}", client_id=f"c{number}", host=f"/10.0.0.{number}", principal="User:greedy"
        ).reply.error_code
    assert error is LIMIT
    assert not scene.join(group_id="other", client_id="c1", host="/10.0.0.1", principal="User:modest").reply.error_code


def test_what_a_restarted_coordinator_has_read_is_held_by_those_whose_members_it_has() -> None:
    scene = Scene(kcoord_max_groups=80)
    for number in range(70):
        scene.stable_group(1, group_id=f"g{number}", client_id="greedy")
    scene.restart()
    assert scene.join(group_id="one more", client_id="greedy").reply.error_code is LIMIT
    assert not scene.join(group_id="other", client_id="modest").reply.error_code


def test_groups_that_are_offsets_alone_are_nobodys_after_a_restart_and_leave_room_for_others() -> None:
    scene = Scene(kcoord_max_groups=800)
    for life in range(3):
        for number in range(800):
            make_group_by_commit(scene, life * 1000 + number, "greedy", "/10.0.0.1")
        for host in ("/10.0.0.1", "/10.0.0.2"):
            assert make_group_by_commit(scene, life, f"modest at {host}", host) is ErrorCode.none
        scene.restart()


def test_plans_and_offsets_count_as_bytes_of_their_group() -> None:
    scene = Scene(kcoord_groups_max_bytes=100_000)
    joined = scene.join().reply
    before = scene.coordinator.held_bytes
    assert scene.sync(joined.member_id, 1, {joined.member_id: bytes(200_000)}).reply.error_code is LIMIT
    assert not scene.sync(joined.member_id, 1, {joined.member_id: bytes(30_000)}).reply.error_code
    assert scene.coordinator.held_bytes == before + 30_000
    for number in range(30):
        reply = scene.commit({("t", 0): 5}, group_id=f"g{number}", metadata="m" * 4000)
    assert reply.topics[0].partitions[0].error_code is LIMIT
    assert 80_000 < scene.coordinator.held_bytes <= 100_000
    for group in scene.list_groups().groups:
        scene.leave(joined.member_id, group_id=group.group_id)
        scene.delete_groups(group.group_id)
    assert scene.coordinator.held_bytes == 0


def test_protocols_without_a_subscription_count_too() -> None:
    """Each takes some 160 bytes of memory: 20,000 of them are 3 MB, of which the wire has 140 kB."""
    scene = Scene(kcoord_groups_max_bytes=1_000_000)
    protocols = tuple((f"p{number}", b"") for number in range(20_000))
    assert scene.join(protocols=protocols).reply.error_code is LIMIT
    before = scene.coordinator.held_bytes
    scene.join(protocols=protocols[:1000])
    assert scene.coordinator.held_bytes - before > 160_000


def test_topics_of_a_subscription_count_as_they_lie_in_memory_once_they_are_read() -> None:
    """A name of five characters is seven bytes of a subscription, and 126 of the set that a group keeps."""
    scene = Scene(kcoord_groups_max_bytes=1_000_000)
    names = [f"{number:05}" for number in range(20_000)]
    assert scene.join(protocols=(("range", subscription(*names)),)).reply.error_code is LIMIT
    before = scene.coordinator.held_bytes
    scene.join(protocols=(("range", subscription(*names[:1000])),))
    assert scene.coordinator.held_bytes - before > 126_000


@pytest.mark.parametrize("claimed", [-1, 6, 2**31 - 1])
def test_a_subscription_that_cannot_hold_the_topics_that_it_claims_counts_by_its_bytes(claimed: int) -> None:
    held = []
    for count in (0, claimed):
        scene = Scene()
        scene.join(protocols=(("range", b"\0\1" + count.to_bytes(4, signed=True) + bytes(10)),))
        held.append(scene.coordinator.held_bytes)
    assert held[0] == held[1]


def test_metadata_counts_as_it_lies_in_memory_whatever_its_characters() -> None:
    held = []
    for metadata in ("m" * 1000, "\U0001f600" * 1000):
        scene = Scene()
        scene.commit({("t", 0): 5, ("t", 1): 5}, metadata=metadata)
        scene.commit({("t", 0): 6}, metadata=metadata)
        held.append(scene.coordinator.held_bytes)
    assert held[1] - held[0] == 2 * 3000


def test_metadata_that_is_committed_again_counts_once() -> None:
    scene = Scene()
    for metadata in ("m" * 100, "m" * 4000, "m" * 10):
        scene.commit({("t", 0): 5, ("t", 1): 5}, metadata=metadata)
    held = scene.coordinator.held_bytes
    other = Scene()
    other.commit({("t", 0): 5}, metadata="m" * 10)
    other.commit({("t", 1): 5}, metadata="m" * 10)
    assert other.coordinator.held_bytes == held


def test_whoever_commits_first_to_a_group_after_a_restart_holds_its_bytes_from_then_on() -> None:
    scene = Scene(kcoord_groups_max_bytes=100_000)
    for number in range(20):
        make_group_by_commit(scene, number, "greedy", "/10.0.0.1")
    scene.restart()
    replies = [
        scene.commit(
            {("t", partition): 5},
            group_id=f"cgreedy{number}",
            metadata="m" * 4000,
            client_id="greedy",
            host="/10.0.0.1",
        )
        for number in range(20)
        for partition in (0, 1)
    ]
    assert replies[-1].topics[0].partitions[0].error_code is LIMIT
    taken = [make_group_by_commit(scene, number, "modest", "/10.0.0.2") for number in range(2)]
    assert taken == [ErrorCode.none] * 2
