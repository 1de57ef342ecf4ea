"""Plays sequences: retries them if chance or a busy machine spoiled them, and shortens those with a difference."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.differential.groups.support.group_choices import ChoseDifferently
from tests.differential.groups.support.group_pair import GroupPair
from tests.differential.groups.support.group_requests import Profile, Scenario
from tests.differential.groups.support.group_times import Slipped
from tests.differential.sequences import shorten
from tests.support.differential.difference import Differs

MakeGroupPair = Callable[[Sequence[Profile], float], GroupPair]
"""Makes connections to both clusters for these actors, with a grid of so many seconds, and new groups."""

_grids: Final = (2.0, 2.0, 4.0, 4.0, 8.0, 8.0)  # the grids of successive attempts
_shortening: Final = 240.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How far a sequence was compared, and the difference that was found."""

    steps: int
    of: int
    difference: str | None = None

    @property
    def is_complete(self) -> bool:
        return self.steps == self.of


def play(make_pair: MakeGroupPair, scenario: Scenario) -> Played:
    """Plays the sequence to its end or to a difference; if chance or the machine interferes, as far as the best of some
    attempts gets.

    A difference that may be due to time must show twice.
    """
    played = _play(make_pair, scenario)
    return _play(make_pair, scenario) if played.difference and scenario.is_timed else played


def explain_shortened(make_pair: MakeGroupPair, scenario: Scenario, difference: str) -> str:
    """Explains the difference in the shortest part of the sequence that still has one."""
    deadline = time.monotonic() + _shortening

    def differs(indexes: Sequence[int]) -> bool:
        return time.monotonic() < deadline and play(make_pair, scenario.only(indexes)).difference is not None

    short = shorten(range(len(scenario.steps)), differs)
    shortest = play(make_pair, scenario.only(short)).difference or difference
    return f"shortened from {len(scenario.steps)} to {len(short)} steps:\n{shortest}"


def _play(make_pair: MakeGroupPair, scenario: Scenario) -> Played:
    best = Played(steps=0, of=len(scenario.steps))
    for grid in _grids:
        played = _play_once(make_pair, scenario, grid)
        if played.difference or played.is_complete:
            return played
        best = max(best, played, key=lambda each: each.steps)
    return best


def _play_once(make_pair: MakeGroupPair, scenario: Scenario, grid: float) -> Played:
    pair, done = make_pair(scenario.actors, grid), 0
    try:
        for step in scenario.steps:
            pair.take(step)
            done += 1
    except Differs as differs:
        return Played(steps=done, of=len(scenario.steps), difference=str(differs))
    except (ChoseDifferently, Slipped):
        pass
    finally:
        pair.delete_groups()
    return Played(steps=done, of=len(scenario.steps))
