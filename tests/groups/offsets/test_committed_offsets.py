"""The committed offsets of a group, staged for a while or not."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kcoord.groups.offsets import committed_offsets
from kcoord.groups.offsets.committed_offsets import CommittedOffsets, OffsetAndMetadata
from kcoord.groups.records import CommitPartitions, OffsetDeleted, OffsetsStored, RepeatedCommit

TOPIC_ID = UUID(int=7)
PARTITIONS = range(4)


def stored(topic: str, partitions: Sequence[int], at_ms: int = 0, offset: int = 0) -> OffsetsStored:
    count = len(partitions)
    offsets = tuple(range(offset, offset + count))
    return OffsetsStored("g", topic, tuple(partitions), offsets, (-1,) * count, ("",) * count, at_ms, None, TOPIC_ID)


def again(targets: CommitPartitions, at_ms: int) -> RepeatedCommit:
    """Returns a repeated commit with offsets that no other commit has."""
    return RepeatedCommit("g", targets, tuple(range(at_ms * 100, at_ms * 100 + targets.count)), at_ms)


parts = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=4)
commits = st.lists(st.tuples(st.sampled_from("tu"), parts), min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("again"), st.integers(0, 3)),
    st.tuples(st.just("keep"), commits),
    st.tuples(st.just("forget"), st.tuples(st.sampled_from("tu"), st.sampled_from(PARTITIONS))),
    st.tuples(st.just("look"), st.none()),
)


@given(st.lists(commits, min_size=4, max_size=4), st.lists(steps, max_size=30))
def test_the_last_that_was_committed_counts_in_whatever_order_it_came(
    repeated: list[list[tuple[str, list[int]]]], life: list[tuple[str, object]]
) -> None:
    targets = [CommitPartitions([stored(*topic) for topic in commit]) for commit in repeated]
    committed, plain = CommittedOffsets(), CommittedOffsets()
    for at_ms, (what, by) in enumerate(life, start=1):
        match what, by:
            case "again", int(number):
                record = again(targets[number], at_ms)
                committed.apply_repeated(record)
                for each in record.expand():
                    plain.apply(each)
            case "keep", list(topics):
                for topic, partitions in topics:
                    for offsets in (committed, plain):
                        offsets.apply(stored(topic, partitions, at_ms, at_ms * 100))
            case "forget", (str(topic), int(partition)):
                for offsets in (committed, plain):
                    offsets.forget(OffsetDeleted(group_id="g", topic=topic, partition=partition))
            case _:
                assert committed.by_topic() == plain.by_topic()
    assert committed.by_topic() == plain.by_topic()


def of_partition(committed: CommittedOffsets, partition: int) -> OffsetAndMetadata:
    return committed.by_topic()["t"][partition]


def test_who_commits_last_to_a_partition_that_two_commit_to_has_the_last_word() -> None:
    committed, ours, theirs = (
        CommittedOffsets(),
        CommitPartitions([stored("t", [0, 1])]),
        CommitPartitions([stored("t", [1, 2])]),
    )
    for at_ms, targets in enumerate((ours, theirs, ours), start=1):
        committed.apply_repeated(again(targets, at_ms))
    assert [of_partition(committed, partition)[0] for partition in range(3)] == [300, 301, 201]
    assert of_partition(committed, 1)[-1].committed_at_ms == 3


def test_no_more_waits_than_may() -> None:
    committed, count = CommittedOffsets(), 1000
    for number in range(150):
        committed.apply_repeated(again(CommitPartitions([stored(f"t{number}", range(count))]), number))
        assert sum(each.partitions.count for each in committed._staged.values()) <= committed_offsets._MAX_STAGED
    assert len(committed.by_topic()) == 150


def test_the_same_commit_again_and_again_waits_once() -> None:
    committed, targets = CommittedOffsets(), CommitPartitions([stored("t", range(1000))])
    for at_ms in range(1, 1001):
        committed.apply_repeated(again(targets, at_ms))
    assert len(committed._staged) == 1
    assert of_partition(committed, 5)[0] == 100_005
