"""ListGroups and DescribeGroups."""

import pytest

from kcoord.errors import ErrorCode
from kcoord.groups.replies import DescribedMember
from tests.support.groups.scene import Scene

NOT_ASKED_FOR = -(2**31)
READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11


def every_state(scene: Scene) -> dict[str, str]:
    """Makes a group in each state and returns the group ids by state."""
    scene.commit({("t", 0): 1}, group_id="simple")
    scene.stable_group(1, group_id="stable")
    scene.completing_group(1, group_id="completing")
    scene.stable_group(1, group_id="preparing")
    scene.join(group_id="preparing")
    return {
        "Empty": "simple",
        "Stable": "stable",
        "CompletingRebalance": "completing",
        "PreparingRebalance": "preparing",
    }


def listed(scene: Scene, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
    reply = scene.list_groups(states=states, types=types)
    assert reply.error_code is ErrorCode.none
    return {group.group_id for group in reply.groups}


# ListGroups.


@pytest.mark.fact("A-001")
def test_without_filters_every_group_is_listed(scene: Scene) -> None:
    groups = every_state(scene)
    assert {group.group_state: group.group_id for group in scene.list_groups().groups} == groups


@pytest.mark.fact("A-002")
@pytest.mark.parametrize("state", ["Empty", "Stable", "CompletingRebalance", "PreparingRebalance"])
@pytest.mark.parametrize("spelled", ["{0}", "  {0}\t", "{1}", "{2}"])
def test_a_state_is_found_however_it_is_spelled(scene: Scene, state: str, spelled: str) -> None:
    groups = every_state(scene)
    name = spelled.format(state, state.lower(), state.upper())
    assert listed(scene, states=(name,)) == {groups[state]}


@pytest.mark.fact("A-002")
def test_groups_of_any_of_the_states_are_listed(scene: Scene) -> None:
    every_state(scene)
    assert listed(scene, states=("stable", "nope", "EMPTY")) == {"stable", "simple"}


@pytest.mark.fact("A-003")
@pytest.mark.parametrize("name", ["nope", "", "Dead", "Preparing"])
def test_no_group_is_in_a_state_that_there_is_not(scene: Scene, name: str) -> None:
    every_state(scene)
    assert listed(scene, states=(name,)) == set()


@pytest.mark.fact("A-004")
@pytest.mark.parametrize(
    ("types", "is_found"),
    [
        (("classic",), True),
        (("CLASSIC",), True),
        (("consumer", "Classic"), True),
        (("consumer",), False),
        (("nope",), False),
        (("",), False),
        ((" classic ",), False),  # blanks are forgiven in states only
    ],
)
def test_types_are_found_whatever_their_case(scene: Scene, types: tuple[str, ...], is_found: bool) -> None:
    groups = every_state(scene)
    assert listed(scene, types=types) == (set(groups.values()) if is_found else set())


@pytest.mark.fact("A-002", "A-004")
def test_a_group_is_listed_if_both_its_state_and_its_type_are_asked_for(scene: Scene) -> None:
    every_state(scene)
    assert listed(scene, states=("Stable",), types=("classic",)) == {"stable"}
    assert listed(scene, states=("Stable",), types=("consumer",)) == set()


@pytest.mark.fact("A-006")
def test_a_group_that_only_keeps_offsets_is_empty_and_of_no_protocol_type(scene: Scene) -> None:
    scene.commit({("t", 0): 1})
    [group] = scene.list_groups().groups
    assert (group.group_state, group.protocol_type, group.group_type) == ("Empty", "", "classic")
    assert scene.describe().protocol_type == ""


def test_a_group_that_was_left_is_empty_and_keeps_its_protocol_type(scene: Scene) -> None:
    [member] = scene.stable_group(1, protocol_type="connect")
    scene.leave(member.member_id)
    [group] = scene.list_groups().groups
    assert (group.group_state, group.protocol_type) == ("Empty", "connect")


@pytest.mark.fact("A-008")
def test_a_deleted_group_is_not_listed(scene: Scene) -> None:
    scene.commit({("t", 0): 1}, group_id="gone")
    scene.commit({("t", 0): 1}, group_id="stays")
    scene.delete_groups("gone")
    assert listed(scene) == {"stays"}
    scene.restart()
    assert listed(scene) == {"stays"}


# DescribeGroups.


@pytest.mark.fact("A-101", "A-102")
@pytest.mark.parametrize("group_id", ["x", ""])
def test_a_group_that_is_not_there_is_dead(scene: Scene, group_id: str) -> None:
    """Up to version 5 the response has no error: see tests/api."""
    group = scene.describe(group_id)
    assert (group.group_id, group.group_state, group.members) == (group_id, "Dead", ())
    assert (group.protocol_type, group.protocol_data) == ("", "")
    assert group.error_code is ErrorCode.group_id_not_found
    assert group.error_message == f"Group {group_id} not found."
    assert not scene.list_groups().groups


@pytest.mark.fact("A-103")
def test_a_stable_group_is_described_with_all_that_its_members_brought_and_got(scene: Scene) -> None:
    protocols = (("range", b"for range"), ("sticky", b"for sticky"))
    members = scene.stable_group(2, protocols=protocols, static=True)
    group = scene.describe()
    assert (group.error_code, group.error_message) == (ErrorCode.none, None)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert group.members == tuple(
        DescribedMember(
            member_id=member.member_id,
            group_instance_id=f"i{number}",
            client_id="client",
            client_host="/127.0.0.1",
            member_metadata=b"for range",
            member_assignment=f"assignment of {number}".encode(),
        )
        for number, member in enumerate(members)
    )


@pytest.mark.parametrize(
    ("state", "assignments"), [("CompletingRebalance", [b""]), ("PreparingRebalance", [b"assignment of 0", b""])]
)
def test_while_members_rebalance_their_subscriptions_are_not_shown_and_what_they_had_is(
    scene: Scene, state: str, assignments: list[bytes]
) -> None:
    group = scene.describe(every_state(scene)[state])
    assert (group.group_state, group.protocol_type, group.protocol_data) == (state, "consumer", "")
    assert [member.member_metadata for member in group.members] == [b""] * len(assignments)
    assert [member.member_assignment for member in group.members] == assignments


@pytest.mark.fact("A-107")
def test_what_may_be_done_with_a_group_is_told_to_those_who_ask(scene: Scene) -> None:
    scene.stable_group(1)
    allowed = sum(1 << operation for operation in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
    asked = scene.describe_groups("g", include_operations=True).groups
    assert [group.authorized_operations for group in asked] == [allowed]
    for group in scene.describe_groups("g", "nope").groups:
        assert group.authorized_operations == NOT_ASKED_FOR


@pytest.mark.fact("A-108")
def test_an_id_that_nobody_has_used_yet_is_no_member(scene: Scene) -> None:
    [member] = scene.stable_group(1)
    scene.join(needs_known_id=True)
    assert [shown.member_id for shown in scene.describe().members] == [member.member_id]
    scene.join(group_id="new", needs_known_id=True)
    group = scene.describe("new")
    assert (group.group_state, group.members) == ("Empty", ())


@pytest.mark.fact("A-109")
def test_a_group_that_is_asked_for_twice_is_described_twice(scene: Scene) -> None:
    scene.stable_group(1)
    groups = scene.describe_groups("g", "nope", "g").groups
    assert [group.group_id for group in groups] == ["g", "nope", "g"]
    assert groups[0] == groups[2]


def test_a_group_of_another_node_is_not_described_here() -> None:
    scene = Scene(owns=lambda group_id: False)
    [group] = scene.describe_groups("g", include_operations=True).groups
    assert (group.error_code, group.group_state) == (ErrorCode.not_coordinator, "")
    assert group.authorized_operations == NOT_ASKED_FOR
