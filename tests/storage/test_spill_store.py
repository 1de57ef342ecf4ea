"""Spill-over stores: they return what was appended, take little memory, and survive a full disk."""

import logging
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcoord.storage.spill_store import SpillStore, SpillStores

Folder = Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limits the size of files: a write beyond it is cut short, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TrackedSpillStores(SpillStores):
    """Stores that are closed after the test: Python warns of open files, and warnings are failures here."""

    made: ClassVar[list[SpillStore]] = []

    def make(self) -> SpillStore:
        self.made.append(super().make())
        return self.made[-1]


@pytest.fixture(autouse=True)
def closed_in_the_end() -> Iterator[None]:
    yield
    while TrackedSpillStores.made:
        TrackedSpillStores.made.pop().close()


def stores_of(*, tail: int = 100, memory: int = 10_000, files: int = 10) -> SpillStores:
    return TrackedSpillStores(most_files=files, tail_bytes=tail, memory_bytes=memory)


def pattern(size: int, seed: int = 0) -> bytearray:
    return bytearray((number * 7 + seed) % 251 for number in range(size))


def content(store: SpillStore) -> bytes:
    return store.read(0, store.size)


def test_what_fits_the_tail_needs_no_file() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(60))
    store.append(pattern(40))
    assert (store.size, stores.open_files, stores.buffered_bytes) == (100, 0, 100)
    assert content(store) == pattern(60) + pattern(40)


def test_a_tail_that_is_full_goes_to_the_file_and_a_new_one_begins() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(60))
    store.append(pattern(50, seed=1))
    assert (store.size, stores.open_files, stores.buffered_bytes) == (110, 1, 50)
    assert content(store) == pattern(60) + pattern(50, seed=1)


def test_what_is_larger_than_a_tail_goes_to_the_file_at_once() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(10))
    store.append(pattern(5000, seed=1))
    assert (store.size, stores.buffered_bytes) == (5010, 0)
    assert content(store) == pattern(10) + pattern(5000, seed=1)


def test_a_read_may_begin_in_the_file_and_end_in_the_tail() -> None:
    store = stores_of(tail=100).make()
    store.append(pattern(150))
    store.append(pattern(80, seed=9))
    whole = bytes(pattern(150) + pattern(80, seed=9))
    for position, size in ((0, 150), (0, 10), (140, 20), (150, 80), (160, 10), (140, 1000), (230, 5)):
        assert store.read(position, size) == whole[position : position + size]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux shows what a process has open")
def test_the_file_has_no_name_so_nothing_is_left_whatever_happens(folder: Folder) -> None:
    store = stores_of(tail=10).make()
    store.append(pattern(1000))
    assert list(folder.iterdir()) == []
    assert store._file is not None
    opened = str(Path(f"/proc/self/fd/{store._file.fileno()}").readlink())
    assert opened.startswith(str(folder))
    assert opened.endswith(" (deleted)")


def test_closing_gives_back_the_file_and_the_memory() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(150))
    store.append(pattern(50))
    store.close()
    assert (stores.open_files, stores.buffered_bytes) == (0, 0)


def test_many_stores_together_take_no_more_memory_than_they_may() -> None:
    stores = stores_of(tail=100, memory=450, files=1000)
    made = [stores.make() for _ in range(50)]
    for number in range(20):
        for store in made:
            store.append(pattern(20, seed=number))
            assert stores.buffered_bytes <= 450
    expected = b"".join(pattern(20, seed=number) for number in range(20))
    assert all(content(store) == expected for store in made)


def test_where_no_more_files_are_to_be_had_the_tails_grow() -> None:
    stores = stores_of(tail=100, files=2)
    made = [stores.make() for _ in range(4)]
    for store in made:
        store.append(pattern(300))
        store.append(pattern(300))
    assert (stores.open_files, stores.buffered_bytes) == (2, 1200)
    assert all(content(store) == pattern(300) * 2 for store in made)
    made[0].close()
    made[2].append(pattern(10))
    assert (stores.open_files, stores.buffered_bytes) == (2, 610)
    assert content(made[2]) == pattern(300) * 2 + pattern(10)


def test_a_full_disk_refuses_all_of_an_append_and_keeps_what_there_was() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(600))
    store.append(pattern(90, seed=1))
    before = content(store)
    with full_disk(1000):
        for size in (2000, 400):
            with pytest.raises(OSError, match="too large"):
                store.append(pattern(size, seed=2))
            assert content(store) == before
    store.append(pattern(2000, seed=3))
    assert content(store) == before + pattern(2000, seed=3)


def test_a_tail_that_cannot_be_written_stays_in_memory() -> None:
    stores = stores_of(tail=100)
    store = stores.make()
    store.append(pattern(100))
    with full_disk(50):
        for _ in range(3):
            with pytest.raises(OSError, match="too large"):
                store.append(pattern(20, seed=1))
    assert content(store) == pattern(100)
    assert stores.buffered_bytes == 100
    store.append(pattern(20, seed=2))
    assert content(store) == pattern(100) + pattern(20, seed=2)
    assert stores.buffered_bytes == 20


def test_a_failed_write_gives_the_disk_back_what_it_took() -> None:
    store = stores_of(tail=10).make()
    store.append(pattern(500))
    with full_disk(100_000), pytest.raises(OSError, match="too large"):
        store.append(pattern(200_000))
    assert store._file is not None
    assert os.fstat(store._file.fileno()).st_size == 500


def test_a_folder_that_is_gone_is_an_error_of_the_append(folder: Folder) -> None:
    store = stores_of(tail=100).make()
    store.append(pattern(80))
    folder.rename(folder.with_name("moved"))
    with pytest.raises(OSError, match="No such file"):
        store.append(pattern(80))
    assert content(store) == pattern(80)


def test_a_storage_that_fails_and_works_again_is_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = stores_of(tail=10).make()
    with full_disk(100):
        for _ in range(3):
            with pytest.raises(OSError, match="too large"):
                store.append(pattern(500))
    store.append(pattern(500))
    store.append(pattern(500))
    assert [record.message.partition(" error")[0] for record in caplog.records] == [
        "storage failing",
        "storage works again",
    ]


def test_a_file_that_was_cut_short_is_an_error_of_the_read() -> None:
    store = stores_of(tail=10).make()
    store.append(pattern(500))
    assert store._file is not None
    os.truncate(store._file.fileno(), 300)
    assert store.read(0, 300) == pattern(300)
    with pytest.raises(OSError, match="ends at 300, not at 500"):
        store.read(250, 100)


class StoreLife(RuleBasedStateMachine):
    """Two stores that share little memory and a disk that is full at times, compared with plain bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.stores = stores_of(tail=40, memory=60)
        self.made = [self.stores.make() for _ in range(2)]
        self.expected = [b"", b""]
        self.disk_size = 1 << 20

    @rule(which=st.integers(0, 1), size=st.integers(1, 100), seed=st.integers(0, 250))
    def append(self, which: int, size: int, seed: int) -> None:
        added = pattern(size, seed)
        with full_disk(self.disk_size):
            try:
                self.made[which].append(added)
            except OSError:
                assert self.disk_size < len(self.expected[which]) + size
                return
        self.expected[which] += added

    @rule(which=st.integers(0, 1), share=st.floats(0, 1))
    def truncate(self, which: int, share: float) -> None:
        size = int(len(self.expected[which]) * share)
        self.made[which].truncate(size)
        self.expected[which] = self.expected[which][:size]

    @rule(which=st.integers(0, 1))
    def start_anew(self, which: int) -> None:
        self.made[which].close()
        self.made[which], self.expected[which] = self.stores.make(), b""

    @rule(size=st.integers(0, 300))
    def fill_disk(self, size: int) -> None:
        self.disk_size = size

    @rule()
    def free_disk(self) -> None:
        self.disk_size = 1 << 20

    @rule(which=st.integers(0, 1), position=st.floats(0, 1), size=st.integers(0, 200))
    def read(self, which: int, position: float, size: int) -> None:
        start = int(len(self.expected[which]) * position)
        assert self.made[which].read(start, size) == self.expected[which][start : start + size]

    @invariant()
    def they_hold_what_they_were_given(self) -> None:
        assert [content(store) for store in self.made] == self.expected
        assert 0 <= self.stores.buffered_bytes <= 60

    def teardown(self) -> None:
        for store in self.made:
            store.close()
        assert (self.stores.open_files, self.stores.buffered_bytes) == (0, 0)


StoreLife.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestStoreLife = StoreLife.TestCase
