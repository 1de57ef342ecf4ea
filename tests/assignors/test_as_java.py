"""The plans of Kafka's own assignors, on seeded cases: every member gets the same partitions.

KCOORD_TEST_PLANS sets how many cases there are of each strategy, KCOORD_TEST_SEED the first one's seed.
"""

from dataclasses import replace
from random import Random

import pytest

from kcoord.assignors.sticky.mixed_topics import partition_hash
from kcoord.assignors.strategies import STRATEGIES
from kcoord.java_hashing import HashedSet, string_map_order, string_order
from kcoord.protocol.consumer_protocol import VERSIONS, Subscription, decode_subscription, write_subscription
from tests.assignors.cases import FIRST_SEED, PLANS, colliding_texts, make_case
from tests.assignors.java_assignors import JavaAssignors


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_plans_are_those_of_kafkas_assignors(java: JavaAssignors, strategy: str) -> None:
    different = []
    for seed in range(FIRST_SEED, FIRST_SEED + PLANS):
        case = make_case(strategy, seed)
        theirs, ours = java.plan(case), case.outcome()
        if isinstance(theirs, str) != isinstance(ours, str) or (isinstance(theirs, dict) and theirs != ours):
            different.append((seed, theirs, ours))
    assert not different, f"{len(different)} of {PLANS} plans are others, the first with {different[0]}"


@pytest.mark.parametrize("version", VERSIONS)
def test_java_encodes_subscriptions_the_same(java: JavaAssignors, version: int) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 50):
        for member in make_case("cooperative-sticky", seed).members:
            ours = write_subscription(member.subscription, version=version)
            assert java.encode_again(ours, version) == write_subscription(_in_order(ours), version=version)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 200))
def test_a_map_has_texts_in_javas_order(java: JavaAssignors, seed: int) -> None:
    rng = Random(seed)
    texts = [*colliding_texts(rng, rng.randint(0, 40)), *(f"{rng.getrandbits(40)}" for _ in range(rng.randint(0, 80)))]
    rng.shuffle(texts)
    assert string_map_order(texts) == java.in_map_order(texts)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 100))
def test_a_set_of_partitions_has_javas_first(java: JavaAssignors, seed: int) -> None:
    rng = Random(seed)
    step = rng.choice([1, 2, 8, 16, 32])
    changes = [rng.randint(0, 20) * step for _ in range(200)]
    ours, present, firsts = HashedSet(), set[int](), []
    for number in changes:
        if number in present:
            present.remove(number)
            ours.remove(number)
        else:
            present.add(number)
            ours.add(number, partition_hash(("topic", number)))
        firsts.append(ours.first() if ours else -1)
    assert firsts == java.firsts("topic", changes)


def _in_order(subscription: bytes) -> Subscription:
    """Decodes a subscription, and sorts its topics and partitions as Java does."""
    decoded = decode_subscription(subscription)
    owned = {topic: sorted(decoded.owned[topic]) for topic in sorted(decoded.owned, key=string_order)}
    topics = sorted(decoded.topics, key=string_order)
    return replace(decoded, topics=topics, owned=owned, rack=decoded.rack or None)  # Java drops an empty rack
