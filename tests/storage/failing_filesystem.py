"""A filesystem whose calls fail, or during one of which the process ends. It replaces kcoord.storage.filesystem."""

import errno
from pathlib import Path

from kcoord.storage.filesystem import Filesystem


class Crash(BaseException):
    """Stands for the end of the process: no code after it runs."""


class FailingFilesystem(Filesystem):
    """Fails as its attributes demand. It counts the calls that change something, and crashes at the `crash_at`-th of
    these.
    """

    def __init__(self, *, crash_at: int | None = None) -> None:
        self.changes = 0
        self.synced: list[str] = []
        self.synced_folders: list[str] = []
        self.room: int | None = None  # How many writes and folders succeed; None means no limit.
        self.cannot_sync = self.cannot_truncate = False
        self._crash_at = crash_at

    def open(self, path: Path) -> int:
        if not path.exists():
            self._change()
        return super().open(path)

    def write(self, file: int, content: bytes | bytearray, position: int) -> None:
        self._change()
        if not self._takes_room():
            super().write(file, content[: len(content) // 2], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, content, position)

    def truncate(self, file: int, size: int) -> None:
        self._change()
        if self.cannot_truncate:
            raise OSError(errno.EIO, "Input/output error")
        super().truncate(file, size)

    def sync(self, file: int) -> None:
        if self.cannot_sync:
            raise OSError(errno.EIO, "Input/output error")
        self.synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        super().sync(file)

    def sync_folder(self, folder: Path) -> None:
        if self.cannot_sync:
            raise OSError(errno.EIO, "Input/output error")
        self.synced_folders.append(folder.name)
        super().sync_folder(folder)

    def make_folder(self, folder: Path) -> None:
        self._change()
        if not self._takes_room():
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        super().make_folder(folder)

    def rename(self, path: Path, to: Path) -> None:
        self._change()
        super().rename(path, to)

    def delete(self, path: Path) -> None:
        if path.exists():
            self._change()
        super().delete(path)

    def _takes_room(self) -> bool:
        if self.room is None:
            return True
        self.room -= 1
        return self.room >= 0

    def _change(self) -> None:
        if self.changes == self._crash_at:
            raise Crash
        self.changes += 1


def open_files_of(folder: Path) -> int:
    """Returns how many descriptors of this process are open in the folder."""
    targets = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sum(target.startswith(f"{folder}/") for target in targets)
