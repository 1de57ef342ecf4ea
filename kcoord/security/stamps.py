"""Whether a file is another than before, as operators may change it while it is in use."""

from pathlib import Path

Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """What changes when the file does; None if there is none. To be taken before the file is read, not afterwards."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
