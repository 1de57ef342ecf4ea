"""Recovery of a log: complete, torn at any byte, damaged anywhere, or left in the middle of a replacement."""

import logging
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kcoord.broker.log.batch_validation import LogSettings
from kcoord.broker.log.partition_log import Appended, EpochEnd, PartitionLog
from kcoord.protocol.records.batch import Batch, produced_batch, split_batches
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch
from kcoord.storage.log_dir import LogDir
from kcoord.storage.producer_snapshot import read_snapshot
from kcoord.storage.recovery import Unrecoverable, recover
from kcoord.storage.segment_files import SegmentFiles
from tests.storage.failing_filesystem import Crash, FailingFilesystem
from tests.support.logs.appending import append_at_once, offset_for_timestamp

now_ms = 1_800_000_000_000
topic_id = UUID(int=7)
first_segment = "00000000000000000000.log"


class Disk:
    """The folder of one log, which is opened again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "t-0"
        self.files = SegmentFiles(most_files=4)
        self.start_offset = 0

    def open_folder(self, filesystem: FailingFilesystem | None = None) -> LogDir:
        self.files.close()
        self.files = SegmentFiles(most_files=4, filesystem=filesystem)
        return LogDir(self.folder, self.files, self.persist_start_offset)

    def persist_start_offset(self, name: str, offset: int) -> None:
        self.start_offset = offset

    def make(self, settings: LogSettings | None = None) -> PartitionLog:
        folder = self.open_folder()
        folder.make(topic_id)
        return PartitionLog("t-0", settings or LogSettings(), now_ms=now_ms, storage=folder)

    def find(self, settings: LogSettings | None = None, filesystem: FailingFilesystem | None = None) -> PartitionLog:
        folder = self.open_folder(filesystem)
        found = recover(folder, start_offset=self.start_offset, now_ms=now_ms)
        assert found is not None
        return PartitionLog("t-0", settings or LogSettings(), now_ms=now_ms, storage=folder, recovered=found)

    def segment(self, name: str = first_segment) -> Path:
        return self.folder / name

    def names(self, suffix: str = "") -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name.endswith(suffix))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.files.close()


def batch(sequence: int = -1, *, records: int = 1, size: int = 30, producer: int = 4) -> Batch:
    stamp = ProducerStamp(id=producer, epoch=0, base_sequence=sequence) if sequence >= 0 else ProducerStamp()
    return produced_batch(write_batch([Record(timestamp=now_ms, value=b"v" * size)] * records, producer=stamp))


def append(log: PartitionLog, *batches: Batch) -> list[int]:
    outcomes = [append_at_once(log, each, now_ms) for each in batches]
    assert all(isinstance(outcome, Appended) for outcome in outcomes)
    return [outcome.base_offset for outcome in outcomes if isinstance(outcome, Appended)]


def offsets(log: PartitionLog) -> list[int]:
    read = log.read(log.start_offset, max_bytes=1 << 20)
    assert isinstance(read, bytes)
    return [found.header.base_offset for found in split_batches(read)]


size = batch().header.size
three_per_segment = LogSettings(segment_bytes=3 * size)


def test_a_log_is_found_as_it_was(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 8)
    log = disk.find(three_per_segment)
    assert (log.start_offset, log.end_offset, log.size, offsets(log)) == (0, 8, 8 * size, list(range(8)))
    assert append(log, batch(), batch()) == [8, 9]
    assert disk.names(".log") == [f"{offset:020}.log" for offset in (0, 3, 6, 9)]
    assert offsets(disk.find(three_per_segment)) == list(range(10))


def test_a_folder_without_segments_is_no_log(disk: Disk) -> None:
    disk.open_folder().make(topic_id)
    assert recover(disk.open_folder(), start_offset=0, now_ms=now_ms) is None


def test_a_tail_torn_at_any_byte_is_cut_to_the_batch_before(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    append(disk.make(), batch(), batch(records=2), batch())
    whole = disk.segment().read_bytes()
    size_before = len(whole) - size
    for end in range(size_before + 1, len(whole)):
        disk.segment().write_bytes(whole[:end])
        caplog.clear()
        log = disk.find()
        assert (log.end_offset, disk.segment().stat().st_size) == (3, size_before)
        assert [record.getMessage() for record in caplog.records] == [
            f"torn tail log=t-0 segment=0 bytes={end - size_before}: cut off"
        ]
        assert append(log, batch()) == [3]
        assert disk.segment().read_bytes() == whole


@pytest.mark.parametrize("filling", [b"\0", b"\2", b"\xff", b"kcoord "])
def test_rubbish_behind_the_last_batch_is_cut_off(disk: Disk, filling: bytes) -> None:
    append(disk.make(), batch(), batch())
    whole = disk.segment().read_bytes()
    disk.segment().write_bytes(whole + filling * 3000)
    assert disk.find().end_offset == 2
    assert disk.segment().read_bytes() == whole


def test_a_bit_that_flips_before_other_batches_fails_the_log_and_changes_nothing(disk: Disk) -> None:
    append(disk.make(), batch(), batch(), batch())
    whole = disk.segment().read_bytes()
    for position in range(size, 2 * size):
        if size + 12 <= position < size + 16:
            continue  # The leader epoch, which the checksum does not cover.
        damaged = bytearray(whole)
        damaged[position] ^= 0x80
        disk.segment().write_bytes(damaged)
        before = disk.names()
        is_offset = position < size + 8
        why = "a whole batch, but its offsets are out of order" if is_offset else "no sound batch, but one follows"
        with pytest.raises(Unrecoverable, match=rf"{first_segment} at byte \d+: {why}"):
            disk.find()
        assert (disk.segment().read_bytes(), disk.names()) == (bytes(damaged), before)


def test_a_bit_that_flips_in_the_last_batch_takes_that_batch_only(disk: Disk) -> None:
    append(disk.make(), batch(), batch())
    whole = disk.segment().read_bytes()
    for position in (size + 9, size + 16, size + 17, size + 30, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        disk.segment().write_bytes(damaged)
        assert disk.find().end_offset == 1


def test_a_damaged_batch_far_before_the_next_is_told_from_a_torn_tail(disk: Disk) -> None:
    append(disk.make(LogSettings(max_message_bytes=1 << 23)), batch(size=3 << 20), batch())
    with disk.segment().open("r+b") as opened:
        opened.seek(8)
        opened.write(b"\x7f")
    with pytest.raises(Unrecoverable, match="one follows at 3145"):
        disk.find()


def test_records_of_an_old_format_are_not_taken_for_a_torn_tail(disk: Disk) -> None:
    append(disk.make(), batch())
    disk.segment().write_bytes(bytes(8) + (30).to_bytes(4) + bytes(4) + b"\1" + bytes(25))
    with pytest.raises(Unrecoverable, match="format v1"):
        disk.find()
    assert disk.segment().stat().st_size == 42


def test_only_the_last_segment_is_read_until_another_is_asked_for(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 8)
    disk.segment().write_bytes(b"?" * (3 * size))
    log = disk.find(three_per_segment)
    assert (log.end_offset, log.size) == (8, 8 * size)
    assert isinstance(log.read(3, max_bytes=1 << 20), bytes)
    refused = log.read(0, max_bytes=1 << 20)
    assert not isinstance(refused, bytes)
    assert refused.message == "The records cannot be read: there is no whole batch at 0 of the segment 0"
    with pytest.raises(OSError, match="no whole batch at 0"):
        offset_for_timestamp(log, now_ms)


def test_an_empty_last_segment_is_the_active_one(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 3)
    disk.segment("00000000000000000003.log").touch()
    log = disk.find(three_per_segment)
    assert (log.end_offset, offsets(log)) == (3, [0, 1, 2])
    assert append(log, batch()) == [3]


def test_offsets_that_no_segment_has_are_left_out(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 9)
    disk.segment("00000000000000000003.log").unlink()
    log = disk.find(three_per_segment)
    assert offsets(log) == [0, 1, 2, 6, 7, 8]
    read = log.read(4, max_bytes=1, min_one_batch=True)
    assert isinstance(read, bytes)
    assert [found.header.base_offset for found in split_batches(read)] == [6]


def test_a_segment_that_goes_beyond_the_next_one_is_damaged(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 4)
    disk.segment("00000000000000000003.log").rename(disk.segment("00000000000000000002.log"))
    log = disk.find(three_per_segment)
    refused = log.read(0, max_bytes=1)
    assert not isinstance(refused, bytes)
    assert "goes beyond 2, where the next one begins" in refused.message


def test_the_start_offset_that_was_kept_holds(disk: Disk) -> None:
    log = disk.make(three_per_segment)
    append(log, *[batch()] * 8)
    assert log.delete_records(4, now_ms) == 4
    assert disk.names(".log") == [f"{offset:020}.log" for offset in (3, 6)]
    assert disk.find(three_per_segment).start_offset == 4


def test_segments_before_the_start_offset_go_if_there_was_no_time_for_it(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 8)
    disk.start_offset = 4
    log = disk.find(three_per_segment)
    assert (log.start_offset, log.size) == (4, 5 * size)
    assert disk.names(".log") == [f"{offset:020}.log" for offset in (3, 6)]


# Producers


def test_duplicates_are_known_after_a_restart(disk: Disk) -> None:
    append(disk.make(), *[batch(sequence) for sequence in range(7)])
    log = disk.find()
    outcomes = [append_at_once(log, batch(sequence), now_ms) for sequence in range(2, 7)]
    assert [(outcome.base_offset, outcome.is_duplicate) for outcome in outcomes if isinstance(outcome, Appended)] == [
        (offset, True) for offset in range(2, 7)
    ]
    assert append(log, batch(7)) == [7]


def test_a_duplicate_in_an_older_segment_is_known_by_the_snapshot(disk: Disk) -> None:
    settings = LogSettings(segment_bytes=3 * batch(0).header.size)
    log = disk.make(settings)
    append(log, *[batch(sequence) for sequence in range(3)])
    append(log, batch(0, producer=9))
    log = disk.find(settings)
    outcome = append_at_once(log, batch(2), now_ms)
    assert isinstance(outcome, Appended)
    assert (outcome.base_offset, outcome.is_duplicate) == (2, True)
    assert append(log, batch(3)) == [4]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"\0\1rubbish that is long enough")])
def test_without_a_sound_snapshot_the_segment_before_is_read(disk: Disk, spoil: object) -> None:
    settings = LogSettings(segment_bytes=3 * batch(0).header.size)
    log = disk.make(settings)
    append(log, *[batch(sequence) for sequence in range(3)])
    append(log, batch(0, producer=9))
    assert callable(spoil)
    spoil(disk.segment("00000000000000000003.snapshot"))
    outcome = append_at_once(disk.find(settings), batch(1), now_ms)
    assert isinstance(outcome, Appended)
    assert (outcome.base_offset, outcome.is_duplicate) == (1, True)


def test_a_snapshot_has_all_producers_of_the_segments_before(disk: Disk) -> None:
    settings = LogSettings(segment_bytes=2 * batch(0).header.size)
    append(disk.make(settings), batch(0), batch(0, producer=5), batch(0, producer=6))
    content = disk.segment("00000000000000000002.snapshot").read_bytes()
    assert {producer_id: producer.last_sequence for producer_id, producer in read_snapshot(content)} == {4: 0, 5: 0}


def test_snapshots_of_what_was_cut_off_go(disk: Disk) -> None:
    append(disk.make(), batch(), batch())
    disk.segment("00000000000000000002.snapshot").touch()
    disk.segment().write_bytes(disk.segment().read_bytes()[:-1])
    disk.find()
    assert disk.names(".snapshot") == []


# Leader epochs


def test_leader_epochs_of_a_broker_are_kept(disk: Disk) -> None:
    log = disk.make()
    append(log, *[batch()] * 6)
    disk.segment("leader-epoch-checkpoint").write_text("0\n3\n0 0\n2 3\n5 5\n")
    log = disk.find()
    append(log, batch())
    assert log.leader_epoch == 5
    assert [log.end_offset_for_epoch(epoch) for epoch in (-1, 0, 1, 2, 3, 5, 6)] == [
        EpochEnd(leader_epoch=epoch, end_offset=end)
        for epoch, end in ((-1, -1), (0, 3), (0, 3), (2, 5), (2, 5), (5, 7), (-1, -1))
    ]
    assert log.start_epoch == 0
    log.delete_records(4, now_ms)
    assert log.start_epoch == 2
    assert log.end_offset_for_epoch(1) == EpochEnd(leader_epoch=1, end_offset=4)
    read = log.read(6, max_bytes=1 << 20)
    assert isinstance(read, bytes)
    assert [found.header.leader_epoch for found in split_batches(read)] == [5]


def test_an_epoch_is_never_below_what_the_log_holds(disk: Disk) -> None:
    append(disk.make(), batch())
    disk.segment("leader-epoch-checkpoint").write_text("0\n1\n3 1\n")
    append(disk.find(), batch())
    for content in ("0\n1\n0 0\n", "what?"):
        disk.segment("leader-epoch-checkpoint").write_text(content)
        log = disk.find()
        assert (log.leader_epoch, log.start_epoch) == (3, 0)
        assert log.end_offset_for_epoch(0) == EpochEnd(leader_epoch=0, end_offset=1)
    disk.segment("leader-epoch-checkpoint").unlink()
    assert disk.find().leader_epoch == 3


# Replacements


def compacted(log: PartitionLog, count: int) -> list[bytes]:
    """Returns every second batch of the oldest segments."""
    content = b"".join(segment.whole_batches(0, segment.size) for segment in log.segments[:count])
    return [bytes(found.data) for found in split_batches(content)][::2]


def replace(log: PartitionLog, count: int) -> None:
    replacement = log.make_replacement()
    for content in compacted(log, count):
        replacement.append(bytearray(content))
    log.replace_segments(count, replacement, now_ms)


def test_a_replacement_takes_the_place_of_the_oldest_segments(disk: Disk) -> None:
    log = disk.make(three_per_segment)
    append(log, *[batch()] * 10)
    replace(log, 3)
    expected = [0, 2, 4, 6, 8, 9]
    for each in (log, disk.find(three_per_segment)):
        assert (offsets(each), each.size) == (expected, 6 * size)
        for offset in range(10):
            read = each.read(offset, max_bytes=1, min_one_batch=True)
            assert isinstance(read, bytes)
            assert [found.header.base_offset for found in split_batches(read)] == [
                min(o for o in expected if o >= offset)
            ]
    assert disk.names(".log") == [f"{offset:020}.log" for offset in (0, 9)]
    assert disk.names(".swap") == disk.names(".cleaned") == []


def test_a_replacement_may_be_empty(disk: Disk) -> None:
    log = disk.make(three_per_segment)
    append(log, *[batch()] * 7)
    log.replace_segments(2, log.make_replacement(), now_ms)
    for each in (log, disk.find(three_per_segment)):
        assert (each.start_offset, each.end_offset, offsets(each)) == (0, 7, [6])


def test_a_replacement_may_be_given_up(disk: Disk) -> None:
    log = disk.make(three_per_segment)
    append(log, *[batch()] * 4)
    replacement = log.make_replacement()
    replacement.append(bytearray(b"x"))
    replacement.delete()
    assert disk.names(".cleaned") == []
    assert offsets(log) == [0, 1, 2, 3]


def test_a_crash_at_any_step_of_a_replacement_leaves_all_of_it_or_none(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 10)
    originals = {path.name: path.read_bytes() for path in disk.folder.iterdir()}
    outcomes = []
    for step in range(100):
        for path in disk.folder.iterdir():
            path.unlink()
        for name, content in originals.items():
            disk.segment(name).write_bytes(content)
        log = disk.find(three_per_segment)
        system = FailingFilesystem(crash_at=step)
        disk.files.filesystem = system
        try:
            replace(log, 3)
        except Crash:
            outcomes.append(offsets(disk.find(three_per_segment)))
            assert disk.names(".swap") == disk.names(".cleaned") == []
            assert offsets(disk.find(three_per_segment)) == outcomes[-1]
        else:
            break
    before, after = list(range(10)), [0, 2, 4, 6, 8, 9]
    assert set(map(tuple, outcomes)) == {tuple(before), tuple(after)}
    assert outcomes == sorted(outcomes, key=len, reverse=True)


def test_a_crash_while_a_replacement_is_finished_is_finished_the_next_time(disk: Disk) -> None:
    append(disk.make(three_per_segment), *[batch()] * 10)
    originals = {path.name: path.read_bytes() for path in disk.folder.iterdir()}
    content = b"".join(compacted(disk.find(three_per_segment), 3))
    for step in range(100):
        for path in disk.folder.iterdir():
            path.unlink()
        for name, original in originals.items():
            disk.segment(name).write_bytes(original)
        disk.segment(f"{first_segment}.swap").write_bytes(content)
        try:
            disk.find(three_per_segment, FailingFilesystem(crash_at=step))
        except Crash:
            assert offsets(disk.find(three_per_segment)) == [0, 2, 4, 6, 8, 9]
        else:
            assert step > 3
            return
    pytest.fail("it never came to its end")


def test_what_an_unfinished_replacement_has_written_is_forgotten(disk: Disk) -> None:
    append(disk.make(), batch())
    for name in (f"{first_segment}.cleaned", "00000000000000000000.index.cleaned", "00000000000000000000.log.deleted"):
        disk.segment(name).write_bytes(b"x")
    assert offsets(disk.find()) == [0]
    assert disk.names() == [first_segment, "partition.metadata"]


def test_a_full_disk_that_has_no_room_for_a_new_segment_refuses_the_batch(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    log = disk.make(three_per_segment)
    append(log, *[batch()] * 3)
    system = FailingFilesystem()
    system.room = 0
    disk.files.filesystem = system
    refused = append_at_once(log, batch(), now_ms)
    assert not isinstance(refused, Appended)
    assert refused.message == "The records cannot be written: No space left on device"
    system.room = None
    assert append(log, batch()) == [3]
    assert offsets(disk.find(three_per_segment)) == [0, 1, 2, 3]
