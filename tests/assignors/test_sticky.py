"""The sticky assignor: each partition is assigned once, as evenly as possible, and stays with its owner if that is
possible."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kcoord.assignors.plan import Partition, Subscriber, shares, spread
from kcoord.assignors.sticky import assign_sticky


def test_what_range_gives_unevenly_is_even() -> None:
    topics = tuple(f"t{number}" for number in range(10))
    group = [Subscriber(member_id=name, topics=topics) for name in ("x", "y", "z")]
    assert shares(assign_sticky(group, dict.fromkeys(topics, 2))) == [7, 7, 6]


def test_a_balanced_plan_stays_as_it_is() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned=[("a", 0), ("a", 3)]),
        Subscriber(member_id="y", topics=("a",), owned=[("a", 1), ("a", 2)]),
    ]
    assert assign_sticky(group, {"a": 4}) == {"x": (("a", 0), ("a", 3)), "y": (("a", 1), ("a", 2))}


def test_a_newcomer_gets_its_share_and_the_others_keep_the_rest() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned=[("a", index) for index in range(6)]),
        Subscriber(member_id="y", topics=("a",), owned=[("a", index) for index in range(6, 12)]),
        Subscriber(member_id="z", topics=("a",)),
    ]
    plan = assign_sticky(group, {"a": 12})
    assert shares(plan) == [4, 4, 4]
    assert set(plan["x"]) < set(group[0].owned)
    assert set(plan["y"]) < set(group[1].owned)


def test_partitions_move_through_a_member_in_between() -> None:
    """x and z share no topic: z, which has none, can get what x has too many of only through y."""
    group = [
        Subscriber(member_id="x", topics=("a",), owned=[("a", 0), ("a", 1), ("a", 2), ("a", 3)]),
        Subscriber(member_id="y", topics=("a", "b"), owned=[("b", 0), ("b", 1), ("b", 2)]),
        Subscriber(member_id="z", topics=("b",)),
    ]
    assert shares(assign_sticky(group, {"a": 4, "b": 3})) == [3, 2, 2]


def test_a_claim_of_what_does_not_exist_or_is_not_wanted_any_more_is_not_kept() -> None:
    group = [
        Subscriber(member_id="x", topics=("a",), owned=[("a", 9), ("b", 0), ("gone", 0)]),
        Subscriber(member_id="y", topics=("b",)),
    ]
    assert assign_sticky(group, {"a": 1, "b": 1}) == {"x": (("a", 0),), "y": (("b", 0),)}


topics = st.sampled_from("abc")
partitions = st.tuples(topics, st.integers(0, 2))
members = st.lists(st.tuples(st.sets(topics, min_size=1), st.sets(partitions, max_size=3)), min_size=1, max_size=3).map(
    lambda wishes: [
        Subscriber(member_id=f"m{number}", topics=wanted, owned=owned) for number, (wanted, owned) in enumerate(wishes)
    ]
)
sizes = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", st.integers(1, 2)))


@given(members, sizes)
def test_every_partition_that_is_wanted_goes_to_one_member_that_wants_it(
    group: list[Subscriber], counts: dict[str, int]
) -> None:
    plan = assign_sticky(group, counts)
    given_away = [partition for share in plan.values() for partition in share]
    assert sorted(given_away) == sorted(_wanted(group, counts))
    assert all(topic in each.topics for each in group for topic, _ in plan[each.member_id])


@given(members, sizes)
def test_no_plan_is_more_even(group: list[Subscriber], counts: dict[str, int]) -> None:
    """The test tries all plans: the one with the smallest sum of squares has the most even shares."""
    wanted = _wanted(group, counts)
    takers = [[each.member_id for each in group if topic in each.topics] for topic, _ in wanted]
    best = min(sum(owners.count(each.member_id) ** 2 for each in group) for owners in product(*takers))
    plan = assign_sticky(group, counts)
    assert sum(count**2 for count in shares(plan)) == best


@given(members, sizes)
def test_a_plan_is_kept_when_it_is_made_again(group: list[Subscriber], counts: dict[str, int]) -> None:
    plan = assign_sticky(group, counts)
    next_subscribers = [
        Subscriber(member_id=each.member_id, topics=each.topics, owned=plan[each.member_id]) for each in group
    ]
    assert assign_sticky(next_subscribers, counts) == plan


def test_a_large_group_that_one_member_has_all_of_is_evened_out() -> None:
    everything = [("a", index) for index in range(2000)]
    group = [
        Subscriber(member_id=f"m{number:03}", topics=("a",), owned=everything if number == 0 else ())
        for number in range(100)
    ]
    plan = assign_sticky(group, {"a": 2000})
    assert shares(plan)[0] == 20
    assert spread(plan) == 0


def _wanted(group: list[Subscriber], counts: dict[str, int]) -> list[Partition]:
    return [
        (topic, index)
        for topic in sorted({topic for each in group for topic in each.topics})
        for index in range(counts.get(topic, 0))
    ]
