"""The plans of franz-go, sarama and kafka-python, asked directly, on seeded cases.

KCOORD_TEST_PLANS sets how many cases there are of each strategy, KCOORD_TEST_SEED the first one's seed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from kcoord.assignors.libraries.table import LIBRARIES, refusal
from tests.assignors.cases import FIRST_SEED, PLANS, Case
from tests.assignors.libraries.asked_library import AskedLibrary, go_libraries, kafka_python
from tests.assignors.libraries.library_cases import (
    Verdict,
    compare,
    is_claimed_twice,
    make_library_case,
    plan_of,
    sizes,
    subscribers,
)

SEEDS: Final = range(FIRST_SEED, FIRST_SEED + PLANS)
TIMES: Final = 4
COMPARED: Final = 0.8
"""The share of cases in which a library's plan must have been compared with ours."""
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
    with kafka_python(0) as asked:
        yield asked


@pytest.mark.parametrize(("library", "strategy"), GO_CASES)
def test_a_go_library_makes_our_plan_or_one_as_good(go: AskedLibrary, library: str, strategy: str) -> None:
    verdicts = {seed: verdict(go, make_library_case(library, strategy, seed), library) for seed in SEEDS}
    different = [seed for seed, each in verdicts.items() if each is Verdict.OTHER]
    assert not different, f"{len(different)} of {PLANS} plans are others: {different[:10]}"
    counts = Counter(verdicts.values())
    assert counts[Verdict.SAME] + counts[Verdict.AS_GOOD] >= COMPARED * PLANS, counts


@pytest.mark.parametrize("strategy", LIBRARIES["kafka-python"].strategies)
def test_kafka_python_makes_our_plan_with_some_seed_of_pythons_hashes(python: AskedLibrary, strategy: str) -> None:
    different = [seed for seed in SEEDS if not is_plan_of_kafka_python(python, strategy, seed)]
    assert len(different) <= PLANS / 100, f"{len(different)} of {PLANS} plans are others: {different[:10]}"
    for hash_seed in range(1, 9) if different else ():
        with kafka_python(hash_seed) as asked:
            different = [seed for seed in different if not is_plan_of_kafka_python(asked, strategy, seed)]
    # Where members claim the same partitions, there may be too many choices to meet ours.
    different = [seed for seed in different if not has_sizes_of_kafka_python(python, strategy, seed)]
    assert not different, f"{len(different)} of {PLANS} plans are others: {different[:10]}"


def is_plan_of_kafka_python(asked: AskedLibrary, strategy: str, seed: int) -> bool:
    case = make_library_case("kafka-python", strategy, seed)
    theirs, ours = asked.plans("kafka-python", case), plan_of("kafka-python", case)
    return ours in theirs if isinstance(ours, dict) else isinstance(theirs, str)


def has_sizes_of_kafka_python(asked: AskedLibrary, strategy: str, seed: int) -> bool:
    case = make_library_case("kafka-python", strategy, seed)
    theirs, ours = asked.plans("kafka-python", case), plan_of("kafka-python", case)
    assert isinstance(ours, dict)
    assert not isinstance(theirs, str)
    members = subscribers(LIBRARIES["kafka-python"].strategies[strategy], case)
    return is_claimed_twice(members) and sizes(theirs[0]) == sizes(ours)


def is_exact(library: str, strategy: str) -> bool:
    return LIBRARIES[library].strategies[strategy].is_exact


def verdict(asked: AskedLibrary, case: Case, library: str) -> Verdict:
    """Compares our plan of a case with the library's."""
    theirs = asked.plans(library, case, times=1 if is_exact(library, case.strategy) else TIMES)
    ours = plan_of(library, case)
    # Where a library's leader cannot read the members, it makes no plan, and neither do we.
    members = [] if isinstance(ours, str) else subscribers(LIBRARIES[library].strategies[case.strategy], case)
    return compare(library, case.strategy, members, ours, theirs)


@pytest.mark.parametrize("strategies", LISTS, ids=",".join)
def test_sarama_takes_lists_of_eager_and_cooperative_strategies(go: AskedLibrary, strategies: list[str]) -> None:
    assert go.refusal(strategies) is None
    assert refusal("sarama", strategies) is None


@pytest.mark.parametrize("strategies", LISTS, ids=",".join)
def test_kafka_python_refuses_lists_as_the_table_says(python: AskedLibrary, strategies: list[str]) -> None:
    assert refusal("kafka-python", strategies) == python.refusal(strategies)
