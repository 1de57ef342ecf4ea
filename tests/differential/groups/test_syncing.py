"""SyncGroup and Heartbeat in every version: which members are fenced, which requests are parked, who gets which
assignment."""

import pytest

from kcoord.api_keys import ApiKey
from tests.differential.conftest import NewGroupPair
from tests.differential.groups.support.group_pair import GroupPair, parked
from tests.differential.groups.support.group_requests import (
    VERSIONS,
    Generation,
    Group,
    MemberId,
    Plan,
    Profile,
    leave_of,
)

SYNC_VERSIONS = VERSIONS[ApiKey.SYNC_GROUP]
HEARTBEAT_VERSIONS = VERSIONS[ApiKey.HEARTBEAT]
STATIC = [Profile(instance_id=f"instance {number}") for number in range(3)]


def joined(pair: GroupPair, version: int = 9) -> GroupPair:
    """Lets two members join generation 3 without a sync; actor 0 leads."""
    pair.make_stable(0, 1)
    assert pair.join(0, version, MemberId(0)) is parked
    assert pair.join(1, version, MemberId(1))["generation_id"] == 3
    return pair


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_a_sync_of_nobody_is_refused(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    assert pair.sync(0, version, group_id="", protocol_name="range")["error_code"] == "invalid_group_id"
    assert pair.sync(0, version, protocol_name="range")["error_code"] == "unknown_member_id"
    pair.make_stable(0)
    for generation in (Generation(0), Generation(0, 1), -1):
        unknown = pair.sync(0, version, member_id="nobody", generation=generation)
        assert unknown["error_code"] == "unknown_member_id"
    for generation in (Generation(0, 1), Generation(0, -1), -1):
        assert pair.sync(0, version, generation=generation)["error_code"] == "illegal_generation"
    pair.ask(0, ApiKey.LEAVE_GROUP, 5, **leave_of(Group(), (MemberId(0), None)))
    assert pair.sync(0, version)["error_code"] == "unknown_member_id"


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_a_follower_waits_for_the_plan_of_the_leader(new_groups: NewGroupPair, version: int) -> None:
    pair = joined(new_groups())
    assert pair.sync(1, version) is parked
    waiting = len(pair.taken)
    assert pair.sync(0, version)["assignment"] == b"for actor 0's id #1 in generation 3"
    assert pair.came[waiting]["assignment"] == b"for actor 1's id #1 in generation 3"
    # From now on every member gets its planned assignment, whatever the leader sends.
    assert pair.sync(0, version, assignments=[])["assignment"] == b"for actor 0's id #1 in generation 3"
    assert pair.sync(1, version, assignments=Plan(0))["assignment"] == b"for actor 1's id #1 in generation 3"


@pytest.mark.parametrize("version", SYNC_VERSIONS)
@pytest.mark.parametrize("plan", [[], Plan(0, leave_out=1), Plan(0, leave_out=2, strangers=2), Plan(0, strangers=1)])
def test_a_plan_may_forget_members_and_name_strangers(new_groups: NewGroupPair, version: int, plan: object) -> None:
    pair = joined(new_groups())
    assert pair.sync(0, version, assignments=plan)["error_code"] == "none"
    assert pair.sync(1, version)["error_code"] == "none"
    assert pair.heartbeat(1, 4)["error_code"] == "none"


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_a_plan_of_a_follower_counts_for_nothing(new_groups: NewGroupPair, version: int) -> None:
    pair = joined(new_groups())
    assert pair.sync(1, version, assignments=[{"member_id": MemberId(1), "assignment": b"mine"}]) is parked


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"),
    [
        ("connect", "range"),
        ("consumer", "sticky"),
        ("", "range"),
        ("consumer", ""),
        (None, "range"),
        ("consumer", None),
        (None, None),
    ],
)
def test_what_is_said_of_the_protocol_must_be_right(
    new_groups: NewGroupPair, protocol_type: str | None, protocol_name: str | None
) -> None:
    pair = joined(new_groups())
    claimed = {"protocol_type": protocol_type, "protocol_name": protocol_name}
    inconsistent = "inconsistent_group_protocol"
    for version in SYNC_VERSIONS[:5]:
        assert pair.sync(1, version, **claimed) is parked
    assert pair.sync(1, 5, **claimed)["error_code"] == inconsistent
    assert pair.sync(0, 5, **claimed)["error_code"] == inconsistent
    is_complete = None not in (protocol_type, protocol_name)
    for wrong in ({"member_id": "nobody"}, {"generation": 99}, {"group_id": Group(1)}, {"group_id": ""}):
        assert (pair.sync(0, 5, **{**claimed, **wrong})["error_code"] == inconsistent) is not is_complete


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_during_the_join_phase_a_sync_sends_back_to_join(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1)
    assert pair.join(0, 9, MemberId(0)) is parked
    assert pair.sync(1, version)["error_code"] == "rebalance_in_progress"
    assert pair.sync(1, version, generation=Generation(1, 1))["error_code"] == "illegal_generation"


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_syncs_that_wait_are_told_when_somebody_goes(new_groups: NewGroupPair, version: int) -> None:
    pair = joined(new_groups())
    assert pair.sync(1, version) is parked
    waiting = len(pair.taken)
    pair.ask(0, ApiKey.LEAVE_GROUP, 5, **leave_of(Group(), (MemberId(0), None)))
    assert pair.came[waiting]["error_code"] == "rebalance_in_progress"


@pytest.mark.parametrize("version", SYNC_VERSIONS[3:])
def test_a_static_member_syncs_under_its_own_name(new_groups: NewGroupPair, version: int) -> None:
    pair = joined(new_groups(*STATIC))
    for member_id in ("nobody", "", MemberId(0)):
        assert pair.sync(1, version, member_id=member_id)["error_code"] == "fenced_instance_id"
    assert pair.sync(1, version, group_instance_id="nobody's")["error_code"] == "unknown_member_id"
    assert pair.sync(1, version, group_instance_id=None) is parked


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
def test_a_heartbeat_of_nobody_is_refused(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    assert pair.heartbeat(0, version, group_id="")["error_code"] == "invalid_group_id"
    assert pair.heartbeat(0, version)["error_code"] == "unknown_member_id"
    pair.join(0, 9)
    assert pair.heartbeat(0, version, generation=0)["error_code"] == "unknown_member_id"
    pair.make_stable(0)
    for generation in (Generation(0), Generation(0, 1), -1):
        assert (
            pair.heartbeat(0, version, member_id="nobody", generation=generation)["error_code"] == "unknown_member_id"
        )
    for generation in (Generation(0, 1), Generation(0, -1), -1, 2**31 - 1, -(2**31)):
        assert pair.heartbeat(0, version, generation=generation)["error_code"] == "illegal_generation"


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
def test_a_heartbeat_tells_of_a_rebalance(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1)
    assert pair.heartbeat(1, version)["error_code"] == "none"
    assert pair.join(0, 9, MemberId(0)) is parked
    assert pair.heartbeat(1, version)["error_code"] == "rebalance_in_progress"
    assert pair.heartbeat(1, version, generation=Generation(1, 1))["error_code"] == "illegal_generation"
    pair.join(1, 9, MemberId(1))
    assert pair.heartbeat(1, version)["error_code"] == "none"
    assert pair.heartbeat(1, version, generation=Generation(1, -1))["error_code"] == "illegal_generation"


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS[3:])
def test_a_static_member_heartbeats_under_its_own_name(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups(*STATIC)
    pair.make_stable(0, 1)
    for member_id in ("nobody", "", MemberId(0)):
        assert pair.heartbeat(1, version, member_id=member_id)["error_code"] == "fenced_instance_id"
    assert pair.heartbeat(1, version, group_instance_id="nobody's")["error_code"] == "unknown_member_id"
    assert pair.heartbeat(1, version, group_instance_id="")["error_code"] == "unknown_member_id"
    assert pair.heartbeat(1, version, group_instance_id=None)["error_code"] == "none"
    pair.join(1, 9)
    old = MemberId(1, back=1)
    assert pair.heartbeat(1, version, member_id=old)["error_code"] == "fenced_instance_id"
    assert pair.heartbeat(1, version, member_id=old, group_instance_id=None)["error_code"] == "unknown_member_id"
