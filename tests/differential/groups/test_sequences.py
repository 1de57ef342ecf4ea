"""Random sequences of group requests, to a real Kafka and to kcoord.

KCOORD_TEST_GROUP_SEQUENCES sets how many, KCOORD_TEST_SEED the first seed; a long run is
`KCOORD_TEST_GROUP_SEQUENCES=3000 pytest tests/differential/groups/test_sequences.py`.
"""

import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.differential.groups.support.group_requests import Scenario
from tests.differential.groups.support.group_runs import MakeGroupPair, Played, explain_shortened, play
from tests.differential.groups.support.group_sequences import make_scenario, make_timed_scenario

_REPLAY = "KCOORD_TEST_SEED={seed} KCOORD_TEST_GROUP_SEQUENCES=1 pytest tests/differential/groups/test_sequences.py"

_first = int(os.environ.get("KCOORD_TEST_SEED", "1"))
_count = int(os.environ.get("KCOORD_TEST_GROUP_SEQUENCES", "100"))

_end_of_timed = _first + (_count + 3) // 4
_together = 25  # sequences that wait at the same time
_timed = [range(seed, min(seed + _together, _end_of_timed)) for seed in range(_first, _end_of_timed, _together)]


@pytest.mark.parametrize("seed", range(_first, _first + _count))
def test_a_random_life_of_a_group_is_answered_the_same(make_group_pair: MakeGroupPair, seed: int) -> None:
    scenario = make_scenario(seed)
    _fail_if_different(make_group_pair, seed, scenario, play(make_group_pair, scenario))


@pytest.mark.parametrize("seeds", _timed, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_random_lives_in_which_time_runs_out_are_answered_the_same(
    make_group_pair: MakeGroupPair, seeds: Sequence[int]
) -> None:
    def play_in_turn(scenario: Scenario) -> Played:
        time.sleep(random.random())  # spreads their work over time
        return play(make_group_pair, scenario)

    scenarios = [make_timed_scenario(seed) for seed in seeds]
    with ThreadPoolExecutor(len(scenarios)) as players:
        results = list(players.map(play_in_turn, scenarios))
    for seed, scenario, played in zip(seeds, scenarios, results, strict=True):
        _fail_if_different(make_group_pair, seed, scenario, played)
    assert any(played.is_complete for played in results), "the machine is too slow: all of them had to be given up"


def _fail_if_different(make_pair: MakeGroupPair, seed: int, scenario: Scenario, played: Played) -> None:
    __tracebackhide__ = True
    if played.difference:
        explanation = explain_shortened(make_pair, scenario, played.difference)
        pytest.fail(f"seed {seed}, {explanation}\nto play it again:\n{_REPLAY.format(seed=seed)}", pytrace=False)
