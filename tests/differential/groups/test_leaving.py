"""LeaveGroup in every version: one member up to 2, many from 3 on, by member id or by instance id."""

from typing import Any

import pytest

from kcoord.api_keys import ApiKey
from tests.differential.conftest import NewGroupPair
from tests.differential.groups.support.group_pair import GroupPair, parked
from tests.differential.groups.support.group_requests import VERSIONS, Group, MemberId, Profile, leave_of
from tests.support.differential.plain import Plain

ONE_BY_ONE, MANY = VERSIONS[ApiKey.LEAVE_GROUP][:3], VERSIONS[ApiKey.LEAVE_GROUP][3:]
OURS = Group()
OF_BOTH_KINDS = [Profile(instance_id="first"), Profile(), Profile(instance_id="third"), Profile()]


def leave(pair: GroupPair, version: int, *members: tuple[Any, str | None], group: Any = OURS, **how: Any) -> Plain:
    return pair.ask(8 if len(pair.actors) > 8 else 0, ApiKey.LEAVE_GROUP, version, **leave_of(group, *members, **how))


@pytest.mark.parametrize("version", VERSIONS[ApiKey.LEAVE_GROUP])
def test_nobody_leaves_where_there_is_nobody(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    assert leave(pair, version, ("me", None), group="")["error_code"] == "invalid_group_id"
    top = "unknown_member_id" if version < 3 else "none"
    assert leave(pair, version, ("me", None))["error_code"] == top
    assert leave(pair, version, ("me", None), ("", None), ("", "instance"))["error_code"] == top
    pair.make_stable(0)
    assert leave(pair, version, ("me", None))["error_code"] == top
    assert leave(pair, version, ("", None))["error_code"] == top
    assert leave(pair, version)["error_code"] == top
    assert pair.heartbeat(0, 4)["error_code"] == "none"


@pytest.mark.parametrize("version", VERSIONS[ApiKey.LEAVE_GROUP])
def test_members_leave_one_after_the_other(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1)
    assert leave(pair, version, (MemberId(1), None))["error_code"] == "none"
    assert pair.heartbeat(0, 4)["error_code"] == "rebalance_in_progress"
    assert pair.heartbeat(1, 4)["error_code"] == "unknown_member_id"
    leave(pair, version, (MemberId(1), None))
    leave(pair, version, (MemberId(0), None))
    assert pair.heartbeat(0, 4)["error_code"] == "unknown_member_id"
    assert pair.join(0, 4, MemberId(0))["error_code"] == "unknown_member_id"
    assert pair.join(0, 3)["generation_id"] == 4


@pytest.mark.parametrize("version", VERSIONS[ApiKey.LEAVE_GROUP])
def test_an_id_that_was_given_out_can_be_given_back(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0)
    pair.join(1, 9)
    assert pair.join(0, 9, MemberId(0)) is parked
    waiting = len(pair.taken)
    leave(pair, version, (MemberId(1), None))
    assert pair.came[waiting]["generation_id"] == 2
    assert pair.join(1, 9, MemberId(1))["error_code"] == "unknown_member_id"


@pytest.mark.parametrize("version", VERSIONS[ApiKey.LEAVE_GROUP])
def test_a_member_leaves_while_its_own_join_waits(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1)
    assert pair.join(1, 9, MemberId(1), protocols=[("range", b"\x00")]) is parked
    waiting = len(pair.taken)
    leave(pair, version, (MemberId(1), None))
    assert pair.came[waiting]["error_code"] == "unknown_member_id"


@pytest.mark.parametrize("version", VERSIONS[ApiKey.LEAVE_GROUP])
def test_those_who_wait_go_on_when_the_last_that_they_wait_for_leaves(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups()
    pair.make_stable(0, 1, 2)
    assert pair.join(0, 9, MemberId(0)) is parked
    waiting = len(pair.taken)
    assert pair.join(2, 9, MemberId(2)) is parked
    leave(pair, version, (MemberId(1), None))
    assert pair.came[waiting]["error_code"] == "none"
    assert len(pair.came) == 3


@pytest.mark.parametrize(("version", "reason"), [(3, None), (4, None), (5, None), (5, ""), (5, "x" * 3000)])
def test_many_leave_and_each_is_told_its_own(new_groups: NewGroupPair, version: int, reason: str | None) -> None:
    pair = new_groups(*OF_BOTH_KINDS)
    pair.make_stable(0, 1, 2)
    pair.join(3, 9)
    answer = leave(
        pair,
        version,
        ("nobody", None),
        (MemberId(1), None),
        (MemberId(1), None),
        ("", "first"),
        ("wrong", "third"),
        ("", "nobody's"),
        ("", ""),
        (MemberId(3), None),
        (MemberId(3), "first"),
        reason=reason,
    )
    errors = [line["error_code"] for line in answer["members"]]
    assert errors[0] == errors[5] == errors[6] == "unknown_member_id"
    assert errors[1] == errors[3] == errors[7] == "none"
    assert errors[4] == "fenced_instance_id"


@pytest.mark.parametrize("version", MANY)
def test_an_operator_removes_static_members_by_their_instance(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups(*OF_BOTH_KINDS)
    pair.make_stable(0, 1, 2)
    assert leave(pair, version, ("", "third"))["members"][0]["error_code"] == "none"
    assert pair.heartbeat(2, 4)["error_code"] == "unknown_member_id"
    assert leave(pair, version, (MemberId(0), "third"))["members"][0]["error_code"] == "unknown_member_id"
    assert leave(pair, version, (MemberId(1), "first"))["members"][0]["error_code"] == "fenced_instance_id"
    assert leave(pair, version, (MemberId(0), None))["members"][0]["error_code"] == "none"
    assert pair.join(2, 9) is parked


@pytest.mark.parametrize("version", ONE_BY_ONE)
def test_old_versions_know_of_no_instance(new_groups: NewGroupPair, version: int) -> None:
    pair = new_groups(*OF_BOTH_KINDS)
    pair.make_stable(0, 1)
    assert leave(pair, version, ("", "first"))["error_code"] == "unknown_member_id"
    assert leave(pair, version, (MemberId(0), "first"))["error_code"] == "none"
