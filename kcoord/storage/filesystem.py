"""The system calls that change files, behind one class: a test subclasses it to make any of them fail."""

import os
from pathlib import Path

_NEW_FILE = 0o644


class Filesystem:
    """The file operations of the data folder, as `os` has them; tests subclass it to make them fail. A write is
    complete or fails. Files are descriptors, positions and sizes are bytes, and errors of the system are OSErrors."""

    def open(self, path: Path) -> int:
        """Opens a file for reading and writing, and creates it if need be."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _NEW_FILE)

    def write(self, file: int, content: bytes | bytearray, position: int) -> None:
        """Writes all of the content at this position of the file."""
        done = os.pwrite(file, content, position)
        while done < len(content):
            done += os.pwrite(file, content[done:], position + done)

    def read(self, file: int, size: int, position: int) -> bytes:
        """Reads up to `size` bytes at this position of the file."""
        return os.pread(file, size, position)

    def truncate(self, file: int, size: int) -> None:
        """Cuts the file to this size in bytes."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Flushes the file's content and size to the disk."""
        os.fdatasync(file) if hasattr(os, "fdatasync") else os.fsync(file)

    def sync_folder(self, folder: Path) -> None:
        """Flushes the names in the folder to the disk."""
        opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def make_folder(self, folder: Path) -> None:
        folder.mkdir()

    def rename(self, path: Path, to: Path) -> None:
        path.replace(to)

    def delete(self, path: Path) -> None:
        """Deletes the file if it exists."""
        path.unlink(missing_ok=True)

    def delete_folder(self, folder: Path) -> None:
        """Deletes the folder with all files in it."""
        for path in folder.iterdir():
            self.delete(path)
        folder.rmdir()

    def write_atomically(self, path: Path, content: bytes) -> None:
        """Replaces the file atomically: after a crash it holds either the new content or the old."""
        unfinished = path.with_name(f"{path.name}.tmp")
        file = self.open(unfinished)
        try:
            self.truncate(file, 0)
            self.write(file, content, 0)
            self.sync(file)
        finally:
            os.close(file)
        self.rename(unfinished, path)
        self.sync_folder(path.parent)
