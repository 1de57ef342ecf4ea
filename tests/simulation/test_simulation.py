"""Simulates many seeds, each the whole life of a cluster: KCOORD_SIMULATION_SEEDS of KCOORD_SIMULATION_STEPS steps."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.simulation.simulation import Simulation, run_all

SEEDS: Final = int(os.environ.get("KCOORD_SIMULATION_SEEDS", "200"))
STEPS: Final = int(os.environ.get("KCOORD_SIMULATION_STEPS", "1000"))
AT_ONCE: Final = 20


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_whatever_happens_promises_are_kept_and_groups_become_stable(first: int) -> None:
    run_all(range(first, min(first + AT_ONCE, SEEDS)), STEPS)


def test_a_seed_is_told_the_same_way_by_another_process() -> None:
    simulation = Simulation(17, 300)
    simulation.run()
    root = Path(__file__).parent.parent.parent
    environment = {**os.environ, "KCOORD_SIMULATION_STEPS": "300", "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-m", "tests.simulation", "17"]
    diary = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout
    assert diary == simulation.environment.format_diary() + "\n"
