"""Selections of partitions."""

import pytest

from kcoord.admin.model import Topic, TopicPartition
from kcoord.admin.offsets.selecting import BadSelection, Selection, parse_selection, selected, selects

TOPICS = {
    "orders": Topic(name="orders", id=None, is_internal=False, leaders={0: 1, 1: 1, 2: -1}),
    "bills": Topic(name="bills", id=None, is_internal=False, leaders={0: 1}),
}


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("orders", None),
        ("orders:0", (0,)),
        ("orders:3,1", (1, 3)),
        ("orders:0,1-3", (0, 1, 2, 3)),
        ("orders: 1 - 2 , 7", (1, 2, 7)),
        ("orders:2-2,2", (2,)),
    ],
)
def test_a_selection_is_a_topic_and_perhaps_partitions_and_ranges(
    text: str, partitions: tuple[int, ...] | None
) -> None:
    assert parse_selection(text) == Selection(topic="orders", partitions=partitions)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no topic"),
        (":0", "names no topic"),
        ("orders:", "'' is not a partition"),
        ("orders:x", "'x' is not a partition or a range"),
        ("orders:-1", "'-1' is not a partition"),
        ("orders:1,,2", "'' is not a partition"),
        ("orders:0:1", "'0:1' is not a partition"),
        ("orders:٣", "is not a partition"),
        ("orders:3-1", "ends before it begins"),
        ("orders:0-4000000000", "more partitions than any topic"),
    ],
)
def test_what_names_no_partitions_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(BadSelection, match=message):
        parse_selection(text)


def test_partitions_that_are_named_twice_are_meant_once() -> None:
    both = [parse_selection("orders"), parse_selection("orders:1"), parse_selection("bills:0")]
    assert [str(tp) for tp in selected(both, TOPICS)] == ["bills-0", "orders-0", "orders-1", "orders-2"]


def test_all_that_does_not_exist_is_named_at_once() -> None:
    with pytest.raises(BadSelection, match="no topic 'nowhere', no partition orders-7, no partition orders-8"):
        selected([parse_selection("nowhere"), parse_selection("orders:0,7,8")], TOPICS)


def test_partitions_can_be_judged_without_knowing_the_topics() -> None:
    selections = [parse_selection("orders:0"), parse_selection("gone")]
    chosen = [TopicPartition("orders", 0), TopicPartition("gone", 9)]
    others = [TopicPartition("orders", 1), TopicPartition("order", 0)]
    assert all(selects(selections, tp) for tp in chosen)
    assert not any(selects(selections, tp) for tp in others)
