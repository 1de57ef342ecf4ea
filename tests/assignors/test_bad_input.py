"""What assignors do with input that no healthy group has: as Kafka's, which are asked wherever they take such input."""

import random
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

import pytest

from kcoord.assignors.plan import AssignorFailed, Subscriber, Topics
from kcoord.assignors.strategies import STRATEGIES
from kcoord.assignors.subscriptions import OwnedFrom, UnreadableSubscription, decode_subscriber
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    write_sticky_user_data,
    write_subscription,
)
from tests.assignors.cases import FIRST_SEED, PLANS, Case, CaseMember, make_case
from tests.assignors.java_assignors import JavaAssignors

CLIENT_SIDE: Final = [name for name, strategy in STRATEGIES.items() if not strategy.is_server_side]
EACH: Final = pytest.mark.parametrize("strategy", STRATEGIES)
EACH_CLIENT_SIDE: Final = pytest.mark.parametrize("strategy", CLIENT_SIDE)

GOOD: Final = write_subscription(Subscription(topics=("a", "b"), owned={"a": (0, 1)}, generation=3, rack="r1"))
LONGEST: Final = b"\x7f\xff\xff\xff"
MALFORMED: Final = {
    "no bytes": b"",
    "half a version": b"\x00",
    "a version and nothing else": b"\x00\x03",
    "a negative version": b"\xff\xff" + GOOD[2:],
    "no topics": b"\x00\x00\xff\xff\xff\xff",
    "two thousand million topics": b"\x00\x00" + LONGEST + b"\x00\x01a",
    "a topic without a name": b"\x00\x00\x00\x00\x00\x01\xff\xff",
    "a topic with a name of 32,767 bytes": b"\x00\x00\x00\x00\x00\x01\x7f\xffa",
    "user data of two thousand million bytes": b"\x00\x00\x00\x00\x00\x00" + LONGEST + b"x",
    "two thousand million owned topics": b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff" + LONGEST,
    "two thousand million owned partitions": b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x01\x00\x01a"
    + LONGEST,
    "no generation": GOOD[:-8],
    "half a rack": GOOD[:-1],
}
UNLIKELY: Final = {
    "a version that is not known": b"\x7f\xff" + GOOD[2:],
    "bytes behind the end": GOOD + b"more",
    "a topic whose name is not UTF-8": b"\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x06\xff\xc3\xed\xa0\x80b" + b"\xff" * 4,
    "a topic without a letter": b"\x00\x00\x00\x00\x00\x02\x00\x01a\x00\x00\xff\xff\xff\xff",
    "an owned topic that is listed twice": (
        b"\x00\x01\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x02"
        b"\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x00"
    ),
    "a rack that is empty": write_subscription(Subscription(topics=("a",), rack="")),
}


def _member(
    member_id: str,
    *topics: str,
    content: bytes | None = None,
    owned: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> CaseMember:
    user_data = write_sticky_user_data(OwnedPartitions(owned=owned, generation=3)) if owned else None
    subscription = Subscription(topics=topics, user_data=user_data, owned=owned, generation=3)
    return CaseMember(member_id=member_id, subscription=subscription, version=3, target=owned, malformed=content)


def _case(strategy: str, *members: CaseMember, **counts: int) -> Case:
    topics = {*counts, *(topic for each in members for topic in (*each.subscription.topics, *each.target))}
    ids = {topic: UUID(int=rank) for rank, topic in enumerate(sorted(topics), start=1)}
    return Case(strategy=strategy, counts=counts, members=members, topic_ids=ids)


@pytest.mark.parametrize("name", MALFORMED)
@EACH_CLIENT_SIDE
def test_a_malformed_subscription_fails_the_group_as_it_fails_javas_leader(
    java: JavaAssignors, strategy: str, name: str
) -> None:
    case = _case(strategy, _member("good", "a"), _member("bad", "a", content=MALFORMED[name]), a=2)
    with pytest.raises(UnreadableSubscription, match="the subscription of bad is malformed"):
        case.plan()
    assert isinstance(java.plan(case), str)


@pytest.mark.parametrize("name", UNLIKELY)
@EACH_CLIENT_SIDE
def test_an_unlikely_subscription_is_read_as_java_reads_it(java: JavaAssignors, strategy: str, name: str) -> None:
    case = _case(
        strategy, _member("good", "a", owned={"a": (1,)}), _member("odd", "a", content=UNLIKELY[name]), a=4, b=1
    )
    assert case.outcome() == java.plan(case)


@EACH_CLIENT_SIDE
def test_subscriptions_with_changed_bytes_have_the_outcome_of_java(java: JavaAssignors, strategy: str) -> None:
    different = []
    for seed in range(FIRST_SEED, FIRST_SEED + PLANS):
        rng = random.Random(seed)
        case = make_case(strategy, seed)
        damaged = rng.randrange(len(case.members))
        members = [
            replace(each, malformed=_damaged(rng, each.content)) if number == damaged else each
            for number, each in enumerate(case.members)
        ]
        case = replace(case, members=members)
        theirs, ours = java.plan(case), case.outcome()
        if isinstance(theirs, str) != isinstance(ours, str) or (isinstance(theirs, dict) and theirs != ours):
            different.append((seed, theirs, ours))
    assert not different, f"{len(different)} of {PLANS} outcomes are others, the first with {different[0]}"


def _damaged(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        position = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                del changed[position:]
            case 1:
                changed[position:position] = rng.randbytes(rng.randint(1, 4))
            case 2:
                changed[position : position + 1] = rng.randbytes(1)
            case _:
                changed[position : position + 4] = rng.choice([LONGEST, bytes(4), b"\xff" * 4])
    return bytes(changed) or b"\x00"


def test_a_malformed_subscription_fails_with_the_name_of_its_member() -> None:
    """It is one of the failures of an assignor, since it fails the whole group in Java's leader, too."""
    source = OwnedFrom.STICKY_USER_DATA
    assert decode_subscriber("good", GOOD, source, instance_id="i1").instance_id == "i1"
    with pytest.raises(AssignorFailed, match="the subscription of bad is malformed: the body ends too early"):
        decode_subscriber("bad", GOOD[:-1], source)


@EACH
def test_a_group_without_members_has_an_empty_plan(java: JavaAssignors, strategy: str) -> None:
    """Kafka never asks for one. Its round-robin and its sticky assignors would throw an exception."""
    assert STRATEGIES[strategy].assign([], Topics(counts={"a": 2})) == {}
    throws = strategy in ("roundrobin", "sticky", "cooperative-sticky")
    assert isinstance(java.plan(_case(strategy, a=2)), str) == throws


@EACH
def test_topics_that_do_not_exist_or_are_empty_are_nobodys(java: JavaAssignors, strategy: str) -> None:
    case = _case(
        strategy,
        _member("m", "a", "empty", "gone", owned={"gone": (0, 1), "empty": (0,)}),
        _member("n", "gone"),
        a=2,
        empty=0,
    )
    if strategy == "uniform":
        case = replace(case, members=[replace(each, target={}) for each in case.members])
    assert case.outcome() == java.plan(case) == {"m": {"a": {0, 1}}, "n": {}}


@EACH
def test_of_two_members_with_one_id_the_last_one_counts(strategy: str) -> None:
    """A JoinGroup response cannot have both, and Java's maps would have one of them."""
    twice = [Subscriber(member_id="m", topics=("a",)), Subscriber(member_id="m", topics=("b",))]
    assert STRATEGIES[strategy].assign(twice, Topics(counts={"a": 1, "b": 1})) in (
        {"m": {"b": range(1)}},
        {"m": {"b": [0]}},
    )


@pytest.mark.parametrize("generations", [(3, 3), (3, 4), (4, 3), (3, None), (None, None)])
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_a_partition_that_two_members_claim_goes_to_the_newer_generation_or_to_neither(
    java: JavaAssignors, strategy: str, generations: tuple[int | None, int | None]
) -> None:
    members = []
    for name, generation in zip("mn", generations, strict=True):
        owned = {"a": (0, 1)}
        user_data = write_sticky_user_data(OwnedPartitions(owned=owned, generation=generation))
        subscription = Subscription(topics=("a",), user_data=user_data, owned=owned, generation=generation)
        members.append(CaseMember(member_id=name, subscription=subscription, version=3, target=owned))
    case = _case(strategy, *members, a=4)
    plan = case.outcome()
    assert plan == java.plan(case)
    assert isinstance(plan, dict)
    newer: dict[tuple[int | None, int | None], str] = {(3, 4): "n", (4, 3): "m", (3, None): "m"}
    assert generations not in newer or plan[newer[generations]] == {"a": {0, 1}}


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_a_partition_that_a_member_claims_twice_has_the_outcome_of_java(java: JavaAssignors, strategy: str) -> None:
    """The second claim may win against the first one, if the generation of the user data is newer than the field."""
    others = (_member("mn", "a", owned={"a": (0,)}), _member("z", "b", owned={"b": (0,)}))
    for field in (None, 3):
        twice = _member("m", "a", owned={"a": (1, 0, 0)})
        twice = replace(twice, subscription=replace(twice.subscription, generation=field))
        for members in ((twice,), (twice, others[0]), (twice, *others)):
            case = _case(strategy, *members, a=4, b=1)
            assert case.outcome() == java.plan(case)


@pytest.mark.parametrize("number", [-(2**31), -1, 4, 99, 2**31 - 1])
@EACH_CLIENT_SIDE
def test_a_partition_that_does_not_exist_has_the_outcome_of_java(
    java: JavaAssignors, strategy: str, number: int
) -> None:
    for others in ((), (_member("z", "b", owned={"b": (0,)}),)):
        case = _case(
            strategy,
            _member("m", "a", owned={"a": (0, number)}),
            _member("n", "a", owned={"a": (1, 2)}),
            *others,
            a=4,
            b=1,
        )
        theirs, ours = java.plan(case), case.outcome()
        assert isinstance(theirs, str) == isinstance(ours, str)
        assert isinstance(theirs, str) or theirs == ours


@pytest.mark.parametrize("user_data", [b"", b"\x00", b"\xff" * 9, b"\x00\x00\x00\x01\x00\x01a" + LONGEST, LONGEST * 3])
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_malformed_user_data_is_as_good_as_none(java: JavaAssignors, strategy: str, user_data: bytes) -> None:
    content = write_subscription(Subscription(topics=("a",), user_data=user_data, owned={"a": (2,)}), version=1)
    case = _case(strategy, _member("m", "a", content=content), _member("n", "a", owned={"a": (0, 1)}), a=4)
    assert case.outcome() == java.plan(case)


def test_an_uneven_claim_of_a_huge_number_takes_no_memory() -> None:
    content = write_subscription(Subscription(topics=("a",), owned={"a": (2**31 - 1,)}, generation=1))
    subscriber = decode_subscriber("m", content, OwnedFrom.FIELDS)
    assert subscriber.owned == {"a": (2**31 - 1,)}


def test_a_new_plan_counts_the_topics_that_are_gone_in_the_map_of_what_a_member_has(java: JavaAssignors) -> None:
    """A Java map of 13 topics has another order than one of 12."""
    topics = [f"t{number}" for number in range(13)]
    owned = {topic: tuple(range(4)) for topic in topics}
    members = [_member("m", *topics, owned=owned), _member("n", *topics)]
    case = _case("uniform", *members, **dict.fromkeys(topics[1:], 4))
    ids = {topic: UUID(int=17 * rank) for rank, topic in enumerate(topics, start=1)}
    case = replace(case, topic_ids=ids)
    assert case.outcome() == java.plan(case)
