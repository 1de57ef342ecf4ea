"""A disk that has only what was synced to it, as after a power cut; by the letter of POSIX, names too.

Files are written normally, so that the server reads what it wrote. A second folder is filled with what would be left
after a power cut, with a number for each file and folder:

    files/<number>   the content that was synced
    names/<number>   of a folder: the names in it when it was last synced, and their numbers
"""

import json
import os
from itertools import count
from pathlib import Path
from typing import Final

from kcoord.storage.filesystem import Filesystem

_ROOT: Final = 0


class ForgetfulFilesystem(Filesystem):
    def __init__(self, folder: Path, synced_copy: Path) -> None:
        """The present contents of the folder count as synced."""
        self._folder = folder
        self._synced_copy = synced_copy
        self._fresh = count(_ROOT + 1)
        self._numbers: dict[int, int] = {}  # By inode.
        self._unsynced: dict[int, int] = {}  # Where the first change begins, by number.
        for part in ("files", "names"):
            (synced_copy / part).mkdir(parents=True)
        folder.mkdir(parents=True, exist_ok=True)
        self._numbers[folder.stat().st_ino] = _ROOT
        self._copy_all(folder)

    def open(self, path: Path) -> int:
        is_new = not path.exists()
        opened = super().open(path)
        if is_new:
            self._numbers[os.fstat(opened).st_ino] = next(self._fresh)
        return opened

    def make_folder(self, folder: Path) -> None:
        super().make_folder(folder)
        self._numbers[folder.stat().st_ino] = next(self._fresh)

    def write(self, file: int, content: bytes | bytearray, position: int) -> None:
        super().write(file, content, position)
        self._changed(file, position)

    def truncate(self, file: int, size: int) -> None:
        super().truncate(file, size)
        self._changed(file, size)

    def sync(self, file: int) -> None:
        number, size = self._number(file), os.fstat(file).st_size
        start = self._unsynced.pop(number, size)
        with (self._synced_copy / "files" / str(number)).open("r+b" if self._is_copied(number) else "w+b") as copy:
            copy.seek(start)
            copy.write(os.pread(file, size - start, start))
            copy.truncate(size)

    def sync_folder(self, folder: Path) -> None:
        names = {path.name: [path.is_dir(), self._number_of(path)] for path in folder.iterdir()}
        written = self._synced_copy / "names.tmp"
        written.write_text(json.dumps(names))
        written.replace(self._synced_copy / "names" / str(self._number_of(folder)))

    def _changed(self, file: int, position: int) -> None:
        number = self._number(file)
        self._unsynced[number] = min(position, self._unsynced.get(number, position))

    def _is_copied(self, number: int) -> bool:
        return (self._synced_copy / "files" / str(number)).exists()

    def _number(self, file: int) -> int:
        return self._numbers[os.fstat(file).st_ino]

    def _number_of(self, path: Path) -> int:
        inode = path.stat().st_ino
        if inode not in self._numbers:  # Another process made it: the lock.
            self._numbers[inode] = next(self._fresh)
        return self._numbers[inode]

    def _copy_all(self, folder: Path) -> None:
        for path in folder.iterdir():
            number = self._number_of(path)
            if path.is_dir():
                self._copy_all(path)
            else:
                (self._synced_copy / "files" / str(number)).write_bytes(path.read_bytes())
        self.sync_folder(folder)


def after_power_cut(synced_copy: Path, folder: Path, number: int = _ROOT) -> None:
    """Makes the folder as a power cut would leave it. Content that was not synced is missing, also if the name is
    there.
    """
    folder.mkdir()
    names = synced_copy / "names" / str(number)
    found = json.loads(names.read_text()) if names.exists() else {}
    for name, (is_folder, inner) in found.items():
        if is_folder:
            after_power_cut(synced_copy, folder / name, inner)
        else:
            content = synced_copy / "files" / str(inner)
            (folder / name).write_bytes(content.read_bytes() if content.exists() else b"")
