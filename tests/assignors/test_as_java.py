"""The plans of Kafka's own assignors, on seeded cases: every member gets the same partitions.

KCOORD_TEST_PLANS sets how many cases there are of each strategy, KCOORD_TEST_SEED the first one's seed.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from kcoord.assignors.plan import AssignorFailed
from kcoord.assignors.strategies import STRATEGIES
from kcoord.java_hashing import string_order
from kcoord.protocol.consumer_protocol import VERSIONS, Subscription, decode_subscription, write_subscription
from tests.assignors.cases import Case, make_case
from tests.assignors.java_assignors import JavaAssignors, java_assignors

PLANS: Final = int(os.environ.get("KCOORD_TEST_PLANS", "500"))
FIRST_SEED: Final = int(os.environ.get("KCOORD_TEST_SEED", "1"))


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAssignors]:
    with java_assignors() as assignors:
        yield assignors


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_plans_are_those_of_kafkas_assignors(java: JavaAssignors, strategy: str) -> None:
    different = []
    for seed in range(FIRST_SEED, FIRST_SEED + PLANS):
        case = make_case(strategy, seed)
        theirs, ours = java.plan(case), _plan(case)
        if isinstance(theirs, str) != isinstance(ours, str) or (isinstance(theirs, dict) and theirs != ours):
            different.append((seed, theirs, ours))
    assert not different, f"{len(different)} of {PLANS} plans are others, the first with {different[0]}"


@pytest.mark.parametrize("version", VERSIONS)
def test_java_encodes_subscriptions_the_same(java: JavaAssignors, version: int) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        for member in make_case("cooperative-sticky", seed).members:
            ours = write_subscription(member.subscription, version=version)
            assert java.encode_again(ours, version) == write_subscription(_in_order(ours), version=version)


def _in_order(subscription: bytes) -> Subscription:
    """Decodes a subscription, and sorts its topics and partitions as Java does."""
    decoded = decode_subscription(subscription)
    owned = {topic: sorted(decoded.owned[topic]) for topic in sorted(decoded.owned, key=string_order)}
    return replace(decoded, topics=sorted(decoded.topics, key=string_order), owned=owned)


def _plan(case: Case) -> dict[str, dict[str, set[int]]] | str:
    try:
        plan = case.plan()
    except AssignorFailed as failed:
        return str(failed)
    return {member: {topic: set(numbers) for topic, numbers in held.items()} for member, held in plan.items()}
