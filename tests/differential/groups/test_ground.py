"""Tests of the comparison itself: equal coordinators do not differ, and one with a fault is detected."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcoord.api_keys import ApiKey
from tests.differential.groups.support.group_clusters import GroupCluster
from tests.differential.groups.support.group_memory import Memory
from tests.differential.groups.support.group_pair import GroupPair
from tests.differential.groups.support.group_requests import Ask, Generation, Profile, Scenario
from tests.differential.groups.support.group_runs import MakeGroupPair, explain_shortened, play
from tests.differential.groups.support.group_sequences import make_scenario
from tests.differential.groups.support.group_side import GroupSide


@pytest.mark.parametrize("seed", range(9001, 9011))
def test_a_broker_does_not_differ_from_itself(kafka_for_groups: GroupCluster, seed: int) -> None:
    def make(actors: Sequence[Profile], grid: float) -> GroupPair:
        return GroupPair(kafka_for_groups.side(grid), kafka_for_groups.side(grid), actors)

    played = play(make, make_scenario(seed))
    assert played.difference is None
    assert played.steps


class _Blind(GroupSide):
    """A coordinator that ignores the generation of heartbeats."""

    def ask(self, number: int, ask: Ask) -> None:
        if ask.api_key == ApiKey.HEARTBEAT:
            ask = replace(ask, values={**ask.values, "generation_id": Generation(ask.actor)})
        super().ask(number, ask)


class _Lingering(GroupSide):
    """A coordinator that removes no member on LeaveGroup."""

    def ask(self, number: int, ask: Ask) -> None:
        if ask.api_key == ApiKey.LEAVE_GROUP:
            ask = replace(ask, values={**ask.values, "members": [], "member_id": ""})
        super().ask(number, ask)


@pytest.mark.parametrize(
    ("faulty", "field", "steps"), [(_Blind, "error_code: Kafka 'illegal_generation'", 3), (_Lingering, "members", 3)]
)
def test_a_fault_is_found_and_shown_in_few_steps(
    kafka_for_groups: GroupCluster, faulty: type[GroupSide], field: str, steps: int
) -> None:
    def make(actors: Sequence[Profile], grid: float) -> GroupPair:
        side = kafka_for_groups.side(grid)
        memory = Memory(naming=side.memory.naming, prefix=side.memory.prefix, grid=grid)
        side.close()
        return GroupPair(kafka_for_groups.side(grid), faulty(address=side.address, memory=memory), actors)

    explanation = explain_shortened(make, *_first_difference(make))
    assert field in explanation
    shown = [line for line in explanation.splitlines() if line[:1].isdigit()]
    assert len(shown) <= steps, explanation


def _first_difference(make: MakeGroupPair) -> tuple[Scenario, str]:
    for seed in range(1, 200):
        played = play(make, make_scenario(seed))
        if played.difference:
            return make_scenario(seed), played.difference
    raise AssertionError("the fault was not found in 200 sequences")
