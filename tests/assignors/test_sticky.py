"""The sticky assignors: as even as possible, and what can stay stays."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.assignors.plan import (
    AssignorFailed,
    Partition,
    Plan,
    Subscriber,
    Topics,
    count_partitions,
    group_by_topic,
    list_partitions,
    shares,
    spread,
)
from kcoord.assignors.sticky.cooperative import assign_cooperative
from kcoord.assignors.sticky.sticky import assign_sticky


def as_sets(plan: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, set[str]]:
    return {member: {f"{topic}-{number}" for topic, number in list_partitions(held)} for member, held in plan.items()}


def test_what_range_gives_unevenly_is_even() -> None:
    topics = tuple(f"t{number}" for number in range(10))
    group = [Subscriber(member_id=name, topics=topics) for name in ("x", "y", "z")]
    assert shares(assign_sticky(group, Topics(counts=dict.fromkeys(topics, 2)))) == [7, 7, 6]


def test_a_balanced_plan_stays_as_it_is() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned={"a": [0, 3]}),
        Subscriber(member_id="y", topics=("a",), owned={"a": [1, 2]}),
    ]
    assert as_sets(assign_sticky(group, Topics(counts={"a": 4}))) == {"x": {"a-0", "a-3"}, "y": {"a-1", "a-2"}}


def test_a_newcomer_gets_its_share_and_the_others_keep_the_rest() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned={"a": range(6)}),
        Subscriber(member_id="y", topics=("a",), owned={"a": range(6, 12)}),
        Subscriber(member_id="z", topics=("a",)),
    ]
    plan = assign_sticky(group, Topics(counts={"a": 12}))
    assert shares(plan) == [4, 4, 4]
    assert set(plan["x"]["a"]) < set(range(6))
    assert set(plan["y"]["a"]) < set(range(6, 12))


def test_a_cooperative_newcomer_gets_what_others_give_up_in_the_next_rebalance() -> None:
    topics = Topics(counts={"a": 3})
    group = [
        Subscriber(member_id="x", topics=("a",), owned={"a": [0, 1, 2]}, generation=1),
        Subscriber(member_id="y", topics=("a",)),
    ]
    first = assign_cooperative(group, topics)
    assert as_sets(first) == {"x": {"a-0", "a-1"}, "y": set()}
    following = [
        Subscriber(member_id=each.member_id, topics=("a",), owned=first[each.member_id], generation=2) for each in group
    ]
    assert as_sets(assign_cooperative(following, topics)) == {"x": {"a-0", "a-1"}, "y": {"a-2"}}


def test_of_two_claims_the_newer_generation_counts() -> None:
    group = [
        Subscriber(member_id="old", topics=("a",), owned={"a": [0, 1]}, generation=4, field_generation=4),
        Subscriber(member_id="new", topics=("a",), owned={"a": [0, 1]}, generation=5, field_generation=5),
    ]
    plan = assign_sticky(group, Topics(counts={"a": 2}))
    assert plan["new"]["a"][0] == 0
    assert plan["old"]["a"] == [1]


def test_what_two_members_of_one_generation_claim_neither_is_sure_of() -> None:
    group = [
        Subscriber(member_id=name, topics=("a",), owned={"a": [0]}, generation=5, field_generation=5) for name in "xy"
    ]
    plan = assign_cooperative(group, Topics(counts={"a": 1}))
    assert as_sets(plan) == {"x": set(), "y": set()}


def test_a_claim_of_a_topic_that_does_not_exist_or_is_not_wanted_is_not_kept() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned={"b": [0], "gone": [0]}),
        Subscriber(member_id="y", topics=("b",)),
    ]
    assert as_sets(assign_sticky(group, Topics(counts={"a": 1, "b": 1}))) == {"x": {"a-0"}, "y": {"b-0"}}


def test_a_claim_of_a_partition_that_does_not_exist_fails_as_it_does_in_java() -> None:
    """Kafka's assignor stops looking for unassigned partitions at it, and deals out what others have once more."""
    group = [
        Subscriber(member_id="x", topics=("a",), owned={"a": [-1, 0]}),
        Subscriber(member_id="y", topics=("a",), owned={"a": [1, 2]}),
    ]
    with pytest.raises(AssignorFailed, match="No more unfilled consumers"):
        assign_sticky(group, Topics(counts={"a": 4}))


def test_without_members_there_is_no_plan() -> None:
    assert assign_sticky([], Topics(counts={"a": 4})) == {}


topics = st.sampled_from("abc")
counts = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.integers(1, 3)))


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Subscriber], dict[str, int]]:
    """Draws members that own what exists, each partition once, and the partitions of the topics."""
    sizes = draw(counts)
    partitions = [(topic, number) for topic, size in sizes.items() for number in range(size)]
    subscriptions = draw(st.lists(st.sets(topics, min_size=1), min_size=1, max_size=4))
    owners = draw(st.lists(st.integers(-1, len(subscriptions) - 1), min_size=len(partitions), max_size=len(partitions)))
    owned: dict[int, list[Partition]] = {}
    for partition, owner in zip(partitions, owners, strict=True):
        owned.setdefault(owner, []).append(partition)
    members = [
        Subscriber(member_id=f"m{number}", topics=tuple(sorted(wanted)), owned=group_by_topic(owned.get(number, ())))
        for number, wanted in enumerate(subscriptions)
    ]
    return members, sizes


@given(groups())
def test_every_partition_that_is_wanted_goes_to_one_member_that_wants_it(
    drawn: tuple[list[Subscriber], dict[str, int]],
) -> None:
    group, sizes = drawn
    plan = assign_sticky(group, Topics(counts=sizes))
    assigned = [partition for share in plan.values() for partition in list_partitions(share)]
    assert sorted(assigned) == sorted(_wanted(group, sizes))
    assert all(topic in each.topics for each in group for topic in plan[each.member_id])


@given(groups())
def test_no_single_move_would_make_a_plan_more_even(drawn: tuple[list[Subscriber], dict[str, int]]) -> None:
    group, sizes = drawn
    plan = assign_sticky(group, Topics(counts=sizes))
    size = {member: count_partitions(held) for member, held in plan.items()}
    assert not [
        (owner, topic, each.member_id)
        for owner, held in plan.items()
        for topic in held
        for each in group
        if topic in each.topics and size[owner] > size[each.member_id] + 1
    ]
    if len({frozenset(each.topics) for each in group}) == 1:
        assert spread(plan) <= 1


@given(groups())
def test_a_plan_is_kept_when_it_is_made_again(drawn: tuple[list[Subscriber], dict[str, int]]) -> None:
    group, sizes = drawn
    plan = assign_sticky(group, Topics(counts=sizes))
    again = assign_sticky(_owning(group, plan), Topics(counts=sizes))
    assert as_sets(again) == as_sets(plan)


@given(groups())
def test_a_cooperative_plan_gives_nobody_what_another_still_has(
    drawn: tuple[list[Subscriber], dict[str, int]],
) -> None:
    group, sizes = drawn
    before = {each.member_id: set(list_partitions(each.owned)) for each in group}
    for member, held in assign_cooperative(group, Topics(counts=sizes)).items():
        for partition in set(list_partitions(held)) - before[member]:
            assert not any(partition in owned for owned in before.values())


@given(groups())
def test_cooperative_members_have_the_plan_of_the_sticky_assignor_in_the_end(
    drawn: tuple[list[Subscriber], dict[str, int]],
) -> None:
    group, sizes = drawn
    for _ in range(3):
        group = _owning(group, assign_cooperative(group, Topics(counts=sizes)))
    assert shares(assign_sticky(group, Topics(counts=sizes))) == sorted(
        (count_partitions(each.owned) for each in group), reverse=True
    )


def test_a_large_group_that_one_member_has_all_of_is_evened_out() -> None:
    everything = {"a": range(2000)}
    group = [
        Subscriber(member_id=f"m{number:03}", topics=("a",), owned=everything if number == 0 else {})
        for number in range(100)
    ]
    plan = assign_sticky(group, Topics(counts={"a": 2000}))
    assert shares(plan) == [20] * 100


def _owning(group: list[Subscriber], plan: Plan) -> list[Subscriber]:
    return [Subscriber(member_id=each.member_id, topics=each.topics, owned=plan[each.member_id]) for each in group]


def _wanted(group: list[Subscriber], sizes: dict[str, int]) -> list[Partition]:
    wanted = {topic for each in group for topic in each.topics}
    return [(topic, number) for topic in wanted for number in range(sizes.get(topic, 0))]
