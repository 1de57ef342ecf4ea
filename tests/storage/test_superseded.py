"""The index of superseded batches, which compaction need not read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.broker.log.storage import MemoryStore
from kcoord.groups.records import CommitPartitions, GroupDeleted, OffsetDeleted, OffsetsStored, Record, RepeatedCommit
from kcoord.offsets_log.group_log import GroupLog
from kcoord.storage import cleaner, superseded
from kcoord.storage.superseded import CommitSeries, SupersededBatches
from tests.storage.one_partition import DAY_MS, NOW_MS, OnePartition
from tests.support.groups import invariants

NOBODYS = GroupDeleted(group_id="nobody's")


class WatchedStore(MemoryStore):
    """Counts the bytes that are read, and may refuse appends."""

    is_full = False
    read_bytes = 0

    def append(self, content: bytearray) -> None:
        if WatchedStore.is_full:
            raise OSError(28, "no space left")
        super().append(content)

    def read(self, position: int, size: int) -> bytes:
        content = super().read(position, size)
        WatchedStore.read_bytes += len(content)
        return content


class Journal(OnePartition):
    """A journal, and a coordinator with the state that was acknowledged."""

    def __init__(self) -> None:
        super().__init__(WatchedStore)
        self._waiting: list[Record] = []
        self.expected = self.coordinator()

    def add(self, *records: Record) -> None:
        self.groups.append(records, NOW_MS)
        self._waiting += records

    def flush(self) -> bool:
        waiting, self._waiting = self._waiting, []
        if self.groups.flush(NOW_MS):
            return False
        for record in waiting:
            self.expected.replay(record)
        return True

    def check(self) -> None:
        invariants.check_same(self.read().groups, self.expected.groups)


@pytest.fixture(autouse=True)
def uses_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes compaction use lookups also in logs that are small enough for a scan."""
    monkeypatch.setattr(cleaner, "_LOOKUP_COST_BYTES", 1)


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    monkeypatch.setattr(WatchedStore, "is_full", False)
    monkeypatch.setattr(WatchedStore, "read_bytes", 0)
    return Journal()


def partitions_of(first: int, count: int, text: str = "") -> CommitPartitions:
    partitions = tuple(range(first, first + count))
    return CommitPartitions([OffsetsStored("g", "t", partitions, (0,) * count, (-1,) * count, (text,) * count, NOW_MS)])


COMMIT_PARTITIONS = (
    partitions_of(0, 1),
    partitions_of(1, 1),
    partitions_of(1, 3),
    partitions_of(2, 9),
    partitions_of(0, 2, text="note"),
)
"""One for each encoder of commits; some of them share partitions."""


def repeated(partitions: CommitPartitions, offset: int) -> RepeatedCommit:
    return RepeatedCommit("g", partitions, tuple(range(offset, offset + partitions.count)), NOW_MS)


def test_of_many_commits_to_the_same_places_the_last_alone_is_read(journal: Journal) -> None:
    partitions = (partitions_of(0, 1), partitions_of(100, 9), partitions_of(200, 3))
    for offset in range(2000):
        journal.add(*(repeated(each, offset) for each in partitions))
        assert journal.flush()
    WatchedStore.read_bytes = 0
    outcome = journal.compact()
    assert outcome.bytes_before > 1_000_000
    assert WatchedStore.read_bytes < 30_000, "what is live, and where it is, twice"
    assert outcome.bytes_after < 3_000
    journal.check()


def test_what_could_not_be_written_overtakes_nothing(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for partitions in COMMIT_PARTITIONS:
        journal.add(repeated(partitions, 1))
        assert journal.flush()
    monkeypatch.setattr(WatchedStore, "is_full", True)
    journal.add(*(repeated(partitions, 2) for partitions in COMMIT_PARTITIONS))
    assert not journal.flush()
    monkeypatch.setattr(WatchedStore, "is_full", False)
    journal.compact()
    journal.check()


def test_what_somebody_else_has_written_is_read(journal: Journal) -> None:
    journal.add(repeated(COMMIT_PARTITIONS[0], 1))
    assert journal.flush()
    other = GroupLog(journal.cluster)
    others = OffsetsStored("g", "other", (0,), (7,), (-1,), ("",), NOW_MS)
    other.append([others], NOW_MS)
    assert not other.flush(NOW_MS)
    journal.expected.replay(others)
    journal.compact()
    journal.check()
    journal.add(repeated(COMMIT_PARTITIONS[0], 2))
    assert journal.flush()
    journal.compact()
    journal.check()


def test_of_more_batches_than_can_be_known_those_before_are_read(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superseded, "_MOST_BATCHES", 10)
    for offset in range(50):
        journal.add(
            repeated(COMMIT_PARTITIONS[offset % 2], offset),
            OffsetDeleted(group_id="g", topic="t", partition=offset % 7),
        )
        assert journal.flush()
    to_read = journal.groups.superseded_in(0).to_read(journal.log.end_offset)
    assert 0 < to_read.all_before < journal.log.end_offset
    assert len(to_read.base_offsets) <= 11
    journal.compact()
    journal.check()


def test_what_retention_has_deleted_is_not_looked_for(journal: Journal) -> None:
    """An operator may configure it so: cleanup.policy=compact,delete."""
    journal.log.settings = replace(journal.log.settings, is_deletable=True)
    for offset in range(3):
        journal.add(repeated(partitions_of(offset, 1), 7))
        assert journal.flush()
    assert journal.log.enforce_retention(NOW_MS + 10 * DAY_MS) == 1
    journal.expected = journal.coordinator()
    for offset in range(3):
        journal.add(repeated(partitions_of(10 + offset, 1), 7), repeated(COMMIT_PARTITIONS[3], offset))
        assert journal.flush()
    journal.compact()
    journal.check()
    journal.compact()
    journal.check()


def test_a_log_that_loses_segments_meanwhile_is_not_replaced(journal: Journal) -> None:
    journal.log.settings = replace(journal.log.settings, is_deletable=True)
    journal.add(repeated(COMMIT_PARTITIONS[0], 1))
    assert journal.flush()
    going = journal.steps()
    next(going)
    assert journal.log.enforce_retention(NOW_MS + 10 * DAY_MS) == 1
    journal.expected = journal.coordinator()
    with pytest.raises(OSError, match="has deleted segments meanwhile"):
        list(going)
    journal.add(repeated(COMMIT_PARTITIONS[0], 2))
    assert journal.flush()
    journal.compact()
    journal.check()


def test_several_segments_are_compacted_though_some_were_to_be_before(journal: Journal) -> None:
    for part in range(3):
        for offset in range(40):
            journal.add(repeated(COMMIT_PARTITIONS[offset % 5], 100 * part + offset))
            assert journal.flush()
        dropped = journal.steps()
        next(dropped)
        dropped.close()
    assert len(journal.log.segments) == 4
    journal.compact()
    assert len(journal.log.segments) == 2
    journal.check()


def test_of_a_flush_that_is_kept_in_part_that_part_counts(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit of nine offsets is a batch, and there are more batches than one write has."""
    many = [partitions_of(100 * number, 9) for number in range(100)]
    journal.add(*(repeated(each, 1) for each in many))
    assert journal.flush()
    original, writes = WatchedStore.append, 0

    def take_one(store: WatchedStore, content: bytearray) -> None:
        nonlocal writes
        writes += 1
        if writes > 1:
            raise OSError(28, "no space left")
        original(store, content)

    end_offset = journal.log.end_offset
    with monkeypatch.context() as patch:
        patch.setattr(WatchedStore, "append", take_one)
        journal.add(*(repeated(each, 2) for each in many))
        assert not journal.flush()
    written = (journal.log.end_offset - end_offset) // 9
    assert 0 < written < 100
    for each in many[:written]:
        journal.expected.replay(repeated(each, 2))
    journal.compact()
    journal.check()


def test_many_batches_that_stand_are_read_through(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for offset in range(300):
        journal.add(OffsetsStored("g", f"t{offset}", (0,), (offset,), (-1,), ("",), NOW_MS))
        assert journal.flush()
    WatchedStore.read_bytes = 0
    journal.compact()
    assert WatchedStore.read_bytes < 8 * journal.log.size
    journal.check()


class Batch:
    """A batch to be written, with so many records."""

    def __init__(self, count: int, *series: CommitSeries) -> None:
        self.count = count
        self.series = series


def test_a_batch_stands_until_all_its_commits_were_followed() -> None:
    known, (a, b, c) = SupersededBatches(), (CommitSeries(1) for _ in range(3))
    known.on_written([Batch(3, a, b, c), Batch(2, a, c)], 0)
    assert known.to_read(5).base_offsets == [0, 3]
    known.on_written([Batch(2, b, b)], 5)
    assert known.to_read(7).base_offsets == [3, 5]
    known.on_written([Batch(3, a, b)], 7)
    assert known.to_read(10).base_offsets == [3, 7], "there is something else in the last one"
    known.on_written([Batch(3, a, b, c)], 10)
    assert known.to_read(13).base_offsets == [7, 10]
    known.forget_before(10)
    assert (known.to_read(13).all_before, known.to_read(13).base_offsets) == (10, [10])
    known.on_written([Batch(3, a, b, c)], 13)
    assert known.to_read(16).base_offsets == [13]
    assert known.to_read(17).all_before == 17, "it does not end where we wrote last"


acts = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, len(COMMIT_PARTITIONS) - 1)),
    st.tuples(st.just("delete"), st.integers(0, 11)),
    st.tuples(st.sampled_from(["first", "flush", "flush", "fail", "compact", "nobody's"]), st.just(0)),
)


@given(st.lists(acts, max_size=60))
def test_whatever_was_kept_is_there_after_compaction(life: list[tuple[str, int]]) -> None:
    journal, offset = Journal(), 0
    for offset, (act, which) in enumerate(life):
        match act:
            case "commit":
                journal.add(repeated(COMMIT_PARTITIONS[which], offset))
            case "first":
                journal.add(*repeated(COMMIT_PARTITIONS[2], offset).expand())
            case "delete":
                journal.add(OffsetDeleted(group_id="g", topic="t", partition=which))
            case "nobody's":
                journal.add(NOBODYS)
            case "fail":
                WatchedStore.is_full = True
                journal.flush()
                WatchedStore.is_full = False
            case "compact" if journal.log.size:
                journal.compact(NOW_MS + DAY_MS * offset)
                journal.check()
            case _:
                assert journal.flush()
    assert journal.flush()
    journal.check()
