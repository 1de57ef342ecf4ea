"""Committed offsets: columns as they were received, and single partitions on demand."""

from hypothesis import given
from hypothesis import strategies as st

from kcoord.admin.groups.committed_offsets import Commits, TopicCommits, commits_of
from kcoord.admin.model import Committed, TopicPartition
from tests.support.admin.snapshots import tp

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["orders", "paid"]), st.integers(0, 5))
COMMITTED = st.builds(
    Committed, st.integers(0, 20), st.integers(-1, 3), st.sampled_from(["", "note"]), st.none() | st.just(3)
)


def test_each_partition_has_what_its_columns_say() -> None:
    commits = Commits(
        [
            TopicCommits("orders", (0, 2), (7, 9), (-1, 4), [None, "note"]),
            TopicCommits("paid", (1,), (5,), (0,), [""], reported_lags=(3,)),
        ]
    )
    assert commits == {
        tp("orders-0"): Committed(7),
        tp("orders-2"): Committed(9, 4, "note"),
        tp("paid-1"): Committed(5, 0, reported_lag=3),
    }
    assert len(commits) == 3
    assert tp("orders-1") not in commits
    assert not Commits()


@given(st.dictionaries(PARTITIONS, COMMITTED, max_size=8))
def test_what_is_known_one_by_one_is_the_same_in_columns(offsets: dict[TopicPartition, Committed]) -> None:
    commits = commits_of(offsets)
    assert commits == offsets
    assert {each.topic for each in commits.topics} == {each.topic for each in offsets}
    assert sum(len(each.partitions) for each in commits.topics) == len(offsets)
