"""Commits that come again and again: written another way, read back the same."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.groups.records import GroupDeleted, OffsetsStored, Record
from kcoord.journal.encoding import SealedBatch
from kcoord.journal.usual_commits import UsualCommits
from kcoord.wire.records import read_records
from tests.journal.test_encoding import NOW_MS, read_back, single, written

int32 = st.integers(0, 2**31 - 1)
offsets = st.integers(-(2**63), 2**63 - 1)
columns = st.lists(st.tuples(int32, st.integers(-1, 5)), min_size=1, max_size=70)
topics = st.lists(
    st.tuples(st.sampled_from(["t", "another", "t"]), columns, st.none() | st.uuids()), min_size=1, max_size=4
)


def commit(
    group_id: str, of: list[tuple[str, tuple[int, ...], tuple[int, ...], UUID | None]], at_ms: int
) -> list[Record]:
    """The facts of a commit to these topics, the columns the very same each time."""
    return [
        OffsetsStored(
            group_id,
            topic,
            partitions,
            tuple(at_ms + p for p in partitions),
            epochs,
            NO_TEXTS[len(partitions)],
            at_ms,
            None,
            topic_id,
        )
        for topic, partitions, epochs, topic_id in of
    ]


NO_TEXTS = [("",) * count for count in range(1001)]


@given(st.text(max_size=10), topics)
def test_a_commit_that_is_known_is_read_back_as_one_that_is_not(
    group_id: str, asked: list[tuple[str, list[tuple[int, int]], UUID | None]]
) -> None:
    usual = UsualCommits()
    of = [(topic, tuple(p for p, _ in lines), tuple(e for _, e in lines), topic_id) for topic, lines, topic_id in asked]
    for again in range(4):
        facts = commit(group_id, of, NOW_MS + again)
        batch = usual.batch_of(facts, NOW_MS + again)
        assert (batch is not None) == (again >= 2 and sum(len(each[1]) for each in of) >= 8)
        if batch is not None:
            assert single(read_back([batch])) == single(facts)
            ordinary = [record for each in written(facts, NOW_MS + again) for record in read_records(each.sealed())]
            alone = list(read_records(batch.sealed()))
            assert [(r.key, r.value, r.timestamp) for r in alone] == [(r.key, r.value, r.timestamp) for r in ordinary]


@pytest.fixture
def usual() -> UsualCommits:
    return UsualCommits()


PARTITIONS, EPOCHS, TOPIC_ID = tuple(range(20)), (-1,) * 20, UUID(int=5)
FACT = OffsetsStored("g", "t", PARTITIONS, tuple(range(20)), EPOCHS, NO_TEXTS[20], NOW_MS, None, TOPIC_ID)


def known(usual: UsualCommits, *facts: Record) -> SealedBatch | None:
    return usual.batch_of(facts, NOW_MS)


def test_a_commit_is_known_when_it_was_seen_twice(usual: UsualCommits) -> None:
    assert [known(usual, FACT) is not None for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    "other",
    [
        FACT._replace(group_id="h"),
        FACT._replace(topic="u"),
        FACT._replace(topic_id=UUID(int=6)),
        FACT._replace(topic_id=None),
        FACT._replace(leader_epochs=(3,) * 20),
        FACT._replace(metadata=("text",) * 20),
        FACT._replace(expires_at_ms=NOW_MS),
    ],
)
def test_what_differs_in_anything_else_is_not_taken_for_it(usual: UsualCommits, other: OffsetsStored) -> None:
    for _ in range(3):
        known(usual, FACT)
    assert known(usual, other) is None
    assert known(usual, FACT, other) is None
    batches = [known(usual, other) for _ in range(3)]
    for batch in batches:
        assert batch is None or single(read_back([batch])) == single([other])


def test_few_offsets_share_a_batch_with_others(usual: UsualCommits) -> None:
    few = FACT._replace(
        partitions=PARTITIONS[:7], offsets=PARTITIONS[:7], leader_epochs=EPOCHS[:7], metadata=NO_TEXTS[7]
    )
    assert [known(usual, few) for _ in range(4)] == [None] * 4


def test_other_facts_are_left_alone(usual: UsualCommits) -> None:
    for _ in range(4):
        assert known(usual, GroupDeleted(group_id="g")) is None
        assert known(usual, FACT, GroupDeleted(group_id="g")) is None


def test_no_more_is_kept_than_may_be(usual: UsualCommits) -> None:
    for number in range(2000):
        partitions = tuple(range(number, number + 8))
        fact = FACT._replace(partitions=partitions, offsets=partitions, leader_epochs=EPOCHS[:8], metadata=NO_TEXTS[8])
        for _ in range(3):
            known(usual, fact)
    assert len(usual._templates) <= 500
    assert len(usual._seen) <= 500
