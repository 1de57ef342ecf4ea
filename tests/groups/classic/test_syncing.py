"""SyncGroup: the leader sends the plan, every member gets its assignment."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.records import GroupStored
from kcoord.groups.replies import SyncReply
from tests.support.groups.scene import Scene

# Who may.


@pytest.mark.fact("S-001", "S-002", "S-004", "S-005", "S-019")
@pytest.mark.parametrize(
    ("group_id", "member", "generation", "error"),
    [
        ("", "leader", 2, ErrorCode.invalid_group_id),
        ("unknown", "leader", 2, ErrorCode.unknown_member_id),
        ("empty", "leader", 2, ErrorCode.unknown_member_id),
        ("g", "nobody", 2, ErrorCode.unknown_member_id),
        ("g", "nobody", 99, ErrorCode.unknown_member_id),
        ("g", "", 2, ErrorCode.unknown_member_id),
        ("g", "leader", 1, ErrorCode.illegal_generation),
        ("g", "leader", 3, ErrorCode.illegal_generation),
        ("g", "leader", -1, ErrorCode.illegal_generation),
    ],
)
@pytest.mark.parametrize("is_stable", [False, True])
def test_whoever_is_no_member_of_this_generation_gets_nothing(
    scene: Scene, group_id: str, member: str, generation: int, error: ErrorCode, is_stable: bool
) -> None:
    leader, _ = scene.stable_group(2) if is_stable else scene.completing_group(2)
    scene.join(group_id="empty", needs_known_id=True)
    before = scene.state()
    member_id = leader.member_id if member == "leader" else member
    assert scene.sync(member_id, generation, {}, group_id=group_id).reply == SyncReply(error_code=error)
    assert scene.state() == before


@pytest.mark.fact("S-027", "S-028", "S-006")
@pytest.mark.parametrize(
    ("member", "instance_id", "error"),
    [
        ("i1", "i0", ErrorCode.fenced_instance_id),
        ("nobody", "i0", ErrorCode.fenced_instance_id),
        ("i0", "unknown", ErrorCode.unknown_member_id),
        ("nobody", "unknown", ErrorCode.unknown_member_id),
    ],
)
@pytest.mark.parametrize("generation", [2, 99])
def test_the_instance_is_looked_at_before_the_generation(
    scene: Scene, member: str, instance_id: str, error: ErrorCode, generation: int
) -> None:
    members = {each.instance_id: each.member_id for each in scene.stable_group(2, static=True)}
    reply = scene.sync(members.get(member, member), generation, instance_id=instance_id).reply
    assert reply == SyncReply(error_code=error)


@pytest.mark.fact("S-008", "S-009", "S-019", "S-006")
@pytest.mark.parametrize(
    "protocols", [("connect", "range"), ("consumer", "sticky"), ("connect", None), (None, "sticky")]
)
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_whoever_means_another_protocol_is_refused_whatever_the_state(
    scene: Scene, protocols: tuple[str | None, str | None], state: str
) -> None:
    leader, _ = scene.completing_group(2) if state == "CompletingRebalance" else scene.stable_group(2)
    if state == "PreparingRebalance":
        scene.join()
    protocol_type, protocol = protocols
    reply = scene.sync(leader.member_id, 2, protocol_type=protocol_type, protocol=protocol).reply
    assert reply == SyncReply(error_code=ErrorCode.inconsistent_group_protocol)
    assert scene.state() == state
    wrong_generation = scene.sync(leader.member_id, 99, protocol_type=protocol_type, protocol=protocol).reply
    assert wrong_generation.error_code is ErrorCode.illegal_generation


@pytest.mark.fact("S-010", "S-018")
@pytest.mark.parametrize("protocols", [("consumer", "range"), (None, None), ("consumer", None), (None, "range")])
@pytest.mark.parametrize("is_stable", [False, True])
def test_whoever_means_the_same_protocol_or_does_not_say_is_let_through(
    scene: Scene, protocols: tuple[str | None, str | None], is_stable: bool
) -> None:
    (leader,) = scene.stable_group(1) if is_stable else scene.completing_group(1)
    protocol_type, protocol = protocols
    plan = {leader.member_id: b"assignment of 0"}
    reply = scene.sync(leader.member_id, 1, plan, protocol_type=protocol_type, protocol=protocol).reply
    assert reply == SyncReply(protocol_type="consumer", protocol_name="range", assignment=b"assignment of 0")


@pytest.mark.fact("S-029", "S-006")
@pytest.mark.parametrize("is_known", [True, False])
def test_a_group_that_is_let_go_of_sends_everyone_to_another_coordinator(scene: Scene, is_known: bool) -> None:
    (member,) = scene.stable_group(1)
    scene.kill_group()
    reply = scene.sync(member.member_id if is_known else "nobody", 1).reply
    assert reply == SyncReply(error_code=ErrorCode.coordinator_not_available)


# The plan.


@pytest.mark.fact("S-011")
def test_whoever_syncs_while_others_join_is_to_join_again(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.join()
    for member in (leader, follower):
        assert scene.sync(member.member_id, 2).reply == SyncReply(error_code=ErrorCode.rebalance_in_progress)


@pytest.mark.fact("S-012")
def test_a_follower_that_syncs_first_waits_for_the_leader(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    asking = scene.sync(follower.member_id, 2)
    assert asking.is_parked
    scene.sync(leader.member_id, 2, {follower.member_id: b"all of it"})
    assert asking.reply.error_code is ErrorCode.none
    assert asking.reply.assignment == b"all of it"


@pytest.mark.fact("S-013", "T-104")
def test_the_plan_is_recorded_before_anyone_is_told_of_it(scene: Scene) -> None:
    leader, first, second = scene.completing_group(3)
    waiting = scene.sync(first.member_id, 2)
    records = list(scene.records)
    plan = {leader.member_id: b"a", first.member_id: b"b", second.member_id: b"c"}
    asking = scene.sync(leader.member_id, 2, plan)
    effects = scene.effects[-1]
    assert scene.state() == "Stable"
    assert {ticket for ticket, _ in effects.replies} == {asking.ticket, waiting.ticket}
    (stored,) = effects.records
    assert isinstance(stored, GroupStored)
    assert {member.member_id: member.assignment for member in stored.members} == plan
    assert (stored.generation, stored.protocol, stored.leader_id) == (2, "range", leader.member_id)
    # Without that record the group is not stable: a replay of the journal finds it without members.
    scene.records = records
    scene.restart()
    assert scene.state() == "Empty"


def test_the_record_says_since_when_all_had_joined_not_when_the_plan_came(scene: Scene) -> None:
    (leader,) = scene.completing_group(1)
    joined_at = scene.at().wall_ms
    scene.pass_time(2)
    scene.sync(leader.member_id, 1, {leader.member_id: b"mine"})
    stored = scene.records[-1]
    assert isinstance(stored, GroupStored)
    assert stored.since_ms == joined_at


@pytest.mark.fact("S-012", "S-013")
def test_a_plan_of_a_follower_does_not_count(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    asking = scene.sync(follower.member_id, 2, {leader.member_id: b"usurped", follower.member_id: b"usurped"})
    assert asking.is_parked
    assert scene.state() == "CompletingRebalance"
    assert scene.sync(leader.member_id, 2, {leader.member_id: b"mine"}).reply.assignment == b"mine"
    assert asking.reply.assignment == b""


@pytest.mark.fact("S-014")
def test_members_that_the_plan_forgot_get_nothing(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    waiting = scene.sync(follower.member_id, 2)
    assert scene.sync(leader.member_id, 2, {leader.member_id: b"all"}).reply.assignment == b"all"
    assert (waiting.reply.error_code, waiting.reply.assignment) == (ErrorCode.none, b"")


@pytest.mark.fact("S-015")
def test_assignments_of_strangers_are_ignored(scene: Scene) -> None:
    (leader,) = scene.completing_group(1)
    reply = scene.sync(leader.member_id, 1, {leader.member_id: b"mine", "stranger": b"lost"}).reply
    assert (reply.error_code, reply.assignment) == (ErrorCode.none, b"mine")
    stored = scene.records[-1]
    assert isinstance(stored, GroupStored)
    assert [member.member_id for member in stored.members] == [leader.member_id]


@pytest.mark.fact("S-034")
def test_an_empty_plan_is_a_plan(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    waiting = scene.sync(follower.member_id, 2)
    replies = [scene.sync(leader.member_id, 2, {}).reply, waiting.reply]
    assert {(reply.error_code, reply.assignment) for reply in replies} == {(ErrorCode.none, b"")}
    assert scene.state() == "Stable"


@pytest.mark.fact("S-017")
def test_a_stable_group_tells_everyone_its_assignment_and_takes_no_other_plan(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    records = list(scene.records)
    plan = {leader.member_id: b"other", follower.member_id: b"other"}
    for _ in range(2):
        assert scene.sync(leader.member_id, 2, plan).reply.assignment == b"assignment of 0"
        assert scene.sync(follower.member_id, 2).reply.assignment == b"assignment of 1"
    assert scene.records == records


@pytest.mark.fact("T-102")
def test_a_sync_is_no_new_generation(scene: Scene) -> None:
    (leader,) = scene.stable_group(1)
    scene.sync(leader.member_id, 1)
    scene.heartbeat(leader.member_id, 1)
    scene.commit({("t", 0): 1}, member_id=leader.member_id, generation=1)
    scene.join()
    assert scene.coordinator.groups["g"].generation == 1


def test_the_assignment_of_a_plan_that_came_to_nothing_is_forgotten(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    scene.join(leader.member_id)
    scene.join(follower.member_id)
    waiting = scene.sync(follower.member_id, 3)
    scene.join(follower.member_id, protocols=(("range", b"new"),))
    assert waiting.reply == SyncReply(error_code=ErrorCode.rebalance_in_progress)
    assert {member.assignment for member in scene.coordinator.groups["g"].members.values()} == {b""}


# Requests that cross each other. Kafka never answers the earlier request, nor the one of a member that is gone.


def test_the_earlier_sync_of_a_member_is_answered_when_it_asks_again(scene: Scene) -> None:
    leader, follower = scene.completing_group(2)
    earlier = scene.sync(follower.member_id, 2)
    later = scene.sync(follower.member_id, 2)
    assert earlier.reply == SyncReply(error_code=ErrorCode.rebalance_in_progress)
    assert later.is_parked
    scene.sync(leader.member_id, 2, {follower.member_id: b"its own"})
    assert later.reply.assignment == b"its own"


def test_the_sync_of_a_member_that_leaves_is_answered(scene: Scene) -> None:
    _, first, second = scene.completing_group(3)
    gone, sent_back = scene.sync(first.member_id, 2), scene.sync(second.member_id, 2)
    scene.leave(first.member_id)
    assert gone.reply == SyncReply(error_code=ErrorCode.unknown_member_id)
    assert sent_back.reply == SyncReply(error_code=ErrorCode.rebalance_in_progress)
