"""Segments that spill over into nameless files: a store has its end in memory, and what is before that in a file.

A store opens a file when it outgrows its share of memory, so partitions with few records need none. The file has no
name: the system frees it when the process ends, whatever ends it. Written bytes are in the page cache, as a broker's
are, and not in this process; a read copies out what it needs.

    0                              written                    size
    |  the file                    |  the tail, in memory     |

A failed write changes nothing: the tail is still in memory, and what reached the file is overwritten next time.

| all stores together use  | at most                                                                       |
|--------------------------|-------------------------------------------------------------------------------|
| memory                   | `memory_bytes`; beyond it, each append goes to its file at once               |
| files                    | `most_files`, as connections need some too; beyond it, tails grow in memory   |
"""

import logging
import os
from contextlib import suppress
from io import FileIO

log = logging.getLogger("kcoord.storage")

TAIL_BYTES = 1 << 16
MEMORY_BYTES = 8 << 20


class SpillStores:
    """Creates the stores of segments of a server without a data folder, and limits the memory and the files that they
    use together."""

    def __init__(self, *, most_files: int, tail_bytes: int = TAIL_BYTES, memory_bytes: int = MEMORY_BYTES) -> None:
        self.tail_bytes = tail_bytes
        self.memory_bytes = memory_bytes
        self.buffered_bytes = 0
        self.open_files = 0
        self._most_files = most_files
        self._is_failing = False

    def make(self) -> "SpillStore":
        """Creates the empty store of a segment."""
        return SpillStore(self)

    @property
    def may_open(self) -> bool:
        """Whether fewer temporary files are open than the stores together may have."""
        return self.open_files < self._most_files

    def open(self) -> FileIO:
        """Opens a temporary file for a store that outgrows its share of memory."""
        from tempfile import TemporaryFile  # Imported with the first file: many servers never need one.

        opened = TemporaryFile(prefix="kcoord-", buffering=0)  # noqa: SIM115
        assert isinstance(opened, FileIO)
        self.open_files += 1
        return opened

    def on_failed(self, error: OSError) -> None:
        """Logs that writing or reading a file has failed, once until it works again."""
        if not self._is_failing:
            log.warning("storage failing error=%r", str(error))
        self._is_failing = True

    def on_written(self) -> None:
        """Logs that writing works again, if it had failed."""
        if self._is_failing:
            log.warning("storage works again")
        self._is_failing = False


class SpillStore:
    """The bytes of one segment of a server without a data folder: its end is in memory, what is before it in a nameless
    temporary file. Implements kcoord.broker.log.storage.Store."""

    __slots__ = ("_file", "_stores", "_tail", "_written")

    def __init__(self, stores: SpillStores) -> None:
        self._stores = stores
        self._file: FileIO | None = None
        self._written = 0
        self._tail = bytearray()

    @property
    def size(self) -> int:
        """The size of the segment in bytes."""
        return self._written + len(self._tail)

    def append(self, content: bytearray) -> None:
        """Appends these bytes: all of them, or none and OSError is raised."""
        if not self._has_room_for(content):
            self._write(self._tail)
            self._cut_tail(0)
            if not self._has_room_for(content):
                self._write(content)
                return
        self._tail += content
        self._stores.buffered_bytes += len(content)

    def read(self, position: int, size: int) -> bytes:
        """Reads up to `size` bytes at this position; fewer at the end of the segment."""
        end = min(position + size, self.size)
        if position >= self._written:
            return self._read_tail(position, end)
        if end <= self._written:
            return self._read_file(position, end)
        return self._read_file(position, self._written) + self._read_tail(self._written, end)

    def truncate(self, size: int) -> None:
        """Cuts the segment to this size in bytes."""
        if size < self._written:
            assert self._file
            self._file.truncate(size)
            self._written = size
        self._cut_tail(max(0, size - self._written))

    def close(self) -> None:
        """Drops the content, and closes the temporary file, which frees its disk space."""
        self._cut_tail(0)
        if self._file:
            self._file.close()
            self._stores.open_files -= 1
        self._file = None
        self._written = 0

    def delete(self) -> None:
        """Closes the store: nothing of it remains on the disk."""
        self.close()

    def _has_room_for(self, content: bytearray) -> bool:
        """Returns whether the tail may take it; it must if no file can be opened."""
        stores, size = self._stores, len(content)
        if len(self._tail) + size <= stores.tail_bytes and stores.buffered_bytes + size <= stores.memory_bytes:
            return True
        return self._file is None and not stores.may_open

    def _write(self, content: bytearray) -> None:
        """Writes all of it to the end of the file, or nothing."""
        if not content:
            return
        try:
            if self._file is None:
                self._file = self._stores.open()
            _write_all(self._file.fileno(), content, self._written)
        except OSError as error:
            self._stores.on_failed(error)
            self._drop_unfinished()
            raise
        self._written += len(content)
        self._stores.on_written()

    def _drop_unfinished(self) -> None:
        """Cuts off what a failed write left, to give the disk space back."""
        if self._file:
            with suppress(OSError):
                self._file.truncate(self._written)

    def _read_file(self, position: int, end: int) -> bytes:
        assert self._file
        try:
            content = os.pread(self._file.fileno(), end - position, position)
            if len(content) < end - position:
                raise OSError(f"a file of records ends at {position + len(content)}, not at {self._written}")
        except OSError as error:
            self._stores.on_failed(error)
            raise
        return content

    def _read_tail(self, position: int, end: int) -> bytes:
        with memoryview(self._tail) as view:
            return bytes(view[position - self._written : end - self._written])

    def _cut_tail(self, size: int) -> None:
        self._stores.buffered_bytes -= len(self._tail) - size
        del self._tail[size:]


def _write_all(file: int, content: bytearray, position: int) -> None:
    with memoryview(content) as left:
        done = 0
        while done < len(left):
            done += os.pwrite(file, left[done:], position + done)
