"""The plans that franz-go's sticky balancers are compared with: none is more even, and of those none moves less."""

from collections import Counter
from itertools import product
from random import Random
from typing import TypeAlias

import pytest

from kcoord.assignors.libraries.cheapest_plan import Row, cheapest_shares
from kcoord.assignors.plan import Partition

Rows: TypeAlias = dict[Row, list[Partition]]
Owners: TypeAlias = dict[Partition, int]


@pytest.mark.parametrize("seed", range(200))
def test_no_plan_at_all_is_cheaper(seed: int) -> None:
    rng = Random(seed)
    rows: Rows = {}
    for topic in "abc":
        row = tuple(sorted(rng.sample(range(3), rng.randint(1, 3))))
        rows.setdefault(row, []).extend((topic, number) for number in range(rng.randint(0, 3)))
    owner_of = {each: rng.choice(row) for row, partitions in rows.items() for each in partitions if rng.random() < 0.7}
    choices = [(each, row) for row, partitions in rows.items() for each in partitions]
    cheapest = min(
        price(
            [[each for (each, _), to in zip(choices, taken, strict=True) if to == index] for index in range(3)],
            owner_of,
        )
        for taken in product(*(row for _, row in choices))
    )
    assert price(cheapest_shares(3, rows, owner_of), owner_of) == cheapest


def test_ten_thousand_partitions_are_dealt_out_to_a_thousand_members_with_the_fewest_moves() -> None:
    rng = Random(1)
    partitions = [("t", number) for number in range(10_000)]
    owner_of = {each: rng.randrange(500) for each in partitions}
    shares = cheapest_shares(1_000, {tuple(range(1_000)): partitions}, owner_of)
    assert [len(each) for each in shares] == [10] * 1_000
    retained = [sum(owner_of[each] == index for each in share) for index, share in enumerate(shares)]
    had = Counter(owner_of.values())
    assert retained == [min(10, had[index]) for index in range(1_000)]


def test_a_thousand_members_with_different_topics_get_equal_shares() -> None:
    rng = Random(2)
    rows: Rows = {}
    for topic in range(30):
        row = tuple(sorted(rng.sample(range(1_000), 300)))
        rows.setdefault(row, []).extend((f"t{topic}", number) for number in range(100))
    shares = cheapest_shares(1_000, rows, {})
    assert {len(each) for each in shares} == {3}
    subscribers = {each: frozenset(row) for row, partitions in rows.items() for each in partitions}
    assert all(index in subscribers[each] for index, share in enumerate(shares) for each in share)
    assert sorted(each for share in shares for each in share) == sorted(subscribers)


def price(shares: list[list[Partition]], owner_of: Owners) -> tuple[int, int]:
    """Returns how uneven shares are, and how many partitions do not stay where they were."""
    moves = sum(owner_of.get(each) != index for index, share in enumerate(shares) for each in share)
    return sum(len(each) ** 2 for each in shares), moves
