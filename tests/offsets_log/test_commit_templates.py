"""Repeated commits: encoded by templates, read back as any other commit."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.groups.records import CommitPartitions, OffsetsStored, RepeatedCommit
from kcoord.offsets_log.commit_templates import CommitEncoders
from kcoord.offsets_log.encoding import key_values
from kcoord.offsets_log.pending_batches import Pending
from kcoord.protocol.records.record import read_records
from tests.offsets_log.test_encoding import NOW_MS, read_back, single, written

int32 = st.integers(0, 2**31 - 1)
offsets = st.integers(-(2**63), 2**63 - 1)
columns = st.lists(st.tuples(int32, st.integers(-1, 5)), min_size=1, max_size=70)
topics = st.lists(
    st.tuples(st.sampled_from(["t", "another", "t"]), columns, st.none() | st.uuids()), min_size=1, max_size=4
)


def stored(
    group_id: str, topic: str, lines: list[tuple[int, int]], topic_id: UUID | None, text: str = ""
) -> OffsetsStored:
    """Returns the first commit to these partitions and leader epochs."""
    partitions, epochs = (tuple(line[column] for line in lines) for column in range(2))
    count = len(lines)
    return OffsetsStored(group_id, topic, partitions, (0,) * count, epochs, (text,) * count, 0, None, topic_id)


def added(encoders: CommitEncoders, *facts: RepeatedCommit, now_ms: int = NOW_MS) -> Pending:
    pending: Pending = []
    for fact in facts:
        encoders.encoder_of(fact.partitions).add(pending, fact, now_ms)
    return pending


@given(st.text(max_size=10), topics, st.sampled_from(["", "", "text"]), st.data())
def test_a_commit_to_usual_places_is_read_back_as_any_other(
    group_id: str, asked: list[tuple[str, list[tuple[int, int]], UUID | None]], text: str, data: st.DataObject
) -> None:
    encoders, commit_partitions = (
        CommitEncoders(),
        CommitPartitions([stored(group_id, *topic, text) for topic in asked]),
    )
    for again in range(3):
        now_ms = NOW_MS + again
        committed = data.draw(st.lists(offsets, min_size=commit_partitions.count, max_size=commit_partitions.count))
        fact = RepeatedCommit(group_id, commit_partitions, tuple(committed), now_ms)
        ordinary = [record for each in written(fact.expand(), now_ms) for record in read_records(each.sealed())]
        expected = [(record.key, record.value, record.timestamp) for record in ordinary]
        assert list(key_values(fact)) == [(key, value) for key, value, _ in expected]
        for pending in (added(encoders, fact, now_ms=now_ms), written([fact], now_ms)):
            found = [record for each in pending for record in read_records(each.sealed())]
            assert [(record.key, record.value, record.timestamp) for record in found] == expected
            assert single(read_back(pending)) == single(fact.expand())


@pytest.fixture
def encoders() -> CommitEncoders:
    return CommitEncoders()


def commit_partitions(first: int, count: int) -> CommitPartitions:
    return CommitPartitions([stored("g", "t", [(first + index, -1) for index in range(count)], UUID(int=5))])


def test_a_commit_with_the_same_offsets_to_other_places_is_another(encoders: CommitEncoders) -> None:
    committed = tuple(range(8))
    for partitions in (commit_partitions(0, 8), commit_partitions(100, 8), commit_partitions(0, 8)):
        (fact,) = read_back(added(encoders, RepeatedCommit("g", partitions, committed, NOW_MS)))
        assert isinstance(fact, OffsetsStored)
        assert fact.partitions == partitions.first_records[0].partitions


@pytest.mark.parametrize(("count", "batches"), [(1, 1), (7, 1), (8, 2), (1000, 2)])
def test_few_offsets_share_a_batch_with_others(encoders: CommitEncoders, count: int, batches: int) -> None:
    facts = [
        RepeatedCommit("g", commit_partitions(0, count), tuple(range(number, number + count)), NOW_MS)
        for number in range(2)
    ]
    pending = added(encoders, *facts)
    assert len(pending) == batches
    assert single(read_back(pending)) == single([each for fact in facts for each in fact.expand()])


def test_offsets_that_come_one_by_one_fill_batches(encoders: CommitEncoders) -> None:
    partitions = commit_partitions(7, 1)
    facts = [RepeatedCommit("g", partitions, (number,), NOW_MS + number % 50) for number in range(2500)]
    pending: Pending = []
    for number, fact in enumerate(facts):
        encoders.encoder_of(partitions).add(pending, fact, NOW_MS + number % 50)
    assert [batch.count for batch in pending] == [1000, 1000, 500]
    assert {batch.sealed().header.max_timestamp for batch in pending} == {NOW_MS + 49}
    assert single(read_back(pending)) == [each for fact in facts for each in fact.expand()]


def test_no_more_is_kept_than_may_be(encoders: CommitEncoders) -> None:
    for number in range(2000):
        added(encoders, RepeatedCommit("g", commit_partitions(number, 8), tuple(range(8)), NOW_MS))
    assert len(encoders._encoders) <= 500
