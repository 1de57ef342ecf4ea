"""Findings about the ownership of partitions."""

from dataclasses import replace

from kcoord.admin.doctor.finding import Code, Severity
from kcoord.admin.model import GroupType, Member
from tests.admin.doctor.examined import findings
from tests.support.admin.snapshots import group, member, seen, snapshot, topic

TOPICS = [f"t{number}" for number in range(5)]


def _range_over_many_topics() -> list[Member]:
    return [
        member("a", *(f"{name}-0" for name in TOPICS)),
        member("b", *(f"{name}-1" for name in TOPICS)),
        member("c", topics=TOPICS),
    ]


def test_range_over_many_topics_is_uneven_and_sticky_would_not_be() -> None:
    found = findings(snapshot(seen(group(*_range_over_many_topics()))), topics=[topic(name, 2) for name in TOPICS])
    uneven = found[Code.UNEVEN_ASSIGNMENT]
    assert uneven.title == "partitions are shared unevenly: one member has 5, another 0"
    assert uneven.evidence == (
        "now (range): 5, 5, 0 partitions by member",
        "5: a 10.0.0.1 (a-id)",
        "5: b 10.0.0.1 (b-id)",
        "0: c 10.0.0.1 (c-id)",
        "so range shares out 5 topics: each by itself, the first members get one more each time",
        "range would give 5, 5, 0, moving 0 partitions; all 10 pause",
        "roundrobin would give 4, 3, 3, moving 6 partitions; all 10 pause",
        "sticky would give 4, 3, 3, moving 3 partitions; all 10 pause",
        "cooperative-sticky would give 4, 3, 3, moving 3 partitions, which pause during 2 rebalances",
    )
    assert [(each["strategy"], each["moved"], each["paused"]) for each in uneven.facts["strategies"]] == [
        ("range", 0, 10),
        ("roundrobin", 6, 10),
        ("sticky", 3, 10),
        ("cooperative-sticky", 3, 3),
    ]
    assert "cooperative sticky" in uneven.advice
    assert [(each["partitions"], each["with_range"]) for each in uneven.facts["members"]] == [(5, 5), (5, 5), (0, 0)]
    assert Code.IDLE_MEMBERS not in found


def test_a_new_group_is_advised_to_use_the_uniform_assignor() -> None:
    uneven = findings(
        snapshot(seen(group(*_range_over_many_topics(), kind=GroupType.CONSUMER))),
        topics=[topic(name, 2) for name in TOPICS],
    )[Code.UNEVEN_ASSIGNMENT]
    assert "group.remote.assignor=uniform" in uneven.advice
    assert uneven.evidence[-2:] == (
        "uniform would give 4, 3, 3, moving 3 partitions, which pause one member at a time",
        "server-range would give 5, 5, 0, moving 0 partitions",
    )


def test_range_is_blamed_only_for_what_it_does() -> None:
    hoarding = [member("a", "t-0", "t-1", "u-0", "u-1"), member("b", topics=["t", "u"])]
    uneven = findings(snapshot(seen(group(*hoarding, protocol="own"))), topics=[topic("t", 2), topic("u", 2)])
    evidence = uneven[Code.UNEVEN_ASSIGNMENT].evidence
    assert evidence[:3] == (
        "now (own): 4, 0 partitions by member",
        "4: a 10.0.0.1 (a-id)",
        "0: b 10.0.0.1 (b-id)",
    )
    assert evidence[3].startswith("range would give 2, 2")


def test_a_group_that_owns_what_does_not_exist_any_more_is_examined_all_the_same() -> None:
    """The topic was made again with fewer partitions. Kafka's sticky assignor would fail."""
    members = [member("a", "t-0", "t-1", "t-2"), member("b", "t-5")]
    assert Code.UNEVEN_ASSIGNMENT not in findings(snapshot(seen(group(*members))), topics=[topic("t", 3)])


def test_one_partition_more_is_even() -> None:
    members = [member("a", "t-0", "t-1"), member("b", "t-2")]
    assert not findings(snapshot(seen(group(*members))), topics=[topic("t", 3)])


def test_what_subscriptions_force_is_not_uneven() -> None:
    members = [member("a", "t-0", "t-1", "t-2", "t-3"), member("b", "u-0")]
    found = findings(snapshot(seen(group(*members))), topics=[topic("t", 4), topic("u", 1)])
    assert Code.UNEVEN_ASSIGNMENT not in found


def test_large_groups_are_told_in_numbers() -> None:
    rich = [member(f"r{number:02}", *(f"t-{number * 3 + index}" for index in range(3))) for number in range(10)]
    poor = [member(f"p{number:02}", f"t-{30 + number}") for number in range(10)]
    uneven = findings(snapshot(seen(group(*rich, *poor))), topics=[topic("t", 40)])[Code.UNEVEN_ASSIGNMENT]
    assert uneven.evidence[0] == "now (range): 10 × 3, 10 × 1 partitions by member"
    assert uneven.evidence[8] == "and 13 more"
    assert uneven.evidence[-2] == "sticky would give 20 × 2, moving 10 partitions; all 40 pause"


def test_a_partition_that_nobody_owns_is_an_error() -> None:
    members = [member("a", "t-0"), member("b", "t-1")]
    unowned = findings(snapshot(seen(group(*members))), topics=[topic("t", 4)])[Code.UNOWNED_PARTITIONS]
    assert unowned.severity is Severity.ERROR
    assert unowned.evidence == ("without an owner: t 2-3", "the group is Stable")


def test_members_that_got_nothing_at_all_leave_everything_unowned() -> None:
    members = [member("a", topics=["t"]), member("b", topics=["t"])]
    found = findings(snapshot(seen(group(*members))), topics=[topic("t", 4)])
    assert found[Code.UNOWNED_PARTITIONS].evidence[0] == "without an owner: t 0-3"


def test_a_topic_that_a_pattern_matched_is_known_by_what_is_owned_of_it() -> None:
    pattern = member("a", "t-0", subscribed_regex="t.*", subscription=())
    found = findings(snapshot(seen(group(pattern, kind=GroupType.CONSUMER))), topics=[topic("t", 2)])
    assert found[Code.UNOWNED_PARTITIONS].evidence[0] == "without an owner: t 1"


def test_nothing_is_unowned_while_a_group_rebalances() -> None:
    members = [member("a", topics=["t"])]
    found = findings(snapshot(seen(group(*members, state="CompletingRebalance"))), topics=[topic("t", 4)])
    assert Code.UNOWNED_PARTITIONS not in found


def test_members_whose_assignment_cannot_be_read_are_left_in_peace() -> None:
    """The bytes of Connect's and other members are not assignments of consumers."""
    workers = [member(name, assignment=None, subscription=None) for name in ("a", "b")]
    assert not findings(snapshot(seen(group(*workers, protocol_type="connect"))), topics=[topic("t", 1)])


def test_what_cannot_be_read_may_own_what_nobody_else_does() -> None:
    unread = replace(member("b", topics=["t"]), assignment=None)
    assert not findings(snapshot(seen(group(member("a", "t-0"), unread))), topics=[topic("t", 2)])


def test_a_topic_that_members_subscribe_to_and_that_is_not_there_is_named() -> None:
    members = [member("a", "gone-0", topics=["gone", "t"])]
    found = findings(snapshot(seen(group(*members))), topics=[topic("t", 1)], missing_topics=frozenset({"gone"}))
    missing = found[Code.SUBSCRIBED_TOPIC_MISSING]
    assert missing.title == "members read 1 topic that the cluster does not have"
    assert missing.evidence == ("there is no topic gone",)
    assert Code.SUBSCRIBED_TOPIC_MISSING not in findings(snapshot(seen(group(*members))), topics=[topic("t", 1)])
