"""What-ifs, and what strategies make of them."""

import pytest

from kcoord.assignors.comparison import Outcome, balance_of, changes_of
from kcoord.assignors.plan import Subscriber, TopicPartitions, Topics
from kcoord.assignors.scenario import (
    Scenario,
    UnlikelyScenario,
    add_members,
    remove_members,
    set_partitions,
    set_racks,
)
from kcoord.assignors.strategies import STRATEGIES


def scenario(members: int = 2, partitions: int = 12, *, assigned_by: str | None = None) -> Scenario:
    topics = Topics(counts={"t": partitions})
    group = tuple(Subscriber(member_id=f"m{number}", topics=("t",)) for number in range(members))
    if assigned_by is None:
        return Scenario.of(group, topics)
    plan = STRATEGIES[assigned_by].assign(group, topics)
    return Scenario.of(
        [Subscriber(member_id=each.member_id, topics=("t",), owned=plan[each.member_id]) for each in group],
        topics,
        plan,
    )


def outcome(given: Scenario, strategy: str) -> Outcome:
    return given.outcome(STRATEGIES[strategy].assign, STRATEGIES[strategy].style)


def test_an_eager_strategy_pauses_everything_even_if_one_partition_moves() -> None:
    result = outcome(add_members(scenario(3, 4), 1), "sticky")
    assert (len(result.moved), len(result.paused), result.rebalances) == (1, 4, 1)


def test_a_cooperative_strategy_pauses_what_moves_and_needs_a_second_rebalance() -> None:
    result = outcome(add_members(scenario(3, 4), 1), "cooperative-sticky")
    assert (len(result.moved), len(result.paused), result.rebalances) == (1, 1, 2)


def test_a_server_side_strategy_pauses_what_moves_without_a_rebalance_of_the_group() -> None:
    result = outcome(add_members(scenario(3, 4), 1), "uniform")
    assert (len(result.moved), len(result.paused), result.rebalances) == (1, 1, 0)


def test_what_a_member_leaves_behind_moves_to_others() -> None:
    result = outcome(remove_members(scenario(3), ["m1"]), "cooperative-sticky")
    assert len(result.moved) == 4
    assert not result.stopped
    gained, lost = changes_of(result)
    assert lost.keys() == {"m1"}
    assert gained.keys() == {"m0", "m2"}


def test_partitions_of_a_grown_topic_are_new_and_pause_nothing() -> None:
    result = outcome(set_partitions(scenario(2, 4), {"t": 6}), "cooperative-sticky")
    assert (result.moved, len(result.started), result.paused) == (frozenset(), 2, frozenset())


def test_a_group_that_has_an_assignment_starts_from_it() -> None:
    """Four members have three partitions each by range, in ranges; round robin deals out other ones."""
    given = scenario(4, assigned_by="range")
    assert not outcome(given, "range").moved
    assert not outcome(given, "sticky").moved
    assert outcome(given, "roundrobin").moved


def test_without_a_what_if_a_described_group_starts_from_nothing() -> None:
    result = outcome(scenario(2, 4), "range")
    assert (len(result.started), result.moved, result.paused) == (4, frozenset(), frozenset())


def test_new_members_have_the_subscription_that_most_have_and_ids_that_sort_last() -> None:
    members = [
        Subscriber(member_id="x", topics=("b", "a")),
        Subscriber(member_id="y", topics=("a", "b")),
        Subscriber(member_id="m", topics=("a",)),
    ]
    after = add_members(Scenario.of(members, Topics(counts={"a": 1, "b": 1})), 2).after.members
    assert [(each.member_id, sorted(each.topics)) for each in after[3:]] == [
        ("y-new-1", ["a", "b"]),
        ("y-new-2", ["a", "b"]),
    ]
    assert add_members(scenario(2), 1).after.members[-1].member_id == "new-1"


def test_a_member_is_found_by_its_instance_id_or_the_beginning_of_its_id() -> None:
    members = [
        Subscriber(member_id="app-1-uuid", instance_id="i1", topics=("t",)),
        Subscriber(member_id="app-2-uuid", topics=("t",)),
    ]
    given = Scenario.of(members, Topics(counts={"t": 2}))
    assert [each.member_id for each in remove_members(given, ["i1"]).after.members] == ["app-2-uuid"]
    assert [each.member_id for each in remove_members(given, ["app-2"]).after.members] == ["app-1-uuid"]
    with pytest.raises(UnlikelyScenario, match="could be app-1-uuid, app-2-uuid"):
        remove_members(given, ["app"])
    with pytest.raises(UnlikelyScenario, match="there is no member 'z'; members are app-1-uuid, app-2-uuid"):
        remove_members(given, ["z"])


def test_a_topic_that_nobody_has_cannot_grow() -> None:
    with pytest.raises(UnlikelyScenario, match="there is no topic 'u'; topics are t"):
        set_partitions(scenario(), {"u": 6})


def test_partitions_cannot_be_taken_from_a_topic() -> None:
    with pytest.raises(UnlikelyScenario, match="topic t has 12 partitions: Kafka cannot make it 6"):
        set_partitions(scenario(), {"t": 6})


def test_racks_bring_members_to_partitions_with_replicas_beside_them() -> None:
    given = set_racks(scenario(3), ["a", "b", "c"], replicas=1)
    plan = outcome(given, "range").plan
    assert {member: list(held["t"]) for member, held in plan.items()} == {
        "m0": [0, 3, 6, 9],
        "m1": [1, 4, 7, 10],
        "m2": [2, 5, 8, 11],
    }


def test_racks_that_are_known_stay() -> None:
    topics = Topics(counts={"t": 2, "u": 1}, racks={"t": [{"x"}, {"y"}]})
    given = Scenario.of([Subscriber(member_id="m", topics=("t", "u"))], topics)
    after = set_racks(given, ["x", "y"], replicas=1).after
    assert after.topics.racks == {"t": [{"x"}, {"y"}], "u": [{"x"}]}
    assert after.members[0].rack == "x"


def test_partitions_that_a_topic_grows_by_have_replicas_in_racks_too() -> None:
    topics = Topics(counts={"t": 2}, racks={"t": [{"x"}, {"y"}]})
    given = Scenario.of([Subscriber(member_id="m", topics=("t",))], topics)
    after = set_racks(set_partitions(given, {"t": 4}), ["x", "y"], replicas=1).after
    assert after.topics.racks == {"t": [{"x"}, {"y"}, {"x"}, {"y"}]}


def test_more_replicas_than_racks_are_refused() -> None:
    with pytest.raises(UnlikelyScenario, match="3 replicas of a partition need as many racks: there are 2"):
        set_racks(scenario(), ["a", "b"], replicas=3)


def test_lag_is_a_weight_of_its_own() -> None:
    held: dict[str, TopicPartitions] = {"x": {"t": [0, 1]}, "y": {"t": [2, 3]}}
    balance = balance_of(held, {("t", 0): 100, ("t", 2): 10, ("t", 3): 10})
    assert (balance.least, balance.most, balance.deviation) == (20, 100, 40)


def test_a_group_without_members_has_a_balance_of_nothing() -> None:
    assert balance_of({}).most == 0


def test_an_assignor_that_fails_is_an_outcome() -> None:
    """The uniform assignor of mixed subscriptions fails in Java if a member owns what its topic does not have."""
    members = [
        Subscriber(member_id="x", topics=("t",), owned={"t": [7]}),
        Subscriber(member_id="y", topics=("t", "u")),
    ]
    topics = Topics(counts={"t": 2, "u": 1})
    given = Scenario.of(members, topics, {each.member_id: each.owned for each in members})
    assert outcome(given, "uniform").failure == "Index 7 out of bounds for length 2"
    assert outcome(given, "range").failure is None
