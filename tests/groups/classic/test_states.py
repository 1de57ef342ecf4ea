"""The five states: the transitions, and the behaviour in each."""

from collections.abc import Callable

import pytest

from kcoord.groups.classic.state import State
from tests.support.groups.scene import Scene

LEGAL = {
    (State.EMPTY, State.PREPARING_REBALANCE),
    (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE),
    (State.PREPARING_REBALANCE, State.EMPTY),
    (State.COMPLETING_REBALANCE, State.STABLE),
    (State.COMPLETING_REBALANCE, State.PREPARING_REBALANCE),
    (State.STABLE, State.PREPARING_REBALANCE),
    *((state, State.DEAD) for state in State),
}


# Moves.


@pytest.mark.fact("T-101")
@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_a_group_moves_as_the_table_says_and_not_otherwise(scene: Scene, before: State, after: State) -> None:
    scene.join(needs_known_id=True)
    group = scene.coordinator.groups["g"]
    group.state, group.since_ms = before, 0
    if (before, after) in LEGAL:
        group.move_to(after, wall_ms=77)
        assert (group.state, group.since_ms) == (after, 77)
        return
    with pytest.raises(AssertionError, match="cannot follow"):
        group.move_to(after, wall_ms=77)
    assert (group.state, group.since_ms) == (before, 0)


@pytest.mark.fact("T-101")
def test_a_group_comes_through_its_states_in_order(scene: Scene) -> None:
    leader = scene.join(needs_known_id=True).reply.member_id
    states = [scene.state()]
    scene.join(leader)
    states.append(scene.state())
    scene.sync(leader, 1)
    states.append(scene.state())
    second = scene.join()
    states.append(scene.state())
    scene.join(leader)
    states.append(scene.state())
    scene.sync(leader, 2)
    states.append(scene.state())
    scene.leave(second.reply.member_id)
    states.append(scene.state())
    scene.leave(leader)
    states.append(scene.state())
    scene.delete_groups("g")
    states.append(scene.state())
    assert states == [
        "Empty",
        "CompletingRebalance",
        "Stable",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "PreparingRebalance",
        "Empty",
        "Dead",
    ]


@pytest.mark.fact("T-106")
@pytest.mark.parametrize("way", ["leave", "expire"])
@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE])
def test_a_group_that_loses_its_last_member_is_empty_and_is_not_deleted(scene: Scene, way: str, state: State) -> None:
    """In the join phase the last member has not joined again, while the group waits for an issued member id."""
    (member,) = scene.completing_group(1) if state is State.COMPLETING_REBALANCE else scene.stable_group(1)
    if state is State.PREPARING_REBALANCE:
        second = scene.join()
        scene.leave(next(each.member_id for each in scene.describe().members if each.member_id != member.member_id))
        assert not second.is_parked
    assert scene.state() == state
    if way == "leave":
        scene.leave(member.member_id)
    else:
        scene.pass_time(10)
    assert scene.state() == "Empty"
    assert [group.group_id for group in scene.list_groups().groups] == ["g"]


# What holds.


@pytest.mark.fact("T-102")
def test_only_the_end_of_a_join_phase_changes_the_generation(scene: Scene) -> None:
    leader, follower = scene.stable_group(2)
    group = scene.coordinator.groups["g"]
    assert group.generation == 2
    scene.heartbeat(leader.member_id, 2)
    scene.commit({("t", 0): 1}, member_id=leader.member_id, generation=2)
    scene.sync(leader.member_id, 2)
    scene.join(follower.member_id)
    scene.join(needs_known_id=True)
    scene.leave(follower.member_id)
    scene.heartbeat(leader.member_id, 2)
    assert (group.state, group.generation) == (State.PREPARING_REBALANCE, 2)
    scene.pass_time(10)  # the id that was given out is forgotten, the leader expires
    assert (group.state, group.generation) == (State.EMPTY, 3)


def _all_stay(scene: Scene) -> None:
    scene.stable_group(3)


def _leader_leaves(scene: Scene) -> None:
    leader, *others = scene.stable_group(3)
    scene.leave(leader.member_id)
    askings = [scene.join(other.member_id) for other in others]
    for asking in askings:
        scene.sync(asking.reply.member_id, asking.reply.generation_id)


def _leader_comes_back(scene: Scene) -> None:
    scene.stable_group(3, static=True)
    scene.join("", "i0")


def _leader_expires(scene: Scene) -> None:
    leader, *others = scene.stable_group(3, session_timeout=10)
    scene.pass_time(5)
    for other in others:
        scene.heartbeat(other.member_id, 2)
    scene.pass_time(5)
    assert leader.member_id not in scene.coordinator.groups["g"].members
    askings = [scene.join(other.member_id) for other in others]
    for asking in askings:
        scene.sync(asking.reply.member_id, asking.reply.generation_id)


def _another_joins_with_fewer_protocols(scene: Scene) -> None:
    both = (("sticky", b""), ("range", b""))
    (leader,) = scene.stable_group(1, protocols=both)
    second = scene.join()
    scene.join(leader.member_id, protocols=both)
    for member_id in (leader.member_id, second.reply.member_id):
        scene.sync(member_id, 2)


def _restart(scene: Scene) -> None:
    scene.stable_group(3)
    scene.restart()


@pytest.mark.fact("T-105", "T-109")
@pytest.mark.parametrize(
    "come_about",
    [
        _all_stay,
        _leader_leaves,
        _leader_comes_back,
        _leader_expires,
        _another_joins_with_fewer_protocols,
        _restart,
    ],
)
def test_a_stable_group_has_a_leader_and_a_protocol_that_all_support(
    scene: Scene, come_about: Callable[[Scene], None]
) -> None:
    come_about(scene)
    group = scene.coordinator.groups["g"]
    assert group.state is State.STABLE
    assert group.members
    assert group.leader_id in group.members
    assert all(group.protocol in dict(member.protocols) for member in group.members.values())
    assert group.protocol_support[group.protocol or ""] == len(group.members)
    assert not any(member.is_parked for member in group.members.values())


@pytest.mark.fact("T-109")
@pytest.mark.parametrize("static", [False, True])
def test_as_long_as_there_are_members_one_leads(scene: Scene, static: bool) -> None:
    members = scene.stable_group(4, static=static)
    group = scene.coordinator.groups["g"]
    while len(group.members) > 1:
        assert group.leader_id is not None
        scene.leave(group.leader_id)
        assert group.leader_id in group.members
    assert group.leader_id in {member.member_id for member in members}
    scene.leave(group.leader_id)
    assert group.leader_id is None
