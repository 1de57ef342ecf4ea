"""The range assignor of Kafka's clients. tests/integration/groups/test_doctor.py compares it with a real group."""

from typing import Final

import pytest

from kcoord.assignors.plan import Subscriber, Topics, list_partitions, shares, spread
from kcoord.assignors.range import assign_range

SIZES: Final = {"one": 1, "two": 2, "also": 2, "four": 4, "five": 5, "seven": 7}

# The plans of org.apache.kafka.clients.consumer.RangeAssignor of Kafka 4.3.1: by member id, the instance id, the topics
# of the subscription, and the assignment.
OF_JAVA: Final[dict[str, dict[str, tuple[str | None, str, str]]]] = {
    "sizes that do not divide": {
        "a": (None, "one four five", "five-0 five-1 five-2 four-0 four-1 one-0"),
        "b": (None, "one four five", "five-3 five-4 four-2 four-3"),
    },
    "subscriptions that differ": {
        "a": (None, "four five seven", "five-0 five-1 four-0 four-1 seven-0 seven-1 seven-2 seven-3"),
        "b": (None, "four five", "five-2 five-3 four-2 four-3"),
        "c": (None, "five seven", "five-4 seven-4 seven-5 seven-6"),
    },
    "static members": {
        "a": (None, "four five", "five-4 four-3"),
        "b": ("z", "four five", "five-2 five-3 four-2"),
        "c": ("y", "four five", "five-0 five-1 four-0 four-1"),
    },
    "fewer partitions than members": {
        "a": (None, "two also", "also-0 two-0"),
        "b": (None, "two also", "also-1 two-1"),
        "c": (None, "two also", ""),
    },
}


def _subscribers(*names: str, topics: tuple[str, ...] = ("a", "b")) -> list[Subscriber]:
    return [Subscriber(member_id=name, topics=topics) for name in names]


def test_each_topic_is_cut_into_neighbouring_pieces_of_which_the_first_are_larger() -> None:
    plan = assign_range(_subscribers("x", "y", "z", topics=("a",)), Topics(counts={"a": 7}))
    assert plan == {
        "x": {"a": range(3)},
        "y": {"a": range(3, 5)},
        "z": {"a": range(5, 7)},
    }


def test_over_many_topics_the_first_member_gets_one_more_of_each() -> None:
    topics = tuple(f"t{number}" for number in range(10))
    plan = assign_range(_subscribers("x", "y", topics=topics), Topics(counts=dict.fromkeys(topics, 3)))
    assert shares(plan) == [20, 10]
    assert spread(plan) == 10


def test_members_beyond_the_partitions_get_nothing() -> None:
    plan = assign_range(_subscribers("x", "y", "z"), Topics(counts={"a": 2, "b": 1}))
    assert plan == {"x": {"a": range(1), "b": range(1)}, "y": {"a": range(1, 2)}, "z": {}}


def test_static_members_come_first_by_instance_id() -> None:
    group = [
        Subscriber(member_id="a-dynamic", topics=("a",)),
        Subscriber(member_id="z-1", instance_id="i2", topics=("a",)),
        Subscriber(member_id="z-2", instance_id="i1", topics=("a",)),
    ]
    assert assign_range(group, Topics(counts={"a": 2})) == {
        "z-2": {"a": range(1)},
        "z-1": {"a": range(1, 2)},
        "a-dynamic": {},
    }


def test_a_topic_goes_to_its_subscribers_and_one_that_does_not_exist_to_nobody() -> None:
    group = [Subscriber(member_id="x", topics=("a", "gone")), Subscriber(member_id="y", topics=("b",))]
    assert assign_range(group, Topics(counts={"a": 1, "b": 2})) == {"x": {"a": range(1)}, "y": {"b": range(2)}}


def test_nobody_gets_nothing() -> None:
    assert assign_range([], Topics(counts={"a": 1})) == {}
    assert spread({}) == 0


@pytest.mark.parametrize("case", OF_JAVA)
def test_javas_assignor_gives_the_same(case: str) -> None:
    members = OF_JAVA[case]
    group = [
        Subscriber(member_id=name, instance_id=instance_id, topics=topics.split())
        for name, (instance_id, topics, _) in members.items()
    ]
    plan = assign_range(group, Topics(counts=SIZES))
    given = {
        name: " ".join(sorted(f"{topic}-{index}" for topic, index in list_partitions(plan[name]))) for name in plan
    }
    assert given == {name: got for name, (_, _, got) in members.items()}
