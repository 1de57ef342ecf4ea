"""Lag in records and in time, of partitions and of groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.admin.groups.committed_offsets import commits_of
from kcoord.admin.groups.group_snapshot import (
    GroupSnapshot,
    GroupSummary,
    PartitionLag,
    UnownedPartitions,
    max_known,
    summarize,
)
from kcoord.admin.model import Bounds, Committed, TopicPartition
from tests.support.admin.snapshots import NOW, group, member, seen, seen_partition, tp


def partition(
    committed: int | None, bounds: tuple[int, int] | None, *, reported_lag: int | None = None, age: float | None = None
) -> PartitionLag:
    return seen_partition(
        tp=tp("orders-0"),
        committed=None if committed is None else Committed(committed, reported_lag=reported_lag),
        bounds=None if bounds is None else Bounds(*bounds),
        owner=None,
        next_record_at=None if age is None else round((NOW - age) * 1000),
    )


@pytest.mark.parametrize(
    ("what", "lag"),
    [
        (partition(7, (0, 10)), 3),
        (partition(10, (0, 10)), 0),
        (partition(12, (0, 10)), -2),  # Kafka's tool prints this
        (partition(0, (5, 10)), 10),  # and this, although five of the records are deleted
        (partition(None, (0, 10)), None),
        (partition(7, None), None),
        (partition(7, (0, 10), reported_lag=1), 1),
        (partition(7, None, reported_lag=1), 1),
    ],
)
def test_lag_counts_from_the_committed_offset_to_the_end(what: PartitionLag, lag: int | None) -> None:
    assert what.lag == lag


@pytest.mark.parametrize(
    ("what", "seconds"),
    [
        (partition(7, (0, 10), age=60), 60.0),
        (partition(7, (0, 10), age=-60), 0.0),  # a producer whose clock is ahead
        (partition(10, (0, 10)), 0.0),
        (partition(12, (0, 10)), None),  # beyond the end: the next record is unknown
        (partition(7, (0, 10)), None),
        (partition(None, (0, 10)), None),
        (partition(7, None), None),
    ],
)
def test_lag_in_time_is_the_age_of_the_first_record_that_is_not_consumed(
    what: PartitionLag, seconds: float | None
) -> None:
    assert what.lag_seconds(NOW) == seconds


def test_a_group_adds_up_what_is_known_and_is_as_late_as_its_latest_partition() -> None:
    group_snapshot = seen(
        group(), {"orders-0": (1, 0, 10), "orders-1": (None, 0, 5), "paid-0": (2, 0, 4)}, next_record_at=NOW - 9
    )
    assert group_snapshot.total_lag == 11
    assert group_snapshot.worst_seconds(NOW) == 9
    assert group_snapshot.topics == ("orders", "paid")


def test_that_some_partitions_are_caught_up_says_nothing_of_others() -> None:
    group_snapshot = seen(group(), {"orders-0": (1, 0, 10), "orders-1": (10, 0, 10)})
    assert group_snapshot.worst_seconds(NOW) is None
    assert max_known([(0, 0.0), (5, None), (3, 60.0)]) == 60.0, "at least"
    assert max_known([(0, 0.0), (-3, 0.0)]) == 0.0
    assert max_known([(None, None)]) is None


AGES = st.none() | st.floats(-100, 1e6)
PARTITIONS = st.builds(
    partition,
    st.none() | st.integers(0, 20),
    st.none() | st.just((0, 10)),
    reported_lag=st.none() | st.just(3),
    age=AGES,
)


@given(st.lists(PARTITIONS, max_size=6))
def test_a_group_is_as_late_as_the_latest_of_its_partitions_one_by_one(partitions: list[PartitionLag]) -> None:
    group_snapshot = GroupSnapshot(group=group(), partitions=tuple(partitions))
    assert group_snapshot.worst_seconds(NOW) == max_known((each.lag, each.lag_seconds(NOW)) for each in partitions)


def test_a_group_of_which_nothing_is_known_has_no_lag_rather_than_none() -> None:
    group_snapshot = seen(group(member("a", "orders-0")), {"orders-0": (None, 0, 10)})
    assert group_snapshot.total_lag is None
    assert group_snapshot.worst_seconds(NOW) is None


NAMES = st.builds(TopicPartition, st.sampled_from(["orders", "paid"]), st.integers(0, 2))
COMMITTED = st.builds(Committed, st.integers(0, 20), reported_lag=st.none() | st.integers(0, 3))


@given(
    st.dictionaries(NAMES, COMMITTED), st.dictionaries(NAMES, st.integers(0, 20)), st.lists(NAMES.map(str), unique=True)
)
def test_a_group_comes_to_the_same_without_its_partitions(
    offsets: dict[TopicPartition, Committed], ends: dict[TopicPartition, int], owned: list[str]
) -> None:
    owners = group(member("a", *owned))
    partitions = [
        seen_partition(each, offsets.get(each), Bounds(0, ends[each]) if each in ends else None, None)
        for each in {*offsets, *map(tp, owned)}
    ]
    group_snapshot = GroupSnapshot(group=owners, partitions=tuple(partitions))
    assert summarize(owners, commits_of(offsets), bounds_by_topic(ends)) == GroupSummary(
        owners, group_snapshot.topics, group_snapshot.total_lag
    )


def bounds_by_topic(ends: dict[TopicPartition, int]) -> dict[str, dict[int, Bounds]]:
    return {topic: {n: Bounds(0, end) for (of, n), end in ends.items() if of == topic} for topic, _ in ends}


@given(st.dictionaries(NAMES, COMMITTED), st.dictionaries(NAMES, st.integers(0, 20)))
def test_partitions_that_nobody_owns_are_the_same_in_columns(
    offsets: dict[TopicPartition, Committed], ends: dict[TopicPartition, int]
) -> None:
    one_by_one = [
        seen_partition(each, offsets[each], Bounds(0, ends[each]) if each in ends else None, None)
        for each in sorted(offsets)
    ]
    columns = UnownedPartitions(commits_of(offsets).in_order(), bounds_by_topic(ends))

    assert list(columns) == one_by_one
    assert len(columns) == len(one_by_one)
    slow = GroupSnapshot(group=group(), partitions=tuple(one_by_one))
    quick = GroupSnapshot(group=group(), partitions=columns)
    assert (quick.total_lag, quick.worst_seconds(NOW), quick.topics) == (
        *(slow.total_lag, slow.worst_seconds(NOW)),
        slow.topics,
    )
