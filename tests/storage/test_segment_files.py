"""Segments in named files: written at once, few of them open, flushed to the disk if that is configured."""

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcoord.broker.log.segment import CorruptSegment
from kcoord.storage.segment_files import SegmentFile, SegmentFiles
from tests.storage.failing_filesystem import FailingFilesystem, open_files_of


def files_of(*, most: int = 10, is_synced: bool = False, filesystem: FailingFilesystem | None = None) -> SegmentFiles:
    return SegmentFiles(most_files=most, is_synced=is_synced, filesystem=filesystem)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limits the size of files: a write beyond it is cut short, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def content(file: SegmentFile) -> bytes:
    return file.read(0, file.size)


def test_what_is_appended_is_in_the_file_at_once(tmp_path: Path) -> None:
    files = files_of()
    file = SegmentFile(files, tmp_path / "a.log")
    file.append(b"one")
    file.append(bytearray(b"two"))
    assert (tmp_path / "a.log").read_bytes() == content(file) == b"onetwo"
    assert [file.read(position, 2) for position in (0, 4, 5, 6)] == [b"on", b"wo", b"o", b""]
    files.close()


def test_few_files_are_open_however_many_are_used(tmp_path: Path) -> None:
    files = files_of(most=3)
    made = [SegmentFile(files, tmp_path / f"{number}.log") for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(made):
            file.append(f"{number} {turn};".encode())
            assert open_files_of(tmp_path) == files.open_files <= 3
    assert content(made[7]) == b"7 0;7 1;7 2;"
    files.close()
    assert open_files_of(tmp_path) == 0


def test_the_file_that_was_not_used_for_the_longest_is_closed(tmp_path: Path) -> None:
    files = files_of(most=2)
    first, second, third = (SegmentFile(files, tmp_path / name) for name in "abc")
    for file in (first, second, first, third):
        file.append(b"x")
    assert [file in files._open for file in (first, second, third)] == [True, False, True]
    files.close()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    files = files_of()
    file = SegmentFile(files, tmp_path / "a.log")
    file.append(b"x" * 600)
    with full_disk(1000):
        for _ in range(2):
            with pytest.raises(OSError, match="too large"):
                file.append(b"y" * 600)
            assert (file.size, (tmp_path / "a.log").stat().st_size) == (600, 600)
    file.append(b"z" * 600)
    assert content(file) == b"x" * 600 + b"z" * 600
    assert [record.message.partition(" error")[0] for record in caplog.records] == [
        "storage failing",
        "storage works again",
    ]
    files.close()


def test_what_a_failed_write_left_behind_is_overwritten(tmp_path: Path) -> None:
    system = FailingFilesystem()
    files = files_of(filesystem=system)
    file = SegmentFile(files, tmp_path / "a.log")
    file.append(b"good")
    system.room, system.cannot_truncate = 0, True
    with pytest.raises(OSError, match="No space"):
        file.append(b"bad" * 10)
    assert (file.size, (tmp_path / "a.log").stat().st_size) == (4, 19)
    system.room, system.cannot_truncate = None, False
    file.append(b"better")
    assert content(file) == b"goodbetter"
    files.close()


def test_without_fsync_nobody_waits_for_the_disk(tmp_path: Path) -> None:
    system = FailingFilesystem()
    files = files_of(filesystem=system)
    SegmentFile(files, tmp_path / "a.log").append(b"x")
    files.note_created(tmp_path / "a.log")
    files.sync()
    assert system.synced == system.synced_folders == []
    files.close()


def test_each_file_that_was_written_is_synced_once(tmp_path: Path) -> None:
    system = FailingFilesystem()
    files = files_of(most=1, is_synced=True, filesystem=system)
    first, second, third = (SegmentFile(files, tmp_path / name) for name in "abc")
    for file in (first, second, first, third):
        file.append(b"x")
    files.note_created(first.path)
    files.sync()
    assert (sorted(system.synced), system.synced_folders) == (["a", "b", "c"], [tmp_path.name])
    files.sync()
    assert len(system.synced) == 3
    second.append(b"x")
    files.sync()
    assert (system.synced[3:], system.synced_folders) == (["b"], [tmp_path.name])
    files.close()


def test_a_file_that_could_not_be_synced_takes_nothing_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    system = FailingFilesystem()
    files = files_of(is_synced=True, filesystem=system)
    failed, other = SegmentFile(files, tmp_path / "a"), SegmentFile(files, tmp_path / "b")
    failed.append(b"x")
    system.cannot_sync = True
    with pytest.raises(OSError, match="Input/output"):
        files.sync()
    system.cannot_sync = False
    files.sync()
    with pytest.raises(OSError, match="a could not be synced: Input/output"):
        failed.append(b"y")
    assert content(failed) == b"x"
    other.append(b"y")
    files.sync()
    assert system.synced == ["b"]
    assert [record.message.partition(" error")[0] for record in caplog.records] == [f"not synced file={tmp_path / 'a'}"]
    files.close()


def test_a_file_that_is_gone_is_not_synced(tmp_path: Path) -> None:
    files = files_of(is_synced=True)
    file = SegmentFile(files, tmp_path / "a.log", siblings=(".index", ".missing"))
    (tmp_path / "a.index").touch()
    file.append(b"x")
    file.delete()
    files.sync()
    assert list(tmp_path.iterdir()) == []
    assert open_files_of(tmp_path) == 0


def test_a_file_that_was_cut_short_is_an_error_of_the_read(tmp_path: Path) -> None:
    files = files_of()
    file = SegmentFile(files, tmp_path / "a.log")
    file.append(b"x" * 500)
    with (tmp_path / "a.log").open("r+b") as opened:
        opened.truncate(300)
    with pytest.raises(CorruptSegment, match="ends at 300, not at 500"):
        file.read(250, 100)
    files.close()
