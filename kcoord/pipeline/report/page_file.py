"""The file that a report is written to: checked before the work begins, and written as a whole or not at all."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kcoord.admin.offsets.files.documents import is_replaceable
from kcoord.exceptions import InvalidInput
from kcoord.pipeline.tables import check_writable


class BadFile(InvalidInput, ValueError):
    """Raised when the report cannot be written to the file that the user has named."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """The HTML file that a report is written to."""

    path: Path

    def prepare(self, *, replaces: bool = False) -> None:
        """Checks, before the report is made, that the file may be written; `replaces` allows it to exist. Raises
        BadFile, OSError."""
        if self.path.is_dir():
            raise BadFile(f"{self.path} is a folder: --out is a file, such as {self.path / 'report.html'}")
        if self.path.exists() and not replaces:
            raise BadFile(f"{self.path} exists already: name another file, or say --overwrite")
        if not is_replaceable(self.path):
            raise BadFile(f"{self.path} is no regular file: name another one")
        if not self.path.parent.is_dir():
            raise BadFile(f"{self.path.parent}: no such folder")
        check_writable(self.path.parent, named=self.path)

    def write(self, page: str) -> int:
        """Replaces the file atomically by this page and returns its size in bytes. Raises OSError, and then leaves the
        old file as it was."""
        content = page.encode()
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return len(content)


def _umask() -> int:
    """Returns the umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
