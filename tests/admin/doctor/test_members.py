"""Findings about members."""

import pytest

from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.model import GroupType
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import group, member, seen, snapshot, topic


def test_more_members_than_partitions_are_named() -> None:
    members = [member("a", "t-0"), member("b", "t-1"), member("c", topics=["t"]), member("d", topics=["t"])]
    found = findings(snapshot(seen(group(*members))), topics=[topic("t", 2)])
    idle = found[Code.IDLE_MEMBERS]
    assert idle.severity is Severity.WARNING
    assert idle.title == "2 of 4 members without anything to do"
    assert idle.evidence == (
        "4 members for 2 partitions of 1 topic",
        "idle: c 10.0.0.1 (c-id)",
        "idle: d 10.0.0.1 (d-id)",
    )
    assert [each["client_id"] for each in idle.facts["idle"]] == ["c", "d"]
    assert Code.UNEVEN_ASSIGNMENT not in found


def test_a_member_whose_topic_does_not_exist_is_idle() -> None:
    members = [member("a", "t-0", "t-1"), member("b", topics=["gone"])]
    found = findings(snapshot(seen(group(*members))), topics=[topic("t", 2)], missing_topics=frozenset({"gone"}))
    assert found[Code.IDLE_MEMBERS].title == "1 of 2 members without anything to do"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_members_in_a_rebalance_are_not_idle(state: str) -> None:
    members = [member("a", topics=["t"]), member("b", topics=["t"])]
    assert Code.IDLE_MEMBERS not in findings(snapshot(seen(group(*members, state=state))), topics=[topic("t", 1)])


def test_nothing_is_said_of_idle_members_if_the_partitions_are_not_known() -> None:
    members = [member("a", "t-0"), member("b", topics=["t"])]
    assert Code.IDLE_MEMBERS not in findings(snapshot(seen(group(*members))))


def test_a_share_group_has_no_idle_members() -> None:
    members = [member("a", "t-0"), member("b", topics=["t"])]
    assert not findings(snapshot(seen(group(*members, kind=GroupType.SHARE))), topics=[topic("t", 1)])


def test_members_of_two_applications_in_one_group_are_told_apart() -> None:
    members = [member("a", "t-0"), member("b", "t-1"), member("x", "u-0")]
    mixed = findings(snapshot(seen(group(*members))))[Code.MIXED_SUBSCRIPTIONS]
    assert mixed.evidence == ("t: a 10.0.0.1 (a-id), b 10.0.0.1 (b-id)", "u: x 10.0.0.1 (x-id)")


def test_a_pattern_is_a_subscription_of_its_own() -> None:
    members = [member("a", "t-0"), member("b", "t-1", subscribed_regex="t.*", subscription=())]
    mixed = findings(snapshot(seen(group(*members, kind=GroupType.CONSUMER))))[Code.MIXED_SUBSCRIPTIONS]
    assert mixed.evidence == ("t: a 10.0.0.1 (a-id)", "pattern t.*: b 10.0.0.1 (b-id)")


def test_classic_members_of_a_new_group_are_an_unfinished_migration() -> None:
    members = [member("a", "t-0", is_classic=True), member("b", "t-1", is_classic=False)]
    mixed = findings(snapshot(seen(group(*members, kind=GroupType.CONSUMER))))[Code.MIXED_PROTOCOLS]
    assert mixed.title == "still of the classic protocol: 1 of 2 members"
    assert mixed.evidence == ("classic: a 10.0.0.1 (a-id)",)


def test_static_and_dynamic_members_in_one_group_are_a_notice() -> None:
    members = [member("a", "t-0", instance_id="i"), member("b", "t-1")]
    mixed = findings(snapshot(seen(group(*members))))[Code.MIXED_STATIC_MEMBERS]
    assert mixed.severity is Severity.NOTICE
    assert mixed.evidence == ("without: b 10.0.0.1 (b-id)",)


def test_a_static_member_that_was_there_and_is_gone_is_missed() -> None:
    both = group(member("a", "t-0", instance_id="i1"), member("b", "t-1", instance_id="i2"))
    one = group(member("a", "t-0", "t-1", instance_id="i1"))
    missing = findings(snapshot(seen(both)), snapshot(seen(both), after=4), snapshot(seen(one), after=10))[
        Code.STATIC_MEMBER_MISSING
    ]
    assert missing.evidence == ("b 10.0.0.1 (instance i2), last seen 6 s ago",)


def test_a_static_member_that_came_back_under_another_member_id_is_not_missed() -> None:
    before = group(member("a", "t-0", instance_id="i1"))
    after = group(member("a", "t-0", instance_id="i1", member_id="other"))
    assert Code.STATIC_MEMBER_MISSING not in findings(snapshot(seen(before)), snapshot(seen(after), after=5))


def test_a_group_in_which_all_is_well_has_no_findings() -> None:
    members = [member("a", "t-0"), member("b", "t-1")]
    well = seen(group(*members), {"t-0": (5, 0, 5), "t-1": (7, 2, 9)})
    assert not findings(snapshot(well), snapshot(well, after=60), topics=[topic("t", 2)])
