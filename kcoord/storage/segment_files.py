"""Segments in named files: an append is written to the operating system at once, and reads come from there.

So appends survive the end of the process, whatever ends it. With `is_synced` they also survive a power cut, once `sync`
has returned: it flushes all files that were written since the last time. A file whose flush failed takes no more
appends: the system may have dropped what it could not write, so its content is unknown.

At most `most_files` files are open at a time. The least recently used ones are closed until they are needed again.
"""

import logging
import os
from pathlib import Path

from kcoord.broker.log.segment import CorruptSegment
from kcoord.storage.filesystem import Filesystem

log = logging.getLogger("kcoord.storage")


class SegmentFiles:
    """All segment files of a server: it limits how many are open at a time, and flushes those that were written."""

    def __init__(self, *, most_files: int, is_synced: bool = False, filesystem: Filesystem | None = None) -> None:
        self.filesystem = filesystem or Filesystem()
        self.is_synced = is_synced
        self._most_files = max(1, most_files)
        self._open: dict[SegmentFile, int] = {}  # Descriptors, the least recently used first.
        self._unsynced: dict[SegmentFile, None] = {}
        self._unsynced_folders: dict[Path, None] = {}
        # Files with a torn write behind their end that could not be cut off.
        self.torn: dict[SegmentFile, None] = {}
        self._is_failing = False

    @property
    def open_files(self) -> int:
        """The number of files that are open now."""
        return len(self._open)

    def note_created(self, path: Path) -> None:
        """Notes that a file or folder of this path was created: with `is_synced`, the next `sync` flushes the folder
        that it is in too."""
        if self.is_synced:
            self._unsynced_folders[path.parent] = None

    def sync(self) -> None:
        """Flushes all files that were written since the last call, if `is_synced`. If some cannot be flushed it flushes
        the others, and raises OSError."""
        if not (self._unsynced or self._unsynced_folders):
            return
        files, self._unsynced = self._unsynced, {}
        folders, self._unsynced_folders = self._unsynced_folders, {}
        errors = [error for file in files if (error := file.sync())]
        errors += [error for folder in folders if (error := self._sync_folder(folder))]
        if errors:
            raise errors[0]

    def cut_torn_tails(self, folder: Path) -> None:
        """Cuts off what failed writes left at the end of the files in this folder. Raises OSError."""
        for file in [each for each in self.torn if each.path.parent == folder]:
            file.cut_torn_tail()

    def close(self) -> None:
        """Closes all open files."""
        for file in list(self._open):
            self.close_descriptor(file)

    # Called by SegmentFile.

    def descriptor(self, file: "SegmentFile") -> int:
        """Returns the descriptor of the file, which is opened if need be, and makes it the most recently used."""
        opened = self._open.pop(file, None)
        if opened is None:
            while len(self._open) >= self._most_files:
                os.close(self._open.pop(next(iter(self._open))))
            opened = self.filesystem.open(file.path)
        self._open[file] = opened
        return opened

    def close_descriptor(self, file: "SegmentFile") -> None:
        """Closes the file if it is open; its next use opens it again."""
        opened = self._open.pop(file, None)
        if opened is not None:
            os.close(opened)

    def on_written(self, file: "SegmentFile") -> None:
        """Notes that the file was written, so that the next `sync` flushes it. Called by SegmentFile."""
        if self.is_synced:
            self._unsynced[file] = None
        if self._is_failing:
            log.warning("storage works again")
            self._is_failing = False

    def on_failed(self, error: OSError) -> None:
        """Logs that writing has failed, once until it works again. Called by SegmentFile."""
        if not self._is_failing:
            log.warning("storage failing error=%r", str(error))
        self._is_failing = True

    def forget(self, file: "SegmentFile") -> None:
        """Drops a file that was deleted or replaced: there is nothing to flush or to cut off."""
        self._unsynced.pop(file, None)
        self.torn.pop(file, None)

    def forget_folder(self, folder: Path) -> None:
        """Drops a folder that was deleted: its names need not be flushed."""
        self._unsynced_folders.pop(folder, None)

    def _sync_folder(self, folder: Path) -> OSError | None:
        try:
            self.filesystem.sync_folder(folder)
        except OSError as error:
            log.error("not synced folder=%s error=%r", folder, str(error))
            self._unsynced_folders[folder] = None
            return error
        return None


class SegmentFile:
    """The bytes of one segment in a named file. Implements kcoord.broker.log.storage.Store. `fault` is the error of a
    failed flush, after which it takes no more appends."""

    __slots__ = ("_files", "_siblings", "_size", "fault", "path")

    def __init__(self, files: SegmentFiles, path: Path, *, size: int = 0, siblings: tuple[str, ...] = ()) -> None:
        """`siblings` are the suffixes of files that belong to this one and are deleted with it."""
        self.path = path
        self.fault: OSError | None = None
        self._files = files
        self._size = size
        self._siblings = siblings

    @property
    def size(self) -> int:
        """The size of the segment in bytes, without what a failed write left."""
        return self._size

    def append(self, content: bytes | bytearray) -> None:
        """Appends these bytes: all of them, or none and OSError is raised."""
        if self.fault:
            raise OSError(self.fault.errno, f"{self.path.name} could not be synced: {self.fault.strerror}")
        files, size = self._files, self._size
        try:
            if self in files.torn:
                self.cut_torn_tail()
            files.filesystem.write(files.descriptor(self), content, size)
        except OSError as error:
            self._drop_unfinished()
            files.on_failed(error)
            raise
        self._size = size + len(content)
        files.on_written(self)

    def read(self, position: int, size: int) -> bytes:
        """Reads up to `size` bytes at this position; fewer at the end of the segment. Raises CorruptSegment if the file
        is shorter than the segment."""
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        files = self._files
        content = files.filesystem.read(files.descriptor(self), size, position)
        if len(content) < size:
            raise CorruptSegment(f"{self.path} ends at {position + len(content)}, not at {self._size}")
        return content

    def cut_torn_tail(self) -> None:
        """Cuts off what a failed write left behind the end. Raises OSError."""
        self._files.filesystem.truncate(self._files.descriptor(self), self._size)
        self._files.torn.pop(self, None)

    def truncate(self, size: int) -> None:
        """Cuts the file to this size in bytes."""
        self._files.filesystem.truncate(self._files.descriptor(self), size)
        self._size = size
        self._files.on_written(self)

    def close(self) -> None:
        """Closes the file; its next use opens it again."""
        self._files.close_descriptor(self)

    def delete(self) -> None:
        """Deletes the file and its siblings. A failure is only logged: the file does no harm but to take disk space."""
        self._files.close_descriptor(self)
        self._files.forget(self)
        for path in (self.path, *map(self.path.with_suffix, self._siblings)):
            try:
                self._files.filesystem.delete(path)
            except OSError as error:
                log.warning("not deleted file=%s error=%r", path, str(error))

    def sync(self) -> OSError | None:
        """Flushes the content to the disk. Returns the error if that failed; the file then takes no more appends."""
        try:
            self._files.filesystem.sync(self._files.descriptor(self))
        except OSError as error:
            self.fault = error
            log.error("not synced file=%s error=%r: nothing more is written to it", self.path, str(error))
            return error
        return None

    def note_renamed(self, path: Path, siblings: tuple[str, ...] = ()) -> None:
        """Notes that the file has another name now. `siblings` are the suffixes of files that are deleted with it."""
        self.path = path
        self._siblings = siblings

    def _drop_unfinished(self) -> None:
        """Cuts off what a failed write left, to give the disk space back."""
        try:
            self._files.filesystem.truncate(self._files.descriptor(self), self._size)
        except OSError:
            self._files.torn[self] = None
        else:
            self._files.torn.pop(self, None)
