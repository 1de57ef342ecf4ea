"""The seeded cases reach what groups can have: each trait is in some of the first 500 cases of each strategy."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest

from kcoord.assignors.strategies import STRATEGIES
from kcoord.java_hashing import string_hash
from tests.assignors.cases import Case, make_case

Trait = Callable[[Case], bool]


def _repeats(items: Sequence[object]) -> bool:
    return len(set(items)) < len(items)


def _owned(case: Case) -> list[tuple[str, int]]:
    return [(topic, number) for each in case.members for topic, numbers in each.target.items() for number in numbers]


def _generations(case: Case) -> set[int | None]:
    return {each.subscription.generation for each in case.members}


def _claimants(case: Case) -> dict[tuple[str, int], list[int | None]]:
    claimants: dict[tuple[str, int], list[int | None]] = {}
    for each in case.members:
        for topic, numbers in each.target.items():
            for number in numbers:
                claimants.setdefault((topic, number), []).append(each.subscription.generation)
    return claimants


def _has_crowded_bucket(case: Case) -> bool:
    return max(Counter(string_hash(each.member_id) for each in case.members).values()) > 8


OF_ALL: Final[Mapping[str, Trait]] = {
    "racks": lambda case: bool(case.racks),
    "topics with equally many partitions": lambda case: _repeats(list(case.counts.values())),
    "mixed subscriptions": lambda case: len({frozenset(each.subscription.topics) for each in case.members}) > 1,
    "static members": lambda case: len({each.instance_id for each in case.members} - {None}) > 1,
    "equal instance ids": lambda case: _repeats([each.instance_id for each in case.members if each.instance_id]),
    "topics without partitions": lambda case: 0 in case.counts.values(),
    "topics that are gone": lambda case: any(topic not in case.counts for topic, _ in _owned(case)),
    "members without topics": lambda case: any(not each.subscription.topics for each in case.members),
    "ids that are not ASCII": lambda case: any(not each.member_id.isascii() for each in case.members),
    "equal hashes": lambda case: _repeats([string_hash(each.member_id) for each in case.members]),
    "more than eight keys in one bucket": _has_crowded_bucket,
    "many members": lambda case: len(case.members) > 100,
    "many topics": lambda case: len(case.counts) > 12,
}
OF_CLIENTS: Final[Mapping[str, Trait]] = {
    "topics that are listed twice": lambda case: any(_repeats(each.subscription.topics) for each in case.members),
    "claims of one generation": lambda case: any(_repeats(each) for each in _claimants(case).values()),
    "claims of several generations": lambda case: any(len(set(each)) > 1 for each in _claimants(case).values()),
    "no generation": lambda case: None in _generations(case),
    "several generations": lambda case: len(_generations(case)) > 1,
    "partitions that do not exist": lambda case: any(
        not 0 <= number < case.counts.get(topic, number + 1) for topic, number in _owned(case)
    ),
    "malformed user data": lambda case: any(each.subscription.user_data == b"\xff" * 9 for each in case.members),
    "old versions": lambda case: any(each.version == 0 for each in case.members),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_cases_have_all_that_groups_can_have(strategy: str) -> None:
    traits = OF_ALL if STRATEGIES[strategy].is_server_side else {**OF_ALL, **OF_CLIENTS}
    missing = dict(traits)
    for seed in range(1, 501):
        case = make_case(strategy, seed)
        missing = {name: has for name, has in missing.items() if not has(case)}
    assert not missing
