"""The selection of members to remove."""

import pytest

from kcoord.admin.groups.removing import NotAMember, chosen_members, member_to_remove
from kcoord.admin.model import MemberToRemove
from tests.support.admin.snapshots import group, member

DYNAMIC, STATIC = member("a", "orders-0"), member("b", "orders-1", instance_id="worker-1")
GROUP = group(DYNAMIC, STATIC, name="shop")


def test_members_are_chosen_by_member_id_by_instance_id_or_all() -> None:
    assert chosen_members(GROUP, member_ids=["a-id"], instance_ids=[], everyone=False) == (DYNAMIC,)
    assert chosen_members(GROUP, member_ids=[], instance_ids=["worker-1"], everyone=False) == (STATIC,)
    assert chosen_members(GROUP, member_ids=[], instance_ids=[], everyone=True) == (DYNAMIC, STATIC)


def test_one_who_is_named_twice_leaves_once() -> None:
    assert chosen_members(GROUP, member_ids=["b-id", "a-id"], instance_ids=["worker-1"], everyone=False) == (
        DYNAMIC,
        STATIC,
    )


def test_members_that_are_not_there_are_named() -> None:
    with pytest.raises(
        NotAMember, match="group shop has no member x, no instance y: see `kcoord groups describe shop`"
    ):
        chosen_members(GROUP, member_ids=["a-id", "x"], instance_ids=["y"], everyone=False)


def test_a_group_without_members_has_none_to_remove() -> None:
    with pytest.raises(NotAMember, match="group g has no members"):
        chosen_members(group(), member_ids=[], instance_ids=[], everyone=True)


def test_a_static_member_leaves_under_both_its_names() -> None:
    """The instance id alone would also remove a member that has rejoined meanwhile."""
    assert member_to_remove(STATIC) == MemberToRemove(member_id="b-id", instance_id="worker-1")
    assert member_to_remove(DYNAMIC) == MemberToRemove(member_id="a-id")
