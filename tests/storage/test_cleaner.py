"""Compaction a step at a time: the log can be appended to meanwhile, and is unchanged until the swap."""

import pytest

from kcoord.broker.log.storage import MemoryStore
from kcoord.groups.records import GroupDeleted, GroupStored, OffsetDeleted, OffsetsStored, Record
from kcoord.protocol.records.batch import CorruptBatch, split_batches
from kcoord.storage import cleaner
from kcoord.storage.cleaner import is_worth_compacting
from tests.storage.one_partition import DAY_MS, NOW_MS, OnePartition
from tests.support.groups import invariants


class CountedStore(MemoryStore):
    """Fails from the n-th append on, and counts its deletions."""

    fails_after = 10**9
    appends = 0
    deleted = 0

    def append(self, content: bytearray) -> None:
        CountedStore.appends += 1
        if CountedStore.appends > CountedStore.fails_after:
            raise OSError(28, "no space left")
        super().append(content)

    def delete(self) -> None:
        CountedStore.deleted += 1
        super().delete()


class Journal(OnePartition):
    def __init__(self) -> None:
        super().__init__(CountedStore)

    def append_and_flush(self, *records: Record, at_ms: int = NOW_MS) -> None:
        self.groups.append(records, at_ms)
        assert self.groups.flush(at_ms) == {}

    def commit(self, group_id: str, offset: int, partitions: int = 3) -> None:
        lines = range(partitions)
        self.append_and_flush(
            OffsetsStored(group_id, "t", lines, [offset] * partitions, [-1] * partitions, [""] * partitions, NOW_MS)
        )

    def records(self) -> int:
        content = self.log.read(self.log.start_offset, max_bytes=1 << 30)
        assert isinstance(content, bytes)
        return sum(batch.header.record_count for batch in split_batches(content))


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    for name, value in (("fails_after", 10**9), ("appends", 0), ("deleted", 0)):
        monkeypatch.setattr(CountedStore, name, value)
    monkeypatch.setattr(cleaner, "_STEP_BYTES", 1000)
    journal = Journal()
    for offset in range(50):
        journal.commit(f"group-{offset % 3}", offset)
    empty = GroupStored(
        group_id="gone", generation=1, protocol_type="consumer", protocol=None, leader_id=None, since_ms=1
    )
    journal.append_and_flush(empty)
    journal.commit("gone", 1)
    journal.append_and_flush(*[OffsetDeleted(group_id="gone", topic="t", partition=each) for each in range(3)])
    journal.append_and_flush(GroupDeleted(group_id="gone"))
    return journal


def test_what_is_read_from_the_compacted_log_is_what_was_read_before(journal: Journal) -> None:
    before, end_offset = journal.read(), journal.log.end_offset
    outcome = journal.compact()
    invariants.check_same(journal.read().groups, before.groups)
    assert journal.records() == 3 * 3 + 4, "the last of each key, tombstones among them"
    assert journal.log.end_offset == end_offset
    assert outcome.bytes_after == journal.log.size < outcome.bytes_before


def test_tombstones_go_once_everybody_could_have_seen_them(journal: Journal) -> None:
    journal.compact()
    run_again(journal, NOW_MS + DAY_MS - 1)
    assert journal.records() == 3 * 3 + 4 + 1
    run_again(journal, NOW_MS + DAY_MS)
    assert journal.records() == 3 * 3 + 1, "the one that has just been written stays"
    assert "gone" not in journal.read().groups


def run_again(journal: Journal, now_ms: int) -> None:
    """Compacts again, after an append that makes the log worth compacting."""
    journal.append_and_flush(GroupDeleted(group_id="nobody's"), at_ms=now_ms)
    journal.compact(now_ms)


def test_what_comes_meanwhile_is_kept(journal: Journal) -> None:
    going, more = journal.steps(), 0
    for _ in going:
        journal.commit("group-0", 1000 + more)
        more += 1
    assert more > 5
    assert journal.read().groups["group-0"].offsets["t"][0][0] == 1000 + more - 1
    journal.compact()
    assert journal.read().groups["group-0"].offsets["t"][0][0] == 1000 + more - 1


def test_it_can_be_dropped_at_any_step(journal: Journal) -> None:
    before, size = journal.read(), journal.log.size
    total = sum(1 for _ in journal.steps())
    for stop in range(total + 1):
        fresh = Journal()
        for offset in range(50):
            fresh.commit(f"group-{offset % 3}", offset)
        before, size, deleted = fresh.read(), fresh.log.size, CountedStore.deleted
        going = fresh.steps()
        for _, _ in zip(range(stop), going, strict=False):
            pass
        going.close()
        invariants.check_same(fresh.read().groups, before.groups)
        assert fresh.log.size == size or stop >= total - 1
        assert CountedStore.deleted >= deleted
        fresh.commit("group-0", 77)
        assert fresh.read().groups["group-0"].offsets["t"][0][0] == 77


def test_a_disk_that_fails_leaves_the_log_as_it_was(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    before, size = journal.read(), journal.log.size
    monkeypatch.setattr(CountedStore, "fails_after", CountedStore.appends + 1)
    with pytest.raises(OSError, match="no space left"):
        journal.compact()
    assert CountedStore.deleted == 1, "what was written of the replacement"
    monkeypatch.setattr(CountedStore, "fails_after", 10**9)
    assert journal.log.size == size
    invariants.check_same(journal.read().groups, before.groups)
    journal.compact()
    invariants.check_same(journal.read().groups, before.groups)


def test_what_is_damaged_is_not_written_anew_as_sound(journal: Journal) -> None:
    store = journal.log.segments[0].store
    assert isinstance(store, MemoryStore)
    store._bytes[200] ^= 1
    with pytest.raises(CorruptBatch, match="corrupt"):
        journal.compact()


def test_a_log_is_worth_compacting_when_half_of_it_is_new(journal: Journal) -> None:
    assert is_worth_compacting(journal.log, least_new_bytes=1000)
    assert not is_worth_compacting(journal.log, least_new_bytes=1_000_000)
    journal.compact()
    assert not is_worth_compacting(journal.log, least_new_bytes=1)
    compacted = journal.log.size
    while journal.log.size < 2 * compacted:
        assert not is_worth_compacting(journal.log, least_new_bytes=1)
        journal.commit("group-1", 5)
    assert is_worth_compacting(journal.log, least_new_bytes=1)


def test_it_is_compacted_again_and_again_without_growing(journal: Journal) -> None:
    sizes = []
    for round_ in range(5):
        for offset in range(40):
            journal.commit(f"group-{offset % 3}", round_ * 1000 + offset)
        sizes.append(journal.compact().bytes_after)
    assert max(sizes[1:]) <= sizes[0] + 500
    assert len(journal.log.segments) == 2
    assert journal.read().groups["group-0"].offsets["t"][0][0] == 4039
