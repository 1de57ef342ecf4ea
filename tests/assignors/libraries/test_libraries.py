"""The plans of franz-go, sarama and kafka-python, asked directly, on seeded cases.

KCOORD_TEST_PLANS sets how many cases there are of each strategy, KCOORD_TEST_SEED the first one's seed.
"""

import os
from collections.abc import Iterator
from typing import Final

import pytest

from kcoord.assignors.libraries.table import LIBRARIES, refusal
from kcoord.assignors.plan import Subscriber
from tests.assignors.cases import Case
from tests.assignors.libraries.asked_library import AskedLibrary, go_libraries, kafka_python
from tests.assignors.libraries.library_cases import (
    Sets,
    count_kept,
    has_same_topics,
    is_claimed_twice,
    make_library_case,
    plan_of,
    sizes,
    subscribers,
)

PLANS: Final = int(os.environ.get("KCOORD_TEST_PLANS", "500"))
FIRST_SEED: Final = int(os.environ.get("KCOORD_TEST_SEED", "1"))
TIMES: Final = 4
GO_CASES: Final = [
    (library, strategy) for library in ("franz-go", "sarama") for strategy in LIBRARIES[library].strategies
]
LISTS: Final = [["range"], ["range", "cooperative-sticky"], ["cooperative-sticky", "sticky"], ["cooperative-sticky"]]


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedLibrary]:
    with go_libraries(tmp_path_factory.mktemp("go")) as asked:
        yield asked


@pytest.fixture(scope="module")
def python() -> Iterator[AskedLibrary]:
    with kafka_python() as asked:
        yield asked


@pytest.mark.parametrize(("library", "strategy"), GO_CASES)
def test_a_go_library_makes_our_plan_or_one_as_good(go: AskedLibrary, library: str, strategy: str) -> None:
    compare(go, library, strategy)


@pytest.mark.parametrize("strategy", LIBRARIES["kafka-python"].strategies)
def test_kafka_python_makes_our_plan(python: AskedLibrary, strategy: str) -> None:
    compare(python, "kafka-python", strategy)


def compare(asked: AskedLibrary, library: str, strategy: str) -> None:
    different = []
    for seed in range(FIRST_SEED, FIRST_SEED + PLANS):
        case = make_library_case(library, strategy, seed)
        theirs = asked.plans(library, case, times=1 if is_exact(library, strategy) else TIMES)
        ours = plan_of(library, case)
        if not agree(library, case, theirs, ours):
            different.append((seed, theirs, ours))
    assert not different, f"{len(different)} of {PLANS} plans are others, the first with {different[0]}"


def is_exact(library: str, strategy: str) -> bool:
    return LIBRARIES[library].strategies[strategy].is_exact


def agree(library: str, case: Case, theirs: list[Sets] | str, ours: Sets | str) -> bool:
    if isinstance(theirs, str) or isinstance(ours, str):
        return isinstance(theirs, str) and isinstance(ours, str) and theirs.split(":")[0] == ours.split(":")[0]
    if ours in theirs:
        return True
    if is_exact(library, case.strategy):
        return False
    members = subscribers(LIBRARIES[library].strategies[case.strategy], case)
    if is_claimed_twice(members):
        return True
    match library:
        case "kafka-python":
            return False
        case "franz-go" if any(each.owned and each.generation is None for each in members):
            return True
        case "sarama" if not has_same_topics(case):
            return True
    return all(measures(case, ours, members) == measures(case, each, members) for each in theirs)


def measures(case: Case, plan: Sets, members: list[Subscriber]) -> tuple[list[int], int]:
    """Returns the sizes of the shares, and how many partitions stay where they are; of a cooperative plan the sum of
    the sizes, as which share lacks what others give up first differs from plan to plan."""
    shares = sizes(plan)
    return [sum(shares)] if case.strategy == "cooperative-sticky" else shares, count_kept(plan, members)


@pytest.mark.parametrize("strategies", LISTS, ids=",".join)
def test_sarama_takes_lists_of_eager_and_cooperative_strategies(go: AskedLibrary, strategies: list[str]) -> None:
    assert go.refusal(strategies) is None
    assert refusal("sarama", strategies) is None


@pytest.mark.parametrize("strategies", LISTS, ids=",".join)
def test_kafka_python_refuses_lists_as_the_table_says(python: AskedLibrary, strategies: list[str]) -> None:
    assert refusal("kafka-python", strategies) == python.refusal(strategies)
